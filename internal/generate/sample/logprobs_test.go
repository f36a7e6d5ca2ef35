package sample_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/internal/generate/sample"
)

func TestLogprobsAreTheLogOfTheSoftmax(t *testing.T) {
	logits := []float32{1, 3, 2, -1, 3}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	logprob, top := sample.Logprobs(logits, 2, 3)
	assert.InDelta(t, 2-math.Log(sum), logprob, 1e-12)
	assert.Equal(t, []int32{1, 4, 2}, []int32{top[0].ID, top[1].ID, top[2].ID})
	assert.InDelta(t, 3-math.Log(sum), top[0].Logprob, 1e-12)
	assert.InDelta(t, 2-math.Log(sum), top[2].Logprob, 1e-12)
}

func TestLogprobsAreNeverInfinite(t *testing.T) {
	for name, c := range map[string]struct {
		logits []float32
		id     int32
		want   float64
		top    int
	}{
		"an impossible token":   {[]float32{0, -inf}, 1, sample.Impossible, 1},
		"NaN":                   {[]float32{0, nan}, 1, sample.Impossible, 1},
		"NaN beside the chosen": {[]float32{0, nan, 0}, 0, math.Log(0.5), 2},
		"nothing possible":      {[]float32{-inf, nan}, 0, sample.Impossible, 0},
		"+Inf":                  {[]float32{inf, 0}, 0, 0, 2},
		"out of range":          {[]float32{0, 0}, 7, sample.Impossible, 2},
		"negative":              {[]float32{0, 0}, -1, sample.Impossible, 2},
		"empty":                 {nil, 0, sample.Impossible, 0},
		"far apart":             {[]float32{math.MaxFloat32, -math.MaxFloat32}, 1, sample.Impossible, 2},
	} {
		t.Run(name, func(t *testing.T) {
			logprob, top := sample.Logprobs(c.logits, c.id, 5)
			assert.InDelta(t, c.want, logprob, 1e-9)
			assert.Len(t, top, c.top)
		})
	}
}

func TestNoAlternativesWhenNoneAreAsked(t *testing.T) {
	_, top := sample.Logprobs([]float32{1, 2}, 0, 0)
	assert.Empty(t, top)
}
