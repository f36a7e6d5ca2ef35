package generate

import (
	"errors"
	"fmt"

	"signalbox/internal/generate/ir"
	"signalbox/internal/openvino"
)

// slot is an infer request and what is in its KV cache. One answer at a time uses it.
type slot struct {
	owner  string
	tokens []int32 // what the cache holds and the model sees, in order
	dead   int     // entries in the cache that are masked out: a tail that was dropped

	request *openvino.Request
	ids     input // [1, n]
	mask    input // [1, cache + n]
	places  input // [1, n]; unused when the model computes positions itself
	wanted  input // [1, 1, 1]; only with a sliced head
	scores  scores
	beam    *openvino.Tensor
	logits  *openvino.Tensor // of the last inference
}

// input is an i64 tensor that grows. It is written in place: no memory is taken for each token.
type input struct {
	name   string // empty: the model has no such input
	tensor *openvino.Tensor
	data   []int64 // all the memory of tensor
}

// resize gives the input n elements in its last dimension and returns them. What was in it stays.
func (in *input) resize(lib *openvino.Library, request *openvino.Request, n int) ([]int64, error) {
	if n > len(in.data) {
		if err := in.grow(lib, request, n); err != nil {
			return nil, err
		}
	}
	return in.data[:n], in.tensor.Reshape(1, int64(n))
}

func (in *input) grow(lib *openvino.Library, request *openvino.Request, n int) error {
	size := (n + 1023) / 1024 * 1024
	tensor, err := lib.NewTensor(openvino.I64, 1, int64(size))
	if err != nil {
		return err
	}
	data, err := openvino.Data[int64](tensor)
	if err == nil {
		err = request.SetTensor(in.name, tensor)
	}
	if err != nil {
		tensor.Close()
		return err
	}
	copy(data, in.data)
	if in.tensor != nil {
		in.tensor.Close()
	}
	in.tensor, in.data = tensor, data
	return nil
}

// newSlot makes a slot with an empty cache.
func (c *chat) newSlot() (*slot, error) {
	request, err := c.model.NewRequest()
	if err != nil {
		return nil, err
	}
	s := &slot{request: request}
	s.ids.name, s.mask.name = "input_ids", "attention_mask"
	if c.inputs["position_ids"] {
		s.places.name = "position_ids"
	}
	if err := s.fix(c); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// fix sets the inputs that never change: the row each cache row comes from, and where the wanted logits are.
func (s *slot) fix(c *chat) error {
	var err error
	if c.inputs["beam_idx"] {
		if s.beam, err = openvino.TensorOf(c.lib, []int32{0}, 1); err != nil {
			return err
		}
		if err := s.request.SetTensor("beam_idx", s.beam); err != nil {
			return err
		}
	}
	if c.inputs[ir.Positions] {
		s.wanted.name = ir.Positions
		if s.wanted.tensor, err = openvino.TensorOf(c.lib, []int64{0}, 1, 1, 1); err != nil {
			return err
		}
		if s.wanted.data, err = openvino.Data[int64](s.wanted.tensor); err != nil {
			return err
		}
		return s.request.SetTensor(ir.Positions, s.wanted.tensor)
	}
	return nil
}

// cached is the number of entries in the KV cache, masked ones included.
func (s *slot) cached() int { return len(s.tokens) + s.dead }

// drop keeps the first n tokens. The others stay in the cache, masked out: there is no way to remove them.
func (s *slot) drop(n int) {
	if n >= len(s.tokens) {
		return
	}
	seen := 0
	mask := s.mask.data[:s.cached()]
	for i, bit := range mask {
		if bit == 0 {
			continue
		}
		if seen >= n {
			mask[i] = 0
		}
		seen++
	}
	s.dead += len(s.tokens) - n
	s.tokens = s.tokens[:n]
	s.scores.stale = true
}

// forget makes the cache count as empty: the next tokens begin a conversation. For the NPU, which starts over by itself when
// more than one token comes at position 0.
func (s *slot) forget() {
	s.tokens, s.dead = s.tokens[:0], 0
}

// feed runs the model over tokens on top of the cache and returns the logits for the token that follows them. They are valid
// until the next feed. On error the cache is in doubt: the slot must be closed.
func (s *slot) feed(c *chat, tokens []int32) ([]float32, error) {
	n, past := len(tokens), s.cached()
	ids, err := s.ids.resize(c.lib, s.request, n)
	if err != nil {
		return nil, err
	}
	for i, id := range tokens {
		ids[i] = int64(id)
	}
	mask, err := s.mask.resize(c.lib, s.request, past+n)
	if err != nil {
		return nil, err
	}
	for i := past; i < past+n; i++ {
		mask[i] = 1
	}
	if s.places.name != "" {
		places, err := s.places.resize(c.lib, s.request, n)
		if err != nil {
			return nil, err
		}
		for i := range places {
			places[i] = int64(len(s.tokens) + i)
		}
	}
	if s.wanted.name != "" {
		s.wanted.data[0] = int64(n - 1)
	}
	if err := s.infer(c, n, past); err != nil {
		return nil, err
	}
	s.tokens = append(s.tokens, tokens...)
	return s.last()
}

// infer runs the model once its other inputs are set.
func (s *slot) infer(c *chat, n, past int) error {
	if !c.inputs[ir.Mask] {
		return s.request.Infer()
	}
	done, err := s.scores.set(c.lib, s.request, n, past, s.mask.data[:past])
	if err != nil {
		return err
	}
	return errors.Join(s.request.Infer(), done())
}

// last returns the logits of the last position.
func (s *slot) last() ([]float32, error) {
	if s.logits != nil {
		s.logits.Close()
		s.logits = nil
	}
	out, err := s.request.Tensor("logits")
	if err != nil {
		return nil, err
	}
	s.logits = out
	all, err := openvino.Data[float32](out)
	if err != nil {
		return nil, err
	}
	shape, err := out.Shape()
	if err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		return nil, fmt.Errorf("the model gave no logits")
	}
	size := int(shape[len(shape)-1])
	if size == 0 || len(all) < size {
		return nil, fmt.Errorf("the model gave logits of shape %v", shape)
	}
	return all[len(all)-size:], nil
}

func (s *slot) close() {
	s.request.Close()
	s.scores.close()
	for _, t := range []*openvino.Tensor{s.ids.tensor, s.mask.tensor, s.places.tensor, s.wanted.tensor, s.beam, s.logits} {
		if t != nil {
			t.Close()
		}
	}
}
