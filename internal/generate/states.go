package generate

import (
	"signalbox/internal/generate/ir"
	"signalbox/internal/openvino"
)

// states is a KV cache that an infer request of its own keeps inside, as its states.
type states struct {
	seen int // entries that the model sees
	dead int // entries that are masked out: a tail that was dropped

	request *openvino.Request
	ids     input[int64] // [1, n]
	mask    input[int64] // [1, cache + n]
	places  input[int64] // [1, n]; unused when the model computes positions itself
	wanted  input[int64] // [1, 1, 1]; only with a sliced head
	beam    *openvino.Tensor
	logits  logits
}

func newStates(c *chat) (*states, error) {
	request, err := c.model.NewRequest()
	if err != nil {
		return nil, err
	}
	s := &states{request: request}
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
func (s *states) fix(c *chat) error {
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

func (s *states) entries() int { return s.seen + s.dead }

// reuse drops all but the first n tokens. They stay in the cache, masked out: there is no way to remove them.
func (s *states) reuse(n int) (cache, int) {
	if n >= s.seen {
		return s, s.seen
	}
	seen := 0
	mask := s.mask.data[:s.entries()]
	for i, bit := range mask {
		if bit == 0 {
			continue
		}
		if seen >= n {
			mask[i] = 0
		}
		seen++
	}
	s.dead += s.seen - n
	s.seen = n
	return s, n
}

// forget is for the NPU, which starts over by itself when more than one token comes at position 0.
func (s *states) forget() { s.seen, s.dead = 0, 0 }

func (s *states) feed(c *chat, tokens []int32) ([]float32, error) {
	n, past := len(tokens), s.entries()
	ids, err := s.ids.resize(c.lib, s.request, 1, int64(n))
	if err != nil {
		return nil, err
	}
	for i, id := range tokens {
		ids[i] = int64(id)
	}
	mask, err := s.mask.resize(c.lib, s.request, 1, int64(past+n))
	if err != nil {
		return nil, err
	}
	for i := past; i < past+n; i++ {
		mask[i] = 1
	}
	if s.places.name != "" {
		places, err := s.places.resize(c.lib, s.request, 1, int64(n))
		if err != nil {
			return nil, err
		}
		for i := range places {
			places[i] = int64(s.seen + i)
		}
	}
	if s.wanted.name != "" {
		s.wanted.data[0] = int64(n - 1)
	}
	if err := s.request.Infer(); err != nil {
		return nil, err
	}
	s.seen += n
	return s.logits.last(s.request)
}

func (s *states) close() {
	s.logits.close()
	s.request.Close()
	for _, in := range []*input[int64]{&s.ids, &s.mask, &s.places, &s.wanted} {
		in.close()
	}
	if s.beam != nil {
		s.beam.Close()
	}
}
