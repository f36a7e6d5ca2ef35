package sample

import "math"

// Scored is a token and its log probability.
type Scored struct {
	ID      int32
	Logprob float64
}

// Impossible is the log probability reported for what cannot come: JSON has no infinity, and OpenAI sends this.
const Impossible = -9999

// Logprobs returns the log probability of token id and the n most probable tokens, best first, in the model's own
// distribution: before bias, mask, penalties and temperature.
func Logprobs(logits []float32, id int32, n int) (logprob float64, top []Scored) {
	peak := best(logits)
	if peak < 0 {
		return Impossible, nil
	}
	high := float64(min(logits[peak], math.MaxFloat32))
	sum := 0.0
	for _, logit := range logits {
		if logit == logit { // not NaN
			sum += math.Exp(min(float64(logit), math.MaxFloat32) - high)
		}
	}
	score := func(id int32) float64 {
		if id < 0 || int(id) >= len(logits) || logits[id] != logits[id] {
			return Impossible
		}
		return max(min(float64(logits[id]), math.MaxFloat32)-high-math.Log(sum), Impossible)
	}
	for _, id := range largest(logits, n) {
		top = append(top, Scored{id, score(id)})
	}
	return score(id), top
}

// largest returns the ids of the n largest logits, best first, of equals the first one first. N is small, so each is put in its place.
func largest(logits []float32, n int) []int32 {
	if n <= 0 {
		return nil
	}
	top := make([]int32, 0, n+1)
	least := float32(math.Inf(-1))
	for id, logit := range logits {
		if !(logit > least) {
			continue
		}
		at := len(top)
		top = append(top, int32(id))
		for ; at > 0 && logits[top[at-1]] < logit; at-- {
			top[at] = top[at-1]
		}
		top[at] = int32(id)
		if len(top) > n {
			top = top[:n]
		}
		if len(top) == n {
			least = logits[top[n-1]]
		}
	}
	return top
}
