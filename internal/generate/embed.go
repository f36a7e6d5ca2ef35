package generate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/openvino"
)

// Bounds of one inference over texts. Its memory grows with rows times the longest of them, and an answer that is written
// meanwhile waits for it at each of its tokens. The runtime prepares something for each shape and keeps it, so widths are few:
// 2,000 texts of all lengths took 34 s and 1.1 GB without steps, 13 s and 0.7 GB with them, 0.5 GB in batches of 1,024.
const (
	batchRows   = 32
	batchTokens = 1024
	widthStep   = 16
)

// embedder is an embedding model that is ready.
type embedder struct {
	name      string
	lib       *openvino.Library
	tokenizer *tokenizer
	model     *openvino.CompiledModel
	inputs    []openvino.Port
	limit     int // most tokens of a text
	pooling   pooling
	weights   int64 // bytes of their file
	loaded    llm.Loaded
}

// pooling says how a text's vector comes from those of its tokens.
type pooling int

const (
	poolMean pooling = iota
	poolFirst
	poolMax
	poolLast
)

func (e *embedder) close() {
	if e.tokenizer != nil {
		e.tokenizer.close()
	}
	if e.model != nil {
		e.model.Close()
	}
}

func (r *Runner) loadEmbedder(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	if r.class() == llm.NPU {
		return llm.Loaded{}, llm.Errorf(llm.CodeUnsupported, "embedding models run on CPU and GPU: their texts differ in length")
	}
	if err := checkFolder(req.Model, "openvino_tokenizer.xml"); err != nil {
		return llm.Loaded{}, err
	}
	started := time.Now()
	e, fresh, done, err := r.embedders.get(ctx, req.Model.Name, func() (*embedder, error) {
		return r.openEmbedder(ctx, req, progress)
	})
	if err != nil {
		return llm.Loaded{}, loadError(err, req.Model.Name, r.options.Device)
	}
	defer done()
	loaded := e.loaded
	if fresh {
		loaded.LoadTime = time.Since(started)
	}
	return loaded, nil
}

func (r *Runner) openEmbedder(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (*embedder, error) {
	core, err := r.native()
	if err != nil {
		return nil, err
	}
	progress(llm.Phase{Name: "reading"})
	e := &embedder{name: req.Model.Name, lib: core.Library()}
	if err := e.open(ctx, r, core, req.Model, progress); err != nil {
		e.close()
		r.memory.drop(e.name)
		return nil, err
	}
	e.weights = fileSize(req.Model.Dir, "openvino_model.bin") + fileSize(req.Model.Dir, "model.onnx")
	e.loaded = llm.Loaded{Bytes: r.memory.charge(e.name, e.weights), ContextLimit: e.limit, PromptLimit: e.limit}
	return e, nil
}

func (e *embedder) open(ctx context.Context, r *Runner, core *openvino.Core, ref llm.ModelRef, progress func(llm.Phase)) (err error) {
	dir := ref.Dir
	if e.tokenizer, err = openTokenizer(core, dir, false); err != nil {
		return err
	}
	if err := e.readConfig(dir); err != nil {
		return err
	}
	model, err := readEmbedding(core, dir)
	if err != nil {
		return err
	}
	defer model.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	properties := openvino.Properties{"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}
	maps.Copy(properties, r.options.Properties)
	if e.model, err = r.compile(core, model, ref, properties, true, progress); err != nil {
		return err
	}
	if e.inputs, err = e.model.Inputs(); err != nil {
		return err
	}
	progress(llm.Phase{Name: "warming up"})
	ids, err := e.tokenizer.run("warm up")
	if err != nil {
		return err
	}
	_, err = r.vectors(ctx, e, [][]int32{ids})
	return err
}

// readEmbedding reads the model from IR or ONNX, whichever the folder holds.
func readEmbedding(core *openvino.Core, dir string) (*openvino.Model, error) {
	path := filepath.Join(dir, "openvino_model.xml")
	if _, err := os.Stat(path); err != nil {
		return core.ReadModel(filepath.Join(dir, "model.onnx"), "")
	}
	if err := checkXML(path); err != nil {
		return nil, err
	}
	return core.ReadModel(path, "")
}

// readConfig finds the longest text and the pooling in the files of sentence-transformers.
func (e *embedder) readConfig(dir string) error {
	var sentence struct {
		Limit int `json:"max_seq_length"`
	}
	var pool struct {
		First bool `json:"pooling_mode_cls_token"`
		Max   bool `json:"pooling_mode_max_tokens"`
		Last  bool `json:"pooling_mode_lasttoken"`
	}
	known, err := readFacts(dir)
	if err := errors.Join(err, readJSON(dir, "sentence_bert_config.json", &sentence),
		readJSON(dir, filepath.Join("1_Pooling", "config.json"), &pool)); err != nil {
		return err
	}
	for _, limit := range []int{sentence.Limit, known.Positions, e.tokenizer.cutAt, 512} {
		if e.limit = limit; limit > 0 {
			break
		}
	}
	switch {
	case pool.First:
		e.pooling = poolFirst
	case pool.Max:
		e.pooling = poolMax
	case pool.Last:
		e.pooling = poolLast
	}
	return nil
}

// Embed implements llm.Runner.
func (r *Runner) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, error) {
	e, _, done, err := r.embedders.get(ctx, req.Model.Name, nil)
	if err != nil {
		return llm.Embedded{}, notLoaded(err, req.Model.Name, r.options.Device)
	}
	defer done()
	started := time.Now()
	out := llm.Embedded{Vectors: make([][]float32, len(req.Inputs))}
	texts, err := e.encode(ctx, req, &out)
	if err != nil {
		return llm.Embedded{}, err
	}
	var began time.Time
	for n, batch := range batches(texts) {
		if n > 0 {
			if err := r.turn.share(ctx, time.Since(began)); err != nil {
				return llm.Embedded{}, err
			}
		}
		began = time.Now()
		rows := make([][]int32, len(batch))
		for i, at := range batch {
			rows[i] = texts[at]
		}
		vectors, err := r.vectors(ctx, e, rows)
		if err != nil {
			return llm.Embedded{}, engineError(err, "embed with %s on %s", e.name, r.options.Device)
		}
		for i, at := range batch {
			if out.Vectors[at], err = finish(vectors[i], req); err != nil {
				return llm.Embedded{}, err
			}
		}
	}
	out.Duration = time.Since(started)
	out.Memory = r.memory.charge(e.name, e.weights)
	return out, nil
}

// encode tokenizes all inputs and cuts, where that is allowed, what is too long.
func (e *embedder) encode(ctx context.Context, req llm.EmbedRequest, out *llm.Embedded) ([][]int32, error) {
	texts := make([][]int32, len(req.Inputs))
	for i, input := range req.Inputs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids, cut, err := e.tokens(input, req.Truncate)
		if errors.Is(err, openvino.ErrNUL) {
			return nil, llm.Errorf(llm.CodeInvalid, "input %d contains a NUL character, which the tokenizer cannot take", i)
		}
		if err != nil {
			return nil, engineError(err, "tokenize input %d", i)
		}
		if cut {
			out.Truncated = append(out.Truncated, i)
		}
		texts[i] = ids
		out.Tokens += len(ids)
	}
	return texts, nil
}

// cutBytes bounds what is tokenized when the rest is cut anyway: far more bytes a token than text has.
const cutBytes = 256

// tokens tokenizes one text. A text that is too long keeps its beginning and the tokenizer's closing token.
func (e *embedder) tokens(text string, truncate bool) (ids []int32, cut bool, err error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, false, openvino.ErrNUL
	}
	if most := e.limit * cutBytes; len(text) > most {
		if !truncate {
			return nil, false, llm.PromptTooLong(len(text)/cutBytes, e.limit)
		}
		text, cut = strings.ToValidUTF8(text[:most], ""), true
	}
	if ids, err = e.tokenizer.run(text); err != nil {
		return nil, false, err
	}
	if len(ids) <= e.limit {
		return ids, cut, nil
	}
	if !truncate {
		return nil, false, llm.PromptTooLong(len(ids), e.limit)
	}
	return append(slices.Clone(ids[:e.limit-1]), ids[len(ids)-1]), true, nil
}

// batches groups texts of like length into inferences of bounded size. It returns indices.
func batches(texts [][]int32) [][]int {
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(texts[a]) - len(texts[b]) })
	var out [][]int
	for len(order) > 0 {
		n := 1
		for n < len(order) && n < batchRows && (n+1)*width(texts[order[n]]) <= batchTokens {
			n++
		}
		out = append(out, order[:n])
		order = order[n:]
	}
	return out
}

// width is the length of a text with its padding.
func width(text []int32) int { return (len(text) + widthStep - 1) / widthStep * widthStep }

// finish cuts a vector to the wanted dimensions and normalises it.
func finish(vector []float32, req llm.EmbedRequest) ([]float32, error) {
	if req.Dimensions < 0 || req.Dimensions > len(vector) {
		return nil, llm.Errorf(llm.CodeInvalid, "dimensions is %d, the model's vectors have %d", req.Dimensions, len(vector))
	}
	if req.Dimensions > 0 {
		vector = vector[:req.Dimensions:req.Dimensions]
	}
	if !req.Raw {
		normalise(vector)
	}
	return vector, nil
}

func normalise(vector []float32) {
	sum := 0.0
	for _, x := range vector {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range vector {
		vector[i] *= scale
	}
}

// vectors runs the model over rows of tokens and pools the result.
func (r *Runner) vectors(ctx context.Context, e *embedder, rows [][]int32) ([][]float32, error) {
	if err := r.turn.take(ctx); err != nil {
		return nil, err
	}
	defer r.turn.give()
	request, err := e.model.NewRequest()
	if err != nil {
		return nil, err
	}
	defer request.Close()
	widest := 0
	for _, row := range rows {
		widest = max(widest, width(row))
	}
	for _, port := range e.inputs {
		in, err := e.input(port, rows, widest)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if err := request.SetTensor(port.Name, in); err != nil {
			return nil, err
		}
	}
	if err := request.Infer(); err != nil {
		return nil, err
	}
	return e.pool(request, rows)
}

// input fills one of the model's inputs, shorter rows padded on the right.
func (e *embedder) input(port openvino.Port, rows [][]int32, width int) (*openvino.Tensor, error) {
	values := make([]int64, len(rows)*width)
	for y, row := range rows {
		for x, id := range row {
			switch port.Name {
			case "input_ids":
				values[y*width+x] = int64(id)
			case "attention_mask":
				values[y*width+x] = 1
			case "position_ids":
				values[y*width+x] = int64(x)
			case "token_type_ids":
			default:
				return nil, llm.Errorf(llm.CodeUnsupported, "%s needs an input %q that this engine does not know", e.name, port.Name)
			}
		}
	}
	if port.Type == openvino.I32 {
		narrow := make([]int32, len(values))
		for i, v := range values {
			narrow[i] = int32(v)
		}
		return openvino.TensorOf(e.lib, narrow, int64(len(rows)), int64(width))
	}
	return openvino.TensorOf(e.lib, values, int64(len(rows)), int64(width))
}

// pool makes one vector of each row from the model's first output.
func (e *embedder) pool(request *openvino.Request, rows [][]int32) ([][]float32, error) {
	out, err := request.Output(0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	shape, err := out.Shape()
	if err != nil {
		return nil, err
	}
	data, err := openvino.Data[float32](out)
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(rows))
	switch {
	case len(shape) == 2 && int(shape[0]) == len(rows): // pooled by the model itself
		size := int(shape[1])
		for y := range rows {
			vectors[y] = slices.Clone(data[y*size : (y+1)*size])
		}
	case len(shape) == 3 && int(shape[0]) == len(rows):
		width, size := int(shape[1]), int(shape[2])
		for y, row := range rows {
			n := min(len(row), width)
			vectors[y] = e.pooling.of(data[y*width*size:(y*width+n)*size], size)
		}
	default:
		return nil, fmt.Errorf("the model gave vectors of shape %v for %d texts", shape, len(rows))
	}
	return vectors, nil
}

// of pools the vectors of one text's tokens, which lie one behind the other.
func (p pooling) of(tokens []float32, size int) []float32 {
	vector := make([]float32, size)
	n := len(tokens) / size
	if n == 0 {
		return vector
	}
	switch p {
	case poolFirst:
		copy(vector, tokens[:size])
	case poolLast:
		copy(vector, tokens[(n-1)*size:])
	case poolMax:
		copy(vector, tokens[:size])
		for i, x := range tokens {
			vector[i%size] = max(vector[i%size], x)
		}
	default:
		for i, x := range tokens {
			vector[i%size] += x
		}
		for i := range vector {
			vector[i] /= float32(n)
		}
	}
	return vector
}

// share lets others have the device for as long as the caller had it, while there are others: answers are written token by
// token, and would else wait for a whole batch of texts at each.
func (t *turn) share(ctx context.Context, mine time.Duration) error {
	const pause = time.Millisecond // longer than an answer thinks between two tokens
	for began, free := time.Now(), 0; free < 2 && time.Since(began) < mine; {
		asked := time.Now()
		if err := t.take(ctx); err != nil {
			return err
		}
		t.give()
		if time.Since(asked) > pause {
			free = 0
			continue
		}
		free++
		time.Sleep(pause)
	}
	return nil
}
