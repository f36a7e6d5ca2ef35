package generate

import (
	"slices"
	"sync"
	"time"
)

// slots keeps the slots of conversations that are not running. A conversation goes on in its own slot when that is cheaper
// than computing everything again. Slots are never shared between owners.
type slots struct {
	bytes func(idle []*slot) int64 // memory that their caches take
	limit int64

	mu     sync.Mutex
	idle   []*slot // least recently used first; guarded by mu
	closed bool    // guarded by mu
}

// find gives a slot to go on in: the owner's whose tokens agree longest with the beginning of tokens, if cheaper says that going on from
// keep of them is cheaper than a new beginning. It has these tokens, or a few less, and no others; where the cache can be shared it is
// a new slot, and the one it was found in stays. It returns nil when there is none.
func (p *slots) find(owner string, tokens []int32, cheaper func(s *slot, keep int) bool) (*slot, int) {
	if owner == "" {
		return nil, 0 // nobody in particular: not even with itself
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	best, keep := -1, 0
	for i, s := range p.idle {
		if s.owner != owner {
			continue
		}
		// At least one token must be computed, for its logits.
		if n := min(common(s.tokens, tokens), len(tokens)-1); n > keep {
			best, keep = i, n
		}
	}
	if best < 0 || !cheaper(p.idle[best], keep) {
		return nil, 0
	}
	s := p.idle[best]
	cache, keep := s.cache.reuse(keep)
	if cache != s.cache {
		return &slot{owner: owner, tokens: slices.Clone(s.tokens[:keep]), cache: cache}, keep
	}
	p.idle = slices.Delete(p.idle, best, best+1)
	s.tokens = s.tokens[:keep]
	return s, keep
}

// common is the length of the common beginning.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// keep takes a slot back after an answer and closes the ones not used for longest until all fit into the limit. The last one stays in
// any case: it took its memory already, and a long conversation needs it most.
func (p *slots) keep(s *slot, owner string) {
	s.owner = owner
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || owner == "" || p.limit <= 0 {
		s.close()
		return
	}
	// What s covers wholly is of no more use: a prompt asked again would fill the memory with copies.
	p.idle = slices.DeleteFunc(p.idle, func(old *slot) bool {
		covered := old.owner == owner && common(old.tokens, s.tokens) == len(old.tokens)
		if covered {
			old.close()
		}
		return covered
	})
	p.idle = append(p.idle, s)
	for len(p.idle) > 1 && p.bytes(p.idle) > p.limit {
		p.idle[0].close()
		p.idle = slices.Delete(p.idle, 0, 1)
	}
}

func (p *slots) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle {
		s.close()
	}
	p.idle, p.closed = nil, true
}

// pace is what the model was seen to need on this device, in seconds. Zero: not seen yet.
type pace struct {
	mu    sync.Mutex
	step  float64 // one token on top of a cache
	fresh float64 // each token of a prompt from the beginning
	onTop float64 // each further token when several come on top of a cache
}

// smooth moves an average a fifth of the way to a new value.
func smooth(average *float64, value float64) {
	if *average == 0 {
		*average = value
		return
	}
	*average += (value - *average) / 5
}

// saw takes the time that n tokens on top of past entries needed.
func (p *pace) saw(n, past int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n == 1 && past > 0:
		smooth(&p.step, took.Seconds())
	case past == 0 && n >= 32:
		smooth(&p.fresh, took.Seconds()/float64(n))
	case past > 0 && n >= 8:
		smooth(&p.onTop, max(took.Seconds()-p.step, 0)/float64(n))
	}
}

// goOn tells whether n tokens on top of a cache of past entries, dead of them masked, are cheaper than total from the beginning.
// Until a rate has been seen it is taken to be what it was, against a decode step, where we measured.
func (p *pace) goOn(n, past, dead, total int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	step := p.step
	if step == 0 {
		step = 1
	}
	fresh, onTop := p.fresh, p.onTop
	if fresh == 0 {
		fresh = step / 25
	}
	if onTop == 0 {
		onTop = step / 3
	}
	// What is masked is still computed in every step of the answer.
	if dead > past/2 {
		return false
	}
	return step+float64(n-1)*onTop < float64(total)*fresh
}

// prompt is the time that n tokens from the beginning are expected to take; very long until a prompt has been seen.
func (p *pace) prompt(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh == 0 {
		return time.Hour
	}
	return time.Duration(float64(n) * p.fresh * float64(time.Second))
}
