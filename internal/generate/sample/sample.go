// Package sample chooses the next token from a model's logits.
//
//	s := sample.New(request.Sampling)
//	id := s.Pick(logits, history)
//
// Order and meaning of the steps are those of llama.cpp's default chain, which Ollama documents its options by: logit
// bias, mask, penalties, top_k, typical_p, top_p, min_p, temperature, and a draw among what is left. (So top_p and min_p
// look at the distribution before temperature.) At temperature 0 the best token after the penalties is taken and nothing
// is drawn.
package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"signalbox/backend/llm"
)

// Sampler chooses tokens for one answer. It keeps its buffers from call to call, so it belongs to one goroutine.
type Sampler struct {
	options llm.Sampling
	bias    []biased
	mask    []int32
	rng     *rand.Rand

	logits []float32 // working copy: the caller's logits are never changed
	counts []int32   // occurrences in the penalty window by token id; all 0 between calls
	cands  []candidate
}

type biased struct {
	id  int
	add float32
}

// candidate is a token that may still be drawn.
type candidate struct {
	id     int32
	logit  float32
	weight float64 // what selection adds up: its probability, not normalised
	rank   float64 // what selection orders by, smallest first
}

// New returns a sampler. Without a seed, or with Ollama's -1, it draws differently each time; with one, the same logits
// give the same tokens again.
func New(options llm.Sampling) *Sampler {
	seed := rand.Uint64()
	if options.Seed != nil && *options.Seed != -1 {
		seed = uint64(*options.Seed)
	}
	s := &Sampler{options: options, rng: rand.New(rand.NewPCG(seed, 0x5169676e616c626f))}
	for id, add := range options.LogitBias {
		if id >= 0 && !math.IsNaN(add) {
			s.bias = append(s.bias, biased{id, float32(add)})
		}
	}
	return s
}

// SetMask allows only the tokens whose bit is set in words (token i is bit i%32 of words[i/32], as xgrammar fills it);
// tokens beyond its end are not allowed. Nil allows all. The words are read at each Pick, not copied.
func (s *Sampler) SetMask(words []int32) { s.mask = words }

// Pick returns the next token. History is the prompt's and the answer's tokens so far; the penalties look at its end.
// NaN counts as impossible and +Inf as the largest number. It returns -1 when no token is possible: all are NaN, -Inf
// or masked. It neither changes nor keeps logits, and once its buffers have grown it allocates nothing.
func (s *Sampler) Pick(logits []float32, history []int32) int32 {
	logits = s.adjust(logits, history)
	if !(s.options.Temperature > 0) {
		return best(logits)
	}
	s.collect(logits)
	if len(s.cands) == 0 {
		return -1
	}
	s.typical()
	s.nucleus()
	s.floor()
	return s.draw()
}

// adjust returns the logits after bias, mask and penalties: the caller's own slice when there is nothing to do.
func (s *Sampler) adjust(logits []float32, history []int32) []float32 {
	window := s.window(history)
	if len(s.bias) == 0 && s.mask == nil && len(window) == 0 {
		return logits
	}
	s.logits = append(s.logits[:0], logits...)
	for _, b := range s.bias {
		if b.id < len(s.logits) {
			s.logits[b.id] += b.add
		}
	}
	s.apply(s.mask)
	s.penalise(window)
	return s.logits
}

// apply makes every masked token impossible, a word of 32 tokens at a time.
func (s *Sampler) apply(mask []int32) {
	if mask == nil {
		return
	}
	impossible := float32(math.Inf(-1))
	for at := 0; at < len(s.logits); at += 32 {
		word := uint32(0)
		if at/32 < len(mask) {
			word = uint32(mask[at/32])
		}
		if word == math.MaxUint32 {
			continue
		}
		for i, end := at, min(at+32, len(s.logits)); i < end; i++ {
			if word>>(i-at)&1 == 0 {
				s.logits[i] = impossible
			}
		}
	}
}

// window is the part of history that the penalties look at, empty when they are off.
func (s *Sampler) window(history []int32) []int32 {
	off := (s.options.RepeatPenalty == 1 || !(s.options.RepeatPenalty > 0)) && s.options.PresencePenalty == 0 && s.options.FrequencyPenalty == 0
	switch {
	case off || s.options.RepeatLastN == 0:
		return nil
	case s.options.RepeatLastN < 0 || s.options.RepeatLastN > len(history):
		return history
	}
	return history[len(history)-s.options.RepeatLastN:]
}

func (s *Sampler) penalise(window []int32) {
	if n := len(s.logits) - len(s.counts); n > 0 && len(window) > 0 {
		s.counts = append(s.counts, make([]int32, n)...)
	}
	for _, id := range window {
		if id >= 0 && int(id) < len(s.logits) {
			s.counts[id]++
		}
	}
	repeat := float32(1)
	if s.options.RepeatPenalty > 0 {
		repeat = float32(s.options.RepeatPenalty)
	}
	for _, id := range window {
		if id < 0 || int(id) >= len(s.logits) || s.counts[id] == 0 {
			continue
		}
		logit := s.logits[id]
		if logit <= 0 {
			logit *= repeat
		} else {
			logit /= repeat
		}
		s.logits[id] = logit - float32(s.counts[id])*float32(s.options.FrequencyPenalty) - float32(s.options.PresencePenalty)
		s.counts[id] = 0 // done, and ready for the next call
	}
}

// best is the token with the largest logit, the first of equals; -1 if none is possible.
func best(logits []float32) int32 {
	id, top := int32(-1), float32(math.Inf(-1))
	for i, logit := range logits {
		if logit > top { // false for NaN
			id, top = int32(i), logit
		}
	}
	return id
}

// draw takes one of the candidates, each as likely as its logit over the temperature says.
func (s *Sampler) draw() int32 {
	if len(s.cands) <= sorted {
		slices.SortFunc(s.cands, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
		})
	}
	top := s.top()
	sum := 0.0
	for i := range s.cands {
		s.cands[i].weight = math.Exp((float64(s.cands[i].logit) - top) / s.options.Temperature)
		sum += s.cands[i].weight
	}
	left := s.rng.Float64() * sum
	for _, c := range s.cands {
		if left -= c.weight; left < 0 {
			return c.id
		}
	}
	return s.cands[0].id // rounding has left a rest
}

// sorted is how many candidates at most are put in order before the draw. The order is of no account for the odds, but
// with it a seed gives the same answer also when another path through the hardware shifts the logits a little.
const sorted = 256

// top is the largest logit among the candidates.
func (s *Sampler) top() float64 {
	top := s.cands[0].logit
	for _, c := range s.cands[1:] {
		top = max(top, c.logit)
	}
	return float64(top)
}
