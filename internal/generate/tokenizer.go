package generate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"signalbox/internal/generate/ir"
	"signalbox/internal/generate/prompt"
	"signalbox/internal/openvino"
)

// tokenizer turns text into tokens and tokens into bytes. It runs on the CPU whatever the model's device is.
type tokenizer struct {
	lib      *openvino.Library
	model    *openvino.CompiledModel
	template *prompt.Template
	cutAt    int      // the number of tokens the model's own tokenizer cuts at; 0: it does not
	tokens   [][]byte // by id, as shown; empty for special ones. Nil when the folder has no detokenizer
	raw      [][]byte // by id, as the vocabulary has them
	special  map[int32]bool
	byText   []string // texts of the special tokens, longest first
	longest  int      // bytes of the longest token
	before   []int32  // what the tokenizer puts before every text
	after    []int32  // and behind

	mu      sync.Mutex
	request *openvino.Request // guarded by mu
}

// openTokenizer reads the tokenizer of the model in dir. Embedding models have no detokenizer and no template.
func openTokenizer(core *openvino.Core, dir string, chat bool) (*tokenizer, error) {
	t := &tokenizer{lib: core.Library(), special: map[int32]bool{}}
	if err := t.compile(core, dir); err != nil {
		return nil, err
	}
	if chat {
		if err := t.readVocabulary(core, dir); err != nil {
			t.close()
			return nil, err
		}
	}
	if err := t.probe(); err != nil {
		t.close()
		return nil, err
	}
	if chat {
		template, err := prompt.Load(dir, t.byText...)
		if err != nil {
			t.close()
			return nil, err
		}
		t.template = template
	}
	return t, nil
}

// compile prepares the tokenizer without the node that cuts long texts.
func (t *tokenizer) compile(core *openvino.Core, dir string) error {
	g, bin, weights, err := openGraph(dir, "openvino_tokenizer")
	if err != nil {
		return err
	}
	defer bin.Close()
	if t.cutAt, err = ir.Uncut(g, weights); err != nil {
		return err
	}
	if t.model, err = compileXML(core, g.Bytes(), bin); err != nil {
		return err
	}
	t.request, err = t.model.NewRequest()
	return err
}

// compileXML compiles a small model for the CPU from changed XML and its weights file.
func compileXML(core *openvino.Core, xml []byte, bin *os.File) (*openvino.CompiledModel, error) {
	data, err := io.ReadAll(io.NewSectionReader(bin, 0, 1<<30))
	if err != nil {
		return nil, err
	}
	weights, err := openvino.TensorOf(core.Library(), data, int64(len(data)))
	if err != nil {
		return nil, err
	}
	model, err := core.ReadModelXML(xml, weights)
	if err != nil {
		weights.Close()
		return nil, err
	}
	defer model.Close()
	return core.Compile(model, "CPU", openvino.Properties{"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": "1"})
}

// readVocabulary takes the tokens' bytes from the detokenizer.
func (t *tokenizer) readVocabulary(core *openvino.Core, dir string) error {
	g, bin, weights, err := openGraph(dir, "openvino_detokenizer")
	if err != nil {
		return err
	}
	defer bin.Close()
	v, err := ir.ReadVocabulary(g, weights)
	if err != nil {
		return err
	}
	t.raw, t.tokens = v.Tokens, slices.Clone(v.Tokens)
	if !v.Plain {
		if t.tokens, err = decodeAll(core, g, bin, v); err != nil {
			return fmt.Errorf("read the vocabulary: %w", err)
		}
	}
	for _, id := range v.Special {
		t.special[id] = true
		if text := string(v.Tokens[id]); text != "" && utf8.ValidString(text) {
			t.byText = append(t.byText, text)
		}
		t.tokens[id] = nil
	}
	slices.SortFunc(t.byText, func(a, b string) int { return len(b) - len(a) })
	t.longest = 1
	for _, token := range t.raw {
		t.longest = max(t.longest, len(token))
	}
	return nil
}

// probe finds what the tokenizer adds to every text: its special tokens around a letter.
func (t *tokenizer) probe() error {
	ids, err := t.run("a")
	if err != nil {
		return err
	}
	for len(ids) > 0 && t.special[ids[0]] {
		t.before, ids = append(t.before, ids[0]), ids[1:]
	}
	for len(ids) > 0 && t.special[ids[len(ids)-1]] {
		t.after, ids = append([]int32{ids[len(ids)-1]}, t.after...), ids[:len(ids)-1]
	}
	return nil
}

// run tokenizes one text, with all that the tokenizer adds.
func (t *tokenizer) run(text string) ([]int32, error) {
	in, err := t.lib.NewStrings(strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.request.SetInput(0, in); err != nil {
		return nil, err
	}
	if err := t.request.Infer(); err != nil {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	out, err := t.request.Tensor("input_ids")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	wide, err := openvino.Data[int64](out)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(wide))
	for i, id := range wide {
		ids[i] = int32(id)
	}
	return ids, nil
}

// bare tokenizes one text without what the tokenizer adds.
func (t *tokenizer) bare(text string) ([]int32, error) {
	if text == "" {
		return nil, nil
	}
	ids, err := t.run(text)
	if err != nil {
		return nil, err
	}
	ids = trimPrefix(ids, t.before)
	if n := len(ids) - len(t.after); len(t.after) > 0 && n >= 0 && slices.Equal(ids[n:], t.after) {
		ids = ids[:n]
	}
	return ids, nil
}

func trimPrefix(ids, prefix []int32) []int32 {
	if len(ids) >= len(prefix) && slices.Equal(ids[:len(prefix)], prefix) {
		return ids[len(prefix):]
	}
	return ids
}

// encodeRaw tokenizes text as it is: special tokens in it count, and the tokenizer adds its own.
func (t *tokenizer) encodeRaw(text string) ([]int32, error) {
	ids, err := t.bare(text)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(t.before), ids...), nil
}

// errControl is the error for text in which a control token survives.
var errControl = errors.New("the text contains a control token of this model that cannot be taken as plain text")

// encode tokenizes a rendered conversation. The text is tokenized as a whole, as the model saw it in training; only inside
// what looks like a special token but came from a message is it cut in two, so that no special token comes of it.
func (t *tokenizer) encode(segments []prompt.Segment) ([]int32, error) {
	text, literal := join(segments)
	if len(literal) == 0 {
		return t.bare(text)
	}
	var ids []int32
	meant := 0
	for _, piece := range t.cut(text, literal) {
		part, err := t.bare(piece.text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, part...)
		meant += piece.specials
	}
	found := 0
	for _, id := range ids {
		if t.special[id] {
			found++
		}
	}
	if found > meant {
		return nil, errControl
	}
	return ids, nil
}

// span is a range of bytes.
type span struct{ from, to int }

func join(segments []prompt.Segment) (string, []span) {
	var text strings.Builder
	var literal []span
	for _, s := range segments {
		if s.Literal && s.Text != "" {
			literal = append(literal, span{text.Len(), text.Len() + len(s.Text)})
		}
		text.WriteString(s.Text)
	}
	return text.String(), literal
}

// piece is a part of a text that is tokenized by itself.
type piece struct {
	text     string
	specials int // how many special tokens the template wrote in it
}

// cut divides text so that no special token is whole in a piece unless the template wrote all of it.
func (t *tokenizer) cut(text string, literal []span) []piece {
	var pieces []piece
	start, meant := 0, 0
	for at := 0; at < len(text); {
		size := t.specialAt(text[at:])
		if size == 0 {
			at++
			continue
		}
		hit, foreign := overlap(literal, span{at, at + size})
		if !foreign {
			meant++
			at += size
			continue
		}
		middle := max(at, hit.from) + (min(at+size, hit.to)-max(at, hit.from))/2
		for middle < len(text) && !utf8.RuneStart(text[middle]) {
			middle++
		}
		middle = max(middle, at+1)
		pieces = append(pieces, piece{text[start:middle], meant})
		start, meant, at = middle, 0, middle
	}
	return append(pieces, piece{text[start:], meant})
}

// specialAt is the length of the special token that text begins with, 0 without one.
func (t *tokenizer) specialAt(text string) int {
	for _, special := range t.byText {
		if strings.HasPrefix(text, special) {
			return len(special)
		}
	}
	return 0
}

func overlap(literal []span, s span) (span, bool) {
	for _, l := range literal {
		if l.from < s.to && s.from < l.to {
			return l, true
		}
	}
	return span{}, false
}

// text is what token id shows; nothing for special tokens and ids beyond the vocabulary.
func (t *tokenizer) text(id int32) []byte {
	if id < 0 || int(id) >= len(t.tokens) {
		return nil
	}
	return t.tokens[id]
}

// name is what token id is called, also when it shows nothing.
func (t *tokenizer) name(id int32) []byte {
	if text := t.text(id); len(text) > 0 || id < 0 || int(id) >= len(t.raw) {
		return text
	}
	return t.raw[id]
}

// ends lists the special tokens that end a turn by their usual names, for folders whose config forgets some.
func (t *tokenizer) ends() []int32 {
	usual := []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "</s>",
		"<|return|>", "<|call|>", "<|eot|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>"}
	var ids []int32
	for id := range t.special {
		if slices.Contains(usual, string(t.raw[id])) {
			ids = append(ids, id)
		}
	}
	return ids
}

// markers are the special tokens with these texts.
func (t *tokenizer) markers(texts []string) map[int32]bool {
	if len(texts) == 0 {
		return nil
	}
	ids := map[int32]bool{}
	for id := range t.special {
		if slices.Contains(texts, string(t.raw[id])) {
			ids[id] = true
		}
	}
	return ids
}

func (t *tokenizer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.request != nil {
		t.request.Close()
	}
	t.model.Close()
}
