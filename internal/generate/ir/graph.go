// Package ir reads and changes the XML of OpenVINO models: enough of it to find a node, to lead an edge elsewhere, and to
// add a node. The weights stay in their file.
//
//	g, err := ir.Read("openvino_model.xml")
//	err = ir.SliceHead(g)
//	xml := g.Bytes()
//
// Model files come from strangers: sizes, depths and offsets are checked before they are used, and what is malformed is an
// error.
package ir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Bounds. The largest models seen have some 20 MB of XML and 30,000 layers.
const (
	maxBytes  = 256 << 20
	maxDepth  = 64
	maxLayers = 1 << 20
)

// Graph is a model's layers and edges. Bodies of loops and conditions inside a layer are left alone.
type Graph struct {
	text   []byte
	layers []*Layer // in file order
	byID   map[int]*Layer
	edges  []*Edge
	into   map[Port]*Edge // by the input it ends at

	layersEnd, edgesEnd int // where </layers> and </edges> begin
	nextID              int
	edits               []edit
	added               strings.Builder // layers
	joined              strings.Builder // edges
}

// Layer is one node.
type Layer struct {
	ID      int
	Name    string
	Type    string
	Names   string            // of a Result: output_names
	Data    map[string]string // attributes
	Inputs  []Pin
	Outputs []Pin
}

// Pin is a declared input or output of a layer.
type Pin struct {
	ID        int
	Precision string
	Names     string // tensor names, separated by commas
	Dims      []int64
}

// Port is one input or output of one layer.
type Port struct{ Layer, Pin int }

// Edge leads from an output to an input.
type Edge struct {
	From, To   Port
	start, end int
}

type edit struct {
	start, end int
	text       string
}

// IsXML tells whether a file begins like OpenVINO's XML. OpenVINO picks its reader by content, not by name: a file that is
// something else must not reach it.
func IsXML(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return bytes.HasPrefix(head, []byte("<?xml")) || bytes.HasPrefix(head, []byte("<net"))
}

// Read parses the file at path.
func Read(path string) (*Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	g, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return g, nil
}

// Parse reads a model's XML. The graph keeps text, which must not change.
func Parse(text []byte) (*Graph, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("larger than %d MB", maxBytes>>20)
	}
	if !IsXML(text) {
		return nil, errors.New("not an OpenVINO model: it does not begin with <?xml or <net")
	}
	g := &Graph{text: text, byID: map[int]*Layer{}, into: map[Port]*Edge{}}
	p := parser{graph: g, scan: scanner{text: text}}
	if err := p.run(); err != nil {
		return nil, err
	}
	if g.layersEnd == 0 || g.edgesEnd == 0 {
		return nil, errors.New("not an OpenVINO model: it has no layers or no edges")
	}
	return g, nil
}

// parser fills a graph from tags. path is the chain of open tags.
type parser struct {
	graph *Graph
	scan  scanner
	path  []string
	layer *Layer
	pins  *[]Pin
	dims  int // where the text of an open <dim> begins
}

func (p *parser) run() error {
	for {
		t, ok, err := p.scan.next()
		if err != nil {
			return err
		}
		if !ok {
			if len(p.path) > 0 {
				return fmt.Errorf("<%s> is not closed", p.path[len(p.path)-1])
			}
			return nil
		}
		if err := p.take(t); err != nil {
			return err
		}
	}
}

func (p *parser) take(t tag) error {
	if t.closing {
		if n := len(p.path); n == 0 || p.path[n-1] != t.name {
			return fmt.Errorf("</%s> at byte %d closes nothing", t.name, t.start)
		}
		err := p.leave(t)
		p.path = p.path[:len(p.path)-1]
		return err
	}
	if len(p.path) >= maxDepth {
		return fmt.Errorf("more than %d tags deep", maxDepth)
	}
	p.path = append(p.path, t.name)
	if err := p.enter(t); err != nil {
		return err
	}
	if t.empty {
		p.path = p.path[:len(p.path)-1]
	}
	return nil
}

// at tells whether the open tags are exactly these.
func (p *parser) at(path ...string) bool { return slices.Equal(p.path, path) }

func (p *parser) enter(t tag) error {
	switch {
	case p.at("net", "layers", "layer"):
		return p.newLayer(t)
	case p.at("net", "edges", "edge"):
		return p.newEdge(t)
	case p.layer == nil:
	case p.at("net", "layers", "layer", "data"):
		t.each(func(name, value string) { p.layer.Data[name] = value })
	case p.at("net", "layers", "layer", "input"):
		p.pins = &p.layer.Inputs
	case p.at("net", "layers", "layer", "output"):
		p.pins = &p.layer.Outputs
	case len(p.path) == 5 && p.path[4] == "port" && p.pins != nil:
		id, err := strconv.Atoi(t.get("id"))
		if err != nil {
			return fmt.Errorf("port of layer %d: id: %w", p.layer.ID, err)
		}
		*p.pins = append(*p.pins, Pin{ID: id, Precision: t.get("precision"), Names: t.get("names")})
	case len(p.path) == 6 && p.path[5] == "dim":
		p.dims = t.end
	}
	return nil
}

func (p *parser) leave(t tag) error {
	switch {
	case p.at("net", "layers"):
		p.graph.layersEnd = t.start
	case p.at("net", "edges"):
		p.graph.edgesEnd = t.start
	case p.at("net", "layers", "layer"):
		p.layer = nil
	case p.at("net", "layers", "layer", "input"), p.at("net", "layers", "layer", "output"):
		p.pins = nil
	case len(p.path) == 6 && p.path[5] == "dim" && p.pins != nil && len(*p.pins) > 0:
		n, err := strconv.ParseInt(string(bytes.TrimSpace(p.graph.text[p.dims:t.start])), 10, 64)
		if err != nil {
			return fmt.Errorf("layer %d: dimension: %w", p.layer.ID, err)
		}
		pin := &(*p.pins)[len(*p.pins)-1]
		pin.Dims = append(pin.Dims, n)
	}
	return nil
}

func (p *parser) newLayer(t tag) error {
	id, err := strconv.Atoi(t.get("id"))
	if err != nil || id < 0 || id > 1<<30 {
		return fmt.Errorf("layer at byte %d has no usable id", t.start)
	}
	if p.graph.byID[id] != nil {
		return fmt.Errorf("two layers have id %d", id)
	}
	if len(p.graph.layers) >= maxLayers {
		return fmt.Errorf("more than %d layers", maxLayers)
	}
	l := &Layer{ID: id, Name: t.get("name"), Type: t.get("type"), Names: t.get("output_names"), Data: map[string]string{}}
	p.graph.layers = append(p.graph.layers, l)
	p.graph.byID[id] = l
	p.graph.nextID = max(p.graph.nextID, id+1)
	if !t.empty {
		p.layer = l
	}
	return nil
}

func (p *parser) newEdge(t tag) error {
	e := &Edge{start: t.start, end: t.end}
	var failed error
	t.each(func(name, value string) {
		n, err := strconv.Atoi(value)
		if err != nil {
			failed = err
		}
		switch name {
		case "from-layer":
			e.From.Layer = n
		case "from-port":
			e.From.Pin = n
		case "to-layer":
			e.To.Layer = n
		case "to-port":
			e.To.Pin = n
		}
	})
	if failed != nil {
		return fmt.Errorf("edge at byte %d: %w", t.start, failed)
	}
	p.graph.edges = append(p.graph.edges, e)
	p.graph.into[e.To] = e
	return nil
}

// Layers lists the layers of a type, in file order.
func (g *Graph) Layers(kind string) []*Layer {
	var found []*Layer
	for _, l := range g.layers {
		if l.Type == kind {
			found = append(found, l)
		}
	}
	return found
}

// Source returns the layer and the port that feed input number index of layer (in the order its inputs are declared);
// nil when nothing does.
func (g *Graph) Source(layer *Layer, index int) (*Layer, Port) {
	if index >= len(layer.Inputs) {
		return nil, Port{}
	}
	e := g.into[Port{layer.ID, layer.Inputs[index].ID}]
	if e == nil {
		return nil, Port{}
	}
	return g.byID[e.From.Layer], e.From
}

// Readers lists the layers that output index of layer leads to.
func (g *Graph) Readers(layer *Layer, index int) []*Layer {
	if index >= len(layer.Outputs) {
		return nil
	}
	from := Port{layer.ID, layer.Outputs[index].ID}
	var found []*Layer
	for _, e := range g.edges {
		if to := g.byID[e.To.Layer]; e.From == from && to != nil {
			found = append(found, to)
		}
	}
	return found
}

// Feed makes from the source of input number index of layer.
func (g *Graph) Feed(layer *Layer, index int, from Port) error {
	if index >= len(layer.Inputs) {
		return fmt.Errorf("layer %s has no input %d", layer.Name, index)
	}
	to := Port{layer.ID, layer.Inputs[index].ID}
	e := g.into[to]
	if e == nil {
		return fmt.Errorf("input %d of layer %s is not fed", index, layer.Name)
	}
	g.lead(e, from)
	return nil
}

// Bypass makes everything that reads output out of layer read what feeds its input in.
func (g *Graph) Bypass(layer *Layer, in, out int) error {
	source, from := g.Source(layer, in)
	if out >= len(layer.Outputs) || source == nil {
		return fmt.Errorf("layer %s cannot be left out", layer.Name)
	}
	old := Port{layer.ID, layer.Outputs[out].ID}
	for _, e := range g.edges {
		if e.From == old {
			g.lead(e, from)
		}
	}
	return nil
}

func (g *Graph) lead(e *Edge, from Port) {
	e.From = from
	g.edits = slices.DeleteFunc(g.edits, func(old edit) bool { return old.start == e.start })
	g.edits = append(g.edits, edit{e.start, e.end, edgeText(from, e.To)})
}

func edgeText(from, to Port) string {
	return fmt.Sprintf(`<edge from-layer="%d" from-port="%d" to-layer="%d" to-port="%d"/>`, from.Layer, from.Pin, to.Layer, to.Pin)
}

// Add appends a layer whose XML is format with the new layer's id and args filled in, fed by sources in order at ports 0, 1, ...
func (g *Graph) Add(format string, sources []Port, args ...any) int {
	id := g.nextID
	g.nextID++
	fmt.Fprintf(&g.added, format, append([]any{id}, args...)...)
	for i, from := range sources {
		g.joined.WriteString(edgeText(from, Port{id, i}))
	}
	return id
}

// Bytes is the XML with all changes.
func (g *Graph) Bytes() []byte {
	edits := append(slices.Clone(g.edits),
		edit{g.layersEnd, g.layersEnd, g.added.String()}, edit{g.edgesEnd, g.edgesEnd, g.joined.String()})
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	out := make([]byte, 0, len(g.text)+g.added.Len()+g.joined.Len()+64*len(edits))
	at := 0
	for _, e := range edits {
		out = append(out, g.text[at:e.start]...)
		out = append(out, e.text...)
		at = e.end
	}
	return append(out, g.text[at:]...)
}
