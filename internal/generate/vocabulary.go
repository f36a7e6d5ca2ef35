package generate

import (
	"bytes"
	"fmt"
	"os"

	"signalbox/internal/generate/ir"
	"signalbox/internal/openvino"
)

// decodeAll finds what each token shows where the detokenizer changes the vocabulary's bytes on the way (space marks, byte
// fallback): it is run over every token, behind an anchor, since some detokenizers drop a space at the beginning of a text.
func decodeAll(core *openvino.Core, g *ir.Graph, bin *os.File, v ir.Vocabulary) ([][]byte, error) {
	anchor := anchorOf(v)
	if err := ir.CutText(g); err != nil {
		return nil, err
	}
	model, err := compileXML(core, g.Bytes(), bin)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	request, err := model.NewRequest()
	if err != nil {
		return nil, err
	}
	defer request.Close()
	alone, err := decodeRows(core, request, []int64{anchor, anchor}, 2, 1)
	if err != nil {
		return nil, err
	}
	pairs := make([]int64, 0, 2*len(v.Tokens))
	for id := range v.Tokens {
		pairs = append(pairs, anchor, int64(id))
	}
	tokens, err := decodeRows(core, request, pairs, len(v.Tokens), 2)
	if err != nil {
		return nil, err
	}
	for i, token := range tokens {
		tokens[i] = bytes.TrimPrefix(token, alone[0])
	}
	return tokens, nil
}

// anchorOf is a token of one letter, which nothing changes.
func anchorOf(v ir.Vocabulary) int64 {
	for id, token := range v.Tokens {
		if len(token) == 1 && (token[0] >= 'a' && token[0] <= 'z' || token[0] >= 'A' && token[0] <= 'Z') {
			return int64(id)
		}
	}
	return 0
}

// decodeRows runs a cut detokenizer over rows of tokens.
func decodeRows(core *openvino.Core, request *openvino.Request, ids []int64, rows, width int) ([][]byte, error) {
	in, err := openvino.TensorOf(core.Library(), ids, int64(rows), int64(width))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := request.SetInput(0, in); err != nil {
		return nil, err
	}
	if err := request.Infer(); err != nil {
		return nil, err
	}
	begins, err := output[int32](request, 0)
	if err != nil {
		return nil, err
	}
	ends, err := output[int32](request, 1)
	if err != nil {
		return nil, err
	}
	text, err := output[uint8](request, 2)
	if err != nil {
		return nil, err
	}
	if len(begins) != rows || len(ends) != rows {
		return nil, fmt.Errorf("%d rows of tokens gave %d texts", rows, len(begins))
	}
	out := make([][]byte, rows)
	for i := range out {
		if begins[i] < 0 || ends[i] < begins[i] || int(ends[i]) > len(text) {
			return nil, fmt.Errorf("text %d lies outside its bytes", i)
		}
		out[i] = text[begins[i]:ends[i]:ends[i]]
	}
	return out, nil
}

// output copies an output of request.
func output[T openvino.Element](request *openvino.Request, index int) ([]T, error) {
	t, err := request.Output(index)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	data, err := openvino.Data[T](t)
	return append([]T(nil), data...), err
}
