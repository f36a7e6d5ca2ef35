package generate

import (
	"bytes"

	"signalbox/backend/llm"
)

// thought counts the tokens of an answer's thoughts, and ends one that takes too long.
type thought struct {
	limit llm.Thought
	end   []int32 // tokens of limit.End

	inside bool
	count  int
	seen   []byte // the end of the text so far
	force  []int32
}

// newThought is nil when there is no limit.
func (t *tokenizer) newThought(limit *llm.Thought) (*thought, error) {
	if limit == nil {
		return nil, nil
	}
	end, err := t.bare(limit.End)
	if err != nil {
		return nil, err
	}
	h := &thought{limit: *limit, end: end, inside: limit.Opened}
	h.check()
	return h, nil
}

// saw takes the text of the next token.
func (h *thought) saw(text []byte) {
	if h == nil {
		return
	}
	if h.inside {
		h.count++
	}
	mark := h.limit.Open
	if h.inside {
		mark = h.limit.Close
	}
	h.seen = append(h.seen, text...)
	if at := bytes.Index(h.seen, []byte(mark)); at >= 0 && mark != "" {
		h.inside = !h.inside
		h.seen = append(h.seen[:0], h.seen[at+len(mark):]...)
	} else if keep := len(mark) + 1; len(h.seen) > keep {
		h.seen = append(h.seen[:0], h.seen[len(h.seen)-keep:]...)
	}
	h.check()
}

func (h *thought) check() {
	if h.inside && h.count >= h.limit.Most && len(h.force) == 0 {
		h.force = append(h.force, h.end...)
	}
}

// next is the token that must come now, whatever the model would like.
func (h *thought) next() (id int32, ok bool) {
	if h == nil || len(h.force) == 0 {
		return 0, false
	}
	id, h.force = h.force[0], h.force[1:]
	if len(h.force) == 0 {
		h.inside, h.seen = false, h.seen[:0]
	}
	return id, true
}
