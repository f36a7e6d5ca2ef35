package models

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"signalbox/backend/llm"
)

// graph is what openvino_model.xml tells about a model without its weights.
type graph struct {
	layers      int
	beam        bool             // it has the input beam_idx
	remembers   bool             // it keeps its cache in variables (ReadValue)
	elements    map[string]int64 // of weights, by their type in the file
	matrices    map[string]int64 // of those, in matrices
	grouped     int64            // elements of 4-bit weights that are scaled in groups
	groupSize   int64            // the smallest such group
	weightBytes int64            // what the .bin must have
	version     string           // of the format
	runtime     string           // that wrote it; empty: not said
}

const (
	largestXML  = 512 << 20
	mostLayers  = 1 << 20
	deepestXML  = 64
	largestText = 1 << 20 // of an attribute: chat templates are attributes
)

// readGraph reads the file as a stream: it may be large, and comes from others.
func readGraph(path string) (graph, error) {
	g := graph{elements: map[string]int64{}, matrices: map[string]int64{}}
	layer := map[string]string{}
	err := eachElement(path, func(name string, depth int, attributes map[string]string) error {
		switch {
		case depth == 0 && name != "net":
			return fmt.Errorf("it begins with <%s>, not <net>", name)
		case depth == 0:
			g.version = attributes["version"]
		case name == "Runtime_version" && depth == 2:
			g.runtime = attributes["value"]
		case name == "layer" && depth == 2:
			layer = attributes
			g.layers++
			if g.layers > mostLayers {
				return errors.New("it has too many layers")
			}
			g.beam = g.beam || layer["type"] == "Parameter" && layer["name"] == "beam_idx"
			g.remembers = g.remembers || layer["type"] == "ReadValue"
		case name == "data" && depth == 3 && layer["type"] == "Const":
			return g.addConstant(layer["name"], attributes)
		}
		return nil
	})
	if err == nil && g.layers == 0 {
		err = errors.New("it has no layers")
	}
	return g, err
}

// eachElement calls visit for each element that begins, with its depth from 0.
func eachElement(path string, visit func(name string, depth int, attributes map[string]string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d := xml.NewDecoder(io.LimitReader(f, largestXML))
	for depth := 0; ; {
		t, err := d.RawToken()
		switch {
		case errors.Is(err, io.EOF) && depth == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("it ends in the middle")
		case err != nil:
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			attributes := make(map[string]string, len(t.Attr))
			for _, a := range t.Attr {
				if len(a.Value) <= largestText {
					attributes[a.Name.Local] = a.Value
				}
			}
			if err := visit(t.Name.Local, depth, attributes); err != nil {
				return err
			}
			if depth++; depth > deepestXML {
				return errors.New("it is nested too deep")
			}
		case xml.EndElement:
			if depth--; depth < 0 {
				return errors.New("it closes more than it opens")
			}
		}
	}
}

// addConstant counts a constant: its place in the .bin, and its elements if it is a weight.
func (g *graph) addConstant(name string, data map[string]string) error {
	offset, err1 := strconv.ParseInt(data["offset"], 10, 64)
	size, err2 := strconv.ParseInt(data["size"], 10, 64)
	if err := errors.Join(err1, err2); err != nil || offset < 0 || size < 0 || offset > math.MaxInt64-size {
		return fmt.Errorf("the constant %.80q has no place in the weights", name)
	}
	g.weightBytes = max(g.weightBytes, offset+size)
	dims, count := shape(data["shape"])
	kind := data["element_type"]
	if bits[kind] == 0 || count*bits[kind] > size*8+7 {
		return nil // no weight, or a shape that its bytes deny
	}
	// A scale or zero point has one element a channel or group; tables below a cache line are constants of the graph.
	scale := strings.Contains(name, "scale") || strings.Contains(name, "zero_point") || len(dims) > 1 && dims[len(dims)-1] == 1
	if scale || count < 64 {
		return nil
	}
	g.elements[kind] += count
	if len(dims) < 2 || dims[0] == 1 {
		return nil
	}
	g.matrices[kind] += count
	if bits[kind] == 4 && len(dims) == 3 {
		g.grouped += count
		if group := dims[2]; g.groupSize == 0 || group < g.groupSize {
			g.groupSize = group
		}
	}
	return nil
}

// bits are the sizes of the types that weights have.
var bits = map[string]int64{
	"i4": 4, "u4": 4, "nf4": 4, "f4e2m1": 4, "i8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8, "f16": 16, "bf16": 16, "f32": 32,
}

// shape reads "576, 9, 64"; what is no shape has no elements.
func shape(text string) (dims []int64, count int64) {
	if text == "" {
		return nil, 1
	}
	count = 1
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || n < 0 || n > 1<<40 || count > (1<<50)/max(1, n) {
			return nil, 0
		}
		dims = append(dims, n)
		count *= n
	}
	return dims, count
}

// generates tells whether the graph is that of a language model with its cache inside.
func (g graph) generates() bool { return g.beam || g.remembers }

func (g graph) parameters() (sum int64) {
	for _, n := range g.elements {
		sum += n
	}
	return sum
}

// weights is the type that most elements of matrices have.
func (g graph) weights() (kind string) {
	for k, n := range g.matrices {
		if n > g.matrices[kind] || n == g.matrices[kind] && k < kind {
			kind = k
		}
	}
	return kind
}

// quantization is the label of the weights: i4 is symmetric, u4 has zero points.
func (g graph) quantization() string {
	switch kind := g.weights(); kind {
	case "i4":
		return "INT4_SYM"
	case "u4":
		return "INT4_ASYM"
	case "i8":
		return "INT8_SYM"
	case "u8":
		return "INT8_ASYM"
	default:
		return strings.ToUpper(kind)
	}
}

// What NPUs take. Group-quantised models above 3 B fail to compile, 14 B ones do not fit at all (field report 5).
const (
	largestGrouped     = 3_200_000_000
	largestChannelWise = 10_000_000_000
)

// fitness tells whether NPUs run the model: int4, symmetric, scaled by channel or in groups of 64 or 128, and not too large.
// Even a little u4 fails there, at the first inference.
func (g graph) fitness(kind string) Fitness {
	unfit := func(format string, args ...any) Fitness { return Fitness{Reason: fmt.Sprintf(format, args...)} }
	weights, parameters := g.weights(), g.parameters()
	switch {
	case kind == KindEmbedding:
		return unfit("embedding models do not run on %ss yet", llm.NPU)
	case !g.generates():
		return unfit("it was exported without its cache inside")
	case g.matrices["u4"] > 0:
		return unfit("its weights are int4 asymmetric, NPUs take symmetric ones")
	case weights != "i4":
		return unfit("its weights are %s, NPUs take INT4_SYM", g.quantization())
	case g.grouped > 0 && g.groupSize != 64 && g.groupSize != 128:
		return unfit("its weights are in groups of %d, NPUs take groups of 64 or 128, or whole channels", g.groupSize)
	case g.grouped > 0 && parameters > largestGrouped:
		return unfit("it has %s parameters with weights in groups, NPUs take these up to %s and larger models by whole channels",
			shortCount(parameters), shortCount(largestGrouped))
	case parameters > largestChannelWise:
		return unfit("it has %s parameters, NPUs take up to %s", shortCount(parameters), shortCount(largestChannelWise))
	case g.grouped > 0:
		return Fitness{OK: true, Reason: fmt.Sprintf("its weights are int4 symmetric in groups of %d", g.groupSize)}
	}
	return Fitness{OK: true, Reason: "its weights are int4 symmetric by whole channels"}
}

// tokenizerTemplate is the chat template that OpenVINO's converter leaves in the tokenizer; "" when there is none.
func tokenizerTemplate(dir string) (template string) {
	eachElement(filepath.Join(dir, "openvino_tokenizer.xml"), func(name string, depth int, attributes map[string]string) error {
		if name == "chat_template" && depth == 2 {
			template = attributes["value"]
		}
		return nil
	})
	return template
}

// Graph is what a model's openvino_model.xml tells before its weights are there.
type Graph struct {
	Version      string // of the format: "11"
	Runtime      string // that wrote it, "2026.1.0-..."; empty: not said
	Quantization string
	Parameters   int64
	NPU          Fitness
}

// ReadGraph reads an openvino_model.xml that lies alone.
func ReadGraph(path string) (Graph, error) {
	g, err := readGraph(path)
	if err != nil {
		return Graph{}, err
	}
	kind := KindEmbedding
	if g.generates() {
		kind = KindChat
	}
	return Graph{g.version, g.runtime, g.quantization(), g.parameters(), g.fitness(kind)}, nil
}
