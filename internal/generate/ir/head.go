package ir

import (
	"fmt"
	"slices"
	"strings"
)

// Positions is the input that SliceHead adds: the positions in this inference's tokens whose logits are wanted, i64: for each row
// [rows, wanted, 1], or, of a list of tokens, [wanted, 1].
const Positions = "signalbox_positions"

// passing are the operations that may stand between the head's MatMul and the logits: scaling, soft-capping, bias.
var passing = []string{"Convert", "Multiply", "Divide", "Tanh", "Add", "Subtract"}

// SliceHead makes a language model compute logits only where Positions asks. Without it the head multiplies every token of a
// prompt by the whole vocabulary, for half of the prefill's time, and only the last row is ever used.
// GatherND needs no constants, which an IR keeps in its weights file. The error says why a model cannot be sliced; the graph
// is then as it was. list: the model will get a list of tokens, in its first dimension, and not rows of them.
func SliceHead(g *Graph, list bool) error {
	result := logits(g)
	if result == nil {
		return fmt.Errorf("no output is called logits")
	}
	head, err := matMul(g, result)
	if err != nil {
		return err
	}
	if rank := len(head.Inputs[0].Dims); rank != 3 {
		return fmt.Errorf("the head's input has rank %d, not 3", rank)
	}
	if head.Data["transpose_a"] == "true" || head.Data["transpose_a"] == "1" {
		return fmt.Errorf("the head's input is transposed")
	}
	_, hidden := g.Source(head, 0)
	pin := head.Inputs[0]
	shape, batch := []int64{-1, -1, 1}, 1
	if list {
		shape, batch = shape[1:], 0
	}
	text := strings.NewReplacer("-1", "?", " ", ",", "[", "", "]", "").Replace(fmt.Sprint(shape))
	positions := g.Add(`<layer id="%d" name="`+Positions+`" type="Parameter" version="opset1"><data shape="%s" element_type="i64"/>`+
		`<output><port id="0" precision="I64" names="`+Positions+`">%s</port></output></layer>`, nil, text, dims(shape))
	hiddenDims := dims([]int64{-1, -1, pin.Dims[2]})
	gather := g.Add(`<layer id="%d" name="signalbox_gather" type="GatherND" version="opset8"><data batch_dims="%[2]d"/>`+
		`<input><port id="0" precision="%[3]s">%[4]s</port><port id="1" precision="I64">%[5]s</port></input>`+
		`<output><port id="2" precision="%[3]s">%[4]s</port></output></layer>`,
		[]Port{hidden, {positions, 0}}, batch, pin.Precision, hiddenDims, dims(shape))
	return g.Feed(head, 0, Port{gather, 2})
}

// dims is a shape as an IR writes that of a port.
func dims(shape []int64) string {
	var text strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&text, "<dim>%d</dim>", n)
	}
	return text.String()
}

// logits is the result called logits, or the only one.
func logits(g *Graph) *Layer {
	results := g.Layers("Result")
	for _, r := range results {
		source, from := g.Source(r, 0)
		names := strings.Split(r.Name+","+r.Names, ",")
		if source != nil {
			for _, pin := range source.Outputs {
				if pin.ID == from.Pin {
					names = append(names, strings.Split(pin.Names, ",")...)
				}
			}
		}
		if slices.Contains(names, "logits") {
			return r
		}
	}
	if len(results) == 1 {
		return results[0]
	}
	return nil
}

// matMul follows the data from result back to the head's MatMul.
func matMul(g *Graph, result *Layer) (*Layer, error) {
	at, _ := g.Source(result, 0)
	for range 12 {
		if at == nil {
			break
		}
		if at.Type == "MatMul" && len(at.Inputs) == 2 {
			return at, nil
		}
		if !slices.Contains(passing, at.Type) {
			return nil, fmt.Errorf("%s (%s) stands between the head and the logits", at.Name, at.Type)
		}
		next, _ := g.Source(at, 0)
		if next != nil && constant(g, next) {
			next, _ = g.Source(at, 1)
		}
		at = next
	}
	return nil, fmt.Errorf("the head's MatMul was not found")
}

// constant tells whether l is a constant, perhaps converted.
func constant(g *Graph, l *Layer) bool {
	for range 3 {
		if l == nil || l.Type == "Const" {
			return l != nil
		}
		if l.Type != "Convert" {
			return false
		}
		l, _ = g.Source(l, 0)
	}
	return false
}
