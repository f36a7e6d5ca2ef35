package ir

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// masking are the operations that a plain causal mask is made of.
var masking = []string{
	"Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "Broadcast", "Concat", "Convert", "Equal", "Gather", "GatherElements", "GatherND",
	"Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Multiply", "NotEqual",
	"Range", "ReduceProd", "Reshape", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select", "Slice", "Squeeze",
	"StridedSlice", "Subtract", "Tile", "Transpose", "Unsqueeze", "VariadicSplit",
}

// Bounds of the numbers in a plain causal mask: axes, counts, and what stands for minus infinity or the end of an axis.
const (
	maxMaskConstant = 64      // elements
	maxMaskNumber   = 16      // more is a window's length
	endOfAxis       = 1 << 30 // and above
)

// CanPage tells why the model's attention must not be paged; nil: it can be. Paging replaces each attention layer with its states by one
// operation that makes a causal mask itself. So the model's own mask must be seen to be the plain causal one: the same for all heads,
// made of attention_mask, of shapes and of numbers that cannot be a window's length. And all state must be that of such layers.
func CanPage(g *Graph, w Weights) error {
	layers := g.Layers("ScaledDotProductAttention")
	if len(layers) == 0 {
		return fmt.Errorf("it has no attention layers of a known kind")
	}
	if states := len(g.Layers("ReadValue")); states != 2*len(layers) {
		return fmt.Errorf("it has %d states for %d attention layers", states, len(layers))
	}
	for _, p := range g.Layers("Parameter") {
		if !slices.ContainsFunc(pageable, func(name string) bool { return slices.Contains(strings.Split(p.Outputs[0].Names, ","), name) }) {
			return fmt.Errorf("it has an input %s", p.Name)
		}
	}
	if n := len(g.Layers("Parameter")); n != len(pageable) {
		return fmt.Errorf("it has %d inputs, not %s", n, strings.Join(pageable, ", "))
	}
	seen := map[int]bool{}
	for _, l := range layers {
		if len(l.Inputs) < 4 || len(l.Inputs) > 5 {
			return fmt.Errorf("%s has %d inputs", l.Name, len(l.Inputs))
		}
		if causal := l.Data["causal"]; causal != "false" && causal != "0" {
			return fmt.Errorf("%s makes a causal mask itself", l.Name)
		}
		pin := l.Inputs[3]
		if pin.Precision != "FP32" || len(pin.Dims) != 4 || pin.Dims[1] != 1 {
			return fmt.Errorf("the mask of %s is %s %v, not one f32 matrix for all heads", l.Name, pin.Precision, pin.Dims)
		}
		source, _ := g.Source(l, 3)
		if err := plainMask(g, w, source, seen); err != nil {
			return fmt.Errorf("the mask of %s: %w", l.Name, err)
		}
	}
	return nil
}

// pageable are the inputs of a model whose attention can be paged.
var pageable = []string{"input_ids", "attention_mask", "position_ids", "beam_idx"}

// plainMask walks back over what l is computed from, as far as attention_mask, shapes and constants.
func plainMask(g *Graph, w Weights, l *Layer, seen map[int]bool) error {
	todo := []*Layer{l}
	for len(todo) > 0 {
		l := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch {
		case l == nil:
			return fmt.Errorf("something in it is not fed")
		case seen[l.ID]:
			continue
		case l.Type == "ShapeOf":
		case l.Type == "Parameter":
			if !slices.Contains(strings.Split(l.Outputs[0].Names, ","), "attention_mask") {
				return fmt.Errorf("it depends on %s", l.Name)
			}
		case l.Type == "Const":
			if err := plainNumber(w, l); err != nil {
				return err
			}
		case !slices.Contains(masking, l.Type):
			return fmt.Errorf("%s is a %s", l.Name, l.Type)
		default:
			for i := range l.Inputs {
				source, _ := g.Source(l, i)
				todo = append(todo, source)
			}
		}
		seen[l.ID] = true
	}
	return nil
}

// plainNumber refuses constants that may be the length of a window, or a mask of their own.
func plainNumber(w Weights, l *Layer) error {
	data, err := w.Bytes(l)
	if err != nil {
		return err
	}
	if len(data) > 8*maxMaskConstant {
		return fmt.Errorf("constant %s is large", l.Name)
	}
	switch kind := strings.ToLower(l.Data["element_type"]); kind {
	case "i32", "i64":
		numbers, err := w.Ints(l)
		if err != nil {
			return err
		}
		for _, n := range numbers {
			if n > maxMaskNumber && n < endOfAxis || n < -maxMaskNumber && n > -endOfAxis {
				return fmt.Errorf("constant %s is %d: a window?", l.Name, n)
			}
		}
	case "f32":
		for ; len(data) >= 4; data = data[4:] {
			// Minus infinity is written in many ways; a window would be a small whole number.
			if n := math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))); n > 1 && n < 1e4 {
				return fmt.Errorf("constant %s is %v: a window?", l.Name, n)
			}
		}
	case "boolean", "u8":
	default:
		return fmt.Errorf("constant %s is %s", l.Name, kind)
	}
	return nil
}
