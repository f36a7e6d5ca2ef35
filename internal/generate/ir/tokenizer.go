package ir

// Uncut takes out of a tokenizer what cuts long texts without a word: GenAI's Minimum(length, 8192) and the Truncate operation of
// openvino_tokenizers. It returns the number of tokens the tokenizer was cutting at, 0 when it did not or does not tell.
func Uncut(g *Graph, w Weights) (limit int, err error) {
	for _, l := range g.Layers("Minimum") {
		for in := range 2 {
			source, _ := g.Source(l, in)
			if source == nil || source.Type != "Const" {
				continue
			}
			value, err := w.Ints(source)
			if err != nil {
				return 0, err
			}
			if len(value) != 1 || value[0] < 1 {
				continue
			}
			if err := g.Bypass(l, 1-in, 0); err != nil {
				return 0, err
			}
			limit = int(value[0])
		}
	}
	for _, l := range g.Layers("Truncate") {
		if err := disable(g, l); err != nil {
			return 0, err
		}
	}
	return limit, nil
}

// disable makes a Truncate operation cut nothing. Its length, the input behind those it passes on, is a constant, or a Select
// between a length and "none" by a variable: then both become "none", for a variable that nothing reads breaks the model.
func disable(g *Graph, truncate *Layer) error {
	length, _ := g.Source(truncate, len(truncate.Outputs))
	if length != nil && length.Type == "Select" {
		if none, from := g.Source(length, 2); none != nil {
			return g.Feed(length, 1, from)
		}
	}
	for i := range truncate.Outputs {
		if err := g.Bypass(truncate, i, i); err != nil {
			return err
		}
	}
	return nil
}

// Vocabulary is what a detokenizer knows about its tokens.
type Vocabulary struct {
	Tokens  [][]byte // the bytes by token id, as the model's own vocabulary has them
	Special []int32  // ids that the detokenizer leaves out: control tokens
	Plain   bool     // Tokens are the final bytes: nothing between vocabulary and text changes them
}

// ReadVocabulary reads the constants that feed a detokenizer's VocabDecoder.
func ReadVocabulary(g *Graph, w Weights) (Vocabulary, error) {
	decoders := g.Layers("VocabDecoder")
	if len(decoders) != 1 {
		return Vocabulary{}, errVocabulary("it has no VocabDecoder")
	}
	decoder := decoders[0]
	source := func(i int) *Layer { l, _ := g.Source(decoder, i); return l }
	begins, err := w.Ints(source(1))
	if err != nil {
		return Vocabulary{}, err
	}
	ends, err := w.Ints(source(2))
	if err != nil {
		return Vocabulary{}, err
	}
	text, err := w.Bytes(source(3))
	if err != nil {
		return Vocabulary{}, err
	}
	if len(begins) != len(ends) || len(begins) == 0 {
		return Vocabulary{}, errVocabulary("its tokens do not line up")
	}
	v := Vocabulary{Tokens: make([][]byte, len(begins)), Plain: plain(g, decoder)}
	for i := range begins {
		if begins[i] < 0 || ends[i] < begins[i] || ends[i] > int64(len(text)) {
			return Vocabulary{}, errVocabulary("a token lies outside its text")
		}
		v.Tokens[i] = text[begins[i]:ends[i]:ends[i]]
	}
	v.Special, err = special(g, w, decoder, len(begins))
	return v, err
}

type errVocabulary string

func (e errVocabulary) Error() string { return "the detokenizer cannot be read: " + string(e) }

// special reads the fifth input, the ids to leave out: a constant, perhaps behind a Slice that switches it off.
func special(g *Graph, w Weights, decoder *Layer, size int) ([]int32, error) {
	l, _ := g.Source(decoder, 4)
	for l != nil && l.Type != "Const" {
		l, _ = g.Source(l, 0)
	}
	if l == nil {
		return nil, nil
	}
	ids, err := w.Ints(l)
	if err != nil {
		return nil, err
	}
	var out []int32
	for _, id := range ids {
		if id >= 0 && id < int64(size) {
			out = append(out, int32(id))
		}
	}
	return out, nil
}

// plain tells whether the decoded tokens are only joined, checked and packed.
func plain(g *Graph, decoder *Layer) bool {
	at := decoder
	for range 4 {
		next := g.Readers(at, 0)
		if len(next) != 1 {
			return false
		}
		switch next[0].Type {
		case "StringTensorPack":
			return true
		case "FuzeRagged", "UTF8Validate":
			at = next[0]
		default:
			return false
		}
	}
	return false
}

// CutText makes a detokenizer give begins, ends and bytes of its texts instead of strings, which the C API cannot read, and
// before UTF8Validate, which would destroy half characters.
func CutText(g *Graph) error {
	packs, results := g.Layers("StringTensorPack"), g.Layers("Result")
	if len(packs) != 1 || len(results) != 1 {
		return errVocabulary("it does not end in one text")
	}
	at := packs[0]
	if before, _ := g.Source(at, 0); before != nil && before.Type == "UTF8Validate" {
		at = before
	}
	for i, name := range []string{"begins", "ends", "bytes"} {
		source, from := g.Source(at, i)
		if source == nil {
			return errVocabulary("its text is not fed")
		}
		if i == 0 {
			if err := g.Feed(results[0], 0, from); err != nil {
				return err
			}
			continue
		}
		g.Add(`<layer id="%d" name="`+name+`" type="Result" version="opset1"><input><port id="0" precision="I32"><dim>-1</dim></port></input></layer>`,
			[]Port{from})
	}
	return nil
}
