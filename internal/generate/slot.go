package generate

import (
	"fmt"

	"signalbox/internal/openvino"
)

// slot is one conversation's KV cache and what is in it. One answer at a time uses it.
type slot struct {
	owner  string
	tokens []int32 // what the cache holds and the model sees, in order
	cache  cache
}

// cache is the memory of the tokens that a model has seen.
type cache interface {
	// feed runs the model over tokens on top of the cache and returns the logits for the token that follows them. They are valid
	// until this cache is fed again, whatever others do meanwhile. On error the cache is in doubt: it must be closed.
	feed(c *chat, tokens []int32) ([]float32, error)
	// reuse gives a cache of the first n tokens, or of a few less, kept. It is the same cache, with the rest dropped, or another
	// one that shares what they have in common.
	reuse(n int) (c cache, kept int)
	// forget makes the cache count as empty.
	forget()
	// entries is how many tokens a step looks back at, dropped ones included that could not be removed.
	entries() int
	close()
}

// newSlot makes a slot with an empty cache.
func (c *chat) newSlot() (*slot, error) {
	if c.pages != nil {
		return &slot{cache: &paged{pages: c.pages}}, nil
	}
	s, err := newStates(c)
	if err != nil {
		return nil, err
	}
	return &slot{cache: s}, nil
}

func (s *slot) cached() int { return s.cache.entries() }

// forget makes the cache count as empty: the next tokens begin a conversation.
func (s *slot) forget() {
	s.cache.forget()
	s.tokens = s.tokens[:0]
}

func (s *slot) feed(c *chat, tokens []int32) ([]float32, error) {
	row, err := s.cache.feed(c, tokens)
	if err != nil {
		return nil, err
	}
	s.tokens = append(s.tokens, tokens...)
	return row, nil
}

func (s *slot) close() { s.cache.close() }

// logits is the output of the last inference.
type logits struct{ tensor *openvino.Tensor }

// last returns the logits of the last position.
func (l *logits) last(request *openvino.Request) ([]float32, error) {
	l.close()
	out, err := request.Tensor("logits")
	if err != nil {
		return nil, err
	}
	l.tensor = out
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

func (l *logits) close() {
	if l.tensor != nil {
		l.tensor.Close()
		l.tensor = nil
	}
}
