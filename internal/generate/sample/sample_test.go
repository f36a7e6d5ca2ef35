package sample_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate/sample"
)

var (
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	none = llm.Sampling{Temperature: 1, TopP: 1, TypicalP: 1, RepeatPenalty: 1} // everything off
)

// with returns none with changes.
func with(change func(*llm.Sampling)) llm.Sampling {
	options := none
	change(&options)
	return options
}

func seeded(seed int64, options llm.Sampling) *sample.Sampler {
	options.Seed = &seed
	return sample.New(options)
}

// expected is the plain reference: the exact probability of each token, by sorting everything at each step.
func expected(o llm.Sampling, logits []float32, history []int32, allowed func(int) bool) map[int32]float64 {
	type entry struct {
		id       int32
		logit, p float64
	}
	var list []entry
	softmax := func(temperature float64) {
		sum := 0.0
		for _, e := range list {
			sum += math.Exp((e.logit - list[0].logit) / temperature)
		}
		for i, e := range list {
			list[i].p = math.Exp((e.logit-list[0].logit)/temperature) / sum
		}
	}
	byLogit := func(a, b entry) int {
		if a.logit != b.logit {
			if a.logit > b.logit {
				return -1
			}
			return 1
		}
		return int(a.id - b.id)
	}
	if n := len(history); o.RepeatLastN >= 0 && o.RepeatLastN < n {
		history = history[n-o.RepeatLastN:]
	}
	for i, logit := range logits {
		l := float64(logit + float32(o.LogitBias[i]))
		count := 0
		for _, id := range history {
			if int(id) == i {
				count++
			}
		}
		if count > 0 {
			if l <= 0 {
				l *= o.RepeatPenalty
			} else {
				l /= o.RepeatPenalty
			}
			l -= float64(count)*o.FrequencyPenalty + o.PresencePenalty
		}
		if !math.IsNaN(l) && !math.IsInf(l, -1) && allowed(i) {
			list = append(list, entry{int32(i), l, 0})
		}
	}
	slices.SortFunc(list, byLogit)
	if o.Temperature <= 0 {
		return map[int32]float64{list[0].id: 1}
	}
	if o.TopK > 0 && o.TopK < len(list) {
		list = list[:o.TopK]
	}
	if o.TypicalP < 1 {
		softmax(1)
		entropy := 0.0
		for _, e := range list {
			entropy -= e.p * math.Log(e.p)
		}
		slices.SortStableFunc(list, func(a, b entry) int {
			x, y := math.Abs(-math.Log(a.p)-entropy), math.Abs(-math.Log(b.p)-entropy)
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		sum := 0.0
		for i, e := range list {
			if sum += e.p; sum > o.TypicalP {
				list = list[:i+1]
				break
			}
		}
		slices.SortFunc(list, byLogit)
	}
	if o.TopP < 1 {
		softmax(1)
		sum := 0.0
		for i, e := range list {
			if sum += e.p; sum >= o.TopP {
				list = list[:i+1]
				break
			}
		}
	}
	if o.MinP > 0 {
		softmax(1)
		for i, e := range list {
			if e.p < list[0].p*o.MinP {
				list = list[:i]
				break
			}
		}
	}
	softmax(o.Temperature)
	odds := map[int32]float64{}
	for _, e := range list {
		odds[e.id] = e.p
	}
	return odds
}

func all(int) bool { return true }

var cases = []struct {
	name    string
	options llm.Sampling
}{
	{"temperature 1", none},
	{"temperature 0.5", with(func(o *llm.Sampling) { o.Temperature = 0.5 })},
	{"temperature 2", with(func(o *llm.Sampling) { o.Temperature = 2 })},
	{"greedy", with(func(o *llm.Sampling) { o.Temperature = 0 })},
	{"top_k 1", with(func(o *llm.Sampling) { o.TopK = 1 })},
	{"top_k 3", with(func(o *llm.Sampling) { o.TopK = 3 })},
	{"top_k above the vocabulary", with(func(o *llm.Sampling) { o.TopK = 1000 })},
	{"top_p 0", with(func(o *llm.Sampling) { o.TopP = 0 })},
	{"top_p 0.5", with(func(o *llm.Sampling) { o.TopP = 0.5 })},
	{"top_p 0.9", with(func(o *llm.Sampling) { o.TopP = 0.9 })},
	{"top_p looks before temperature", with(func(o *llm.Sampling) { o.TopP, o.Temperature = 0.7, 3 })},
	{"min_p 0.1", with(func(o *llm.Sampling) { o.MinP = 0.1 })},
	{"min_p 1", with(func(o *llm.Sampling) { o.MinP = 1 })},
	{"typical_p 0.5", with(func(o *llm.Sampling) { o.TypicalP = 0.5 })},
	{"typical_p 0.2", with(func(o *llm.Sampling) { o.TypicalP = 0.2 })},
	{"repeat_penalty", with(func(o *llm.Sampling) { o.RepeatPenalty, o.RepeatLastN = 1.5, -1 })},
	{"repeat_penalty, last 2", with(func(o *llm.Sampling) { o.RepeatPenalty, o.RepeatLastN = 1.5, 2 })},
	{"repeat_penalty, last 0", with(func(o *llm.Sampling) { o.RepeatPenalty, o.RepeatLastN = 1.5, 0 })},
	{"presence_penalty", with(func(o *llm.Sampling) { o.PresencePenalty, o.RepeatLastN = 0.7, 64 })},
	{"frequency_penalty", with(func(o *llm.Sampling) { o.FrequencyPenalty, o.RepeatLastN = 0.4, 64 })},
	{"negative penalties", with(func(o *llm.Sampling) { o.FrequencyPenalty, o.PresencePenalty, o.RepeatLastN = -0.4, -1, 64 })},
	{"logit_bias", with(func(o *llm.Sampling) { o.LogitBias = map[int]float64{0: -100, 5: 3, 99999: 1, -1: 1} })},
	{"all together", llm.Sampling{Temperature: 0.8, TopK: 6, TopP: 0.95, MinP: 0.02, TypicalP: 0.97, RepeatPenalty: 1.1,
		RepeatLastN: 3, PresencePenalty: 0.1, FrequencyPenalty: 0.2, LogitBias: map[int]float64{3: 1}}},
	{"Ollama's defaults", llm.DefaultSampling()},
}

// The odds are compared with what is drawn 20,000 times: 0.016 is more than four standard deviations of any of them.
func TestPicksFollowTheExactDistribution(t *testing.T) {
	logits := []float32{2, 1.5, 1.5, 0.3, -0.2, -1, -3, 1.1}
	history := []int32{0, 6, 1, 0, 7, 4, 0, 123456, -1}
	allowed := map[string]func(int) bool{"no mask": all, "mask": func(i int) bool { return i != 1 && i != 4 }}
	for _, c := range cases {
		for name, allow := range allowed {
			t.Run(c.name+", "+name, func(t *testing.T) {
				s := seeded(42, c.options)
				if name == "mask" {
					s.SetMask([]int32{^int32(1<<1 | 1<<4)})
				}
				odds := expected(c.options, logits, history, allow)
				const draws = 20_000
				seen := map[int32]float64{}
				for range draws {
					seen[s.Pick(logits, history)] += 1.0 / draws
				}
				assert.Subset(t, slices.Collect(maps.Keys(odds)), slices.Collect(maps.Keys(seen)))
				for id, p := range odds {
					assert.InDelta(t, p, seen[id], 0.016, "token %d", id)
				}
			})
		}
	}
}

// On vocabularies large enough for partial selection, every pick must come from the reference's candidates, and every
// likely candidate must come.
func TestSelectionKeepsTheSameTokensAsSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 120 {
		n := 1 + rng.IntN(3000)
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * 3)
			if round%3 == 0 { // many equals
				logits[i] = float32(math.Round(float64(logits[i])))
			}
		}
		o := none
		switch round % 4 {
		case 0:
			o.TopK = 1 + rng.IntN(200)
		case 1:
			o.TopP = rng.Float64()
		case 2:
			o.TypicalP = rng.Float64()
		case 3:
			o.TopK, o.TopP, o.MinP = 1+rng.IntN(n), rng.Float64(), rng.Float64()*0.2
		}
		odds := expected(o, logits, nil, all)
		s := seeded(int64(round), o)
		seen := map[int32]bool{}
		for range 400 {
			id := s.Pick(logits, nil)
			require.Contains(t, odds, id, "n %d, %+v", n, o)
			seen[id] = true
		}
		for id, p := range odds {
			require.True(t, seen[id] || p < 0.05, "token %d with %.3f never came (n %d, %+v)", id, p, n, o)
		}
	}
}

func TestSameSeedSamePicks(t *testing.T) {
	logits := make([]float32, 500)
	for i := range logits {
		logits[i] = float32(math.Sin(float64(i)) * 4)
	}
	picks := func(s *sample.Sampler) (ids []int32) {
		for range 50 {
			ids = append(ids, s.Pick(logits, ids))
		}
		return ids
	}
	options := llm.DefaultSampling()
	assert.Equal(t, picks(seeded(7, options)), picks(seeded(7, options)))
	assert.NotEqual(t, picks(seeded(7, options)), picks(seeded(8, options)))
	assert.NotEqual(t, picks(sample.New(options)), picks(sample.New(options)), "no seed: another answer each time")
	assert.NotEqual(t, picks(seeded(-1, options)), picks(seeded(-1, options)), "Ollama's -1 is no seed")
}

func TestASeedSurvivesSmallNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	a, b := seeded(7, llm.DefaultSampling()), seeded(7, llm.DefaultSampling())
	same := 0
	for range 1000 {
		logits, noisy := make([]float32, 300), make([]float32, 300)
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * 4)
			noisy[i] = logits[i] + float32(rng.NormFloat64())*1e-5
		}
		if a.Pick(logits, nil) == b.Pick(noisy, nil) {
			same++
		}
	}
	assert.Greater(t, same, 990)
}

func TestGreedyTakesTheFirstOfEquals(t *testing.T) {
	s := sample.New(with(func(o *llm.Sampling) { o.Temperature = 0 }))
	assert.EqualValues(t, 1, s.Pick([]float32{0, 2, 1, 2}, nil))
}

func TestBrokenLogitsNeverPanic(t *testing.T) {
	for name, c := range map[string]struct {
		logits []float32
		want   []int32 // any of these
	}{
		"empty":             {nil, []int32{-1}},
		"all NaN":           {[]float32{nan, nan}, []int32{-1}},
		"all -Inf":          {[]float32{-inf, -inf}, []int32{-1}},
		"one possible":      {[]float32{nan, -inf, -5, nan}, []int32{2}},
		"+Inf wins":         {[]float32{1, inf, 2}, []int32{1}},
		"several +Inf":      {[]float32{inf, 1, inf}, []int32{0, 2}},
		"the whole range":   {[]float32{-math.MaxFloat32, math.MaxFloat32, nan}, []int32{1}},
		"only the smallest": {[]float32{-math.MaxFloat32, -inf}, []int32{0}},
	} {
		for _, o := range cases {
			t.Run(name+", "+o.name, func(t *testing.T) {
				o.options.LogitBias = nil
				s := seeded(1, o.options)
				for range 20 {
					assert.Contains(t, c.want, s.Pick(c.logits, nil))
				}
			})
		}
	}
}

func TestMaskedTokensAreNeverPicked(t *testing.T) {
	logits := make([]float32, 70)
	for _, temperature := range []float64{0, 1} {
		s := seeded(1, with(func(o *llm.Sampling) { o.Temperature = temperature }))
		s.SetMask([]int32{0, 1 << 3, 1 << 4}) // 35 and 68
		for range 100 {
			assert.Contains(t, []int32{35, 68}, s.Pick(logits, nil))
		}
		s.SetMask([]int32{0, 1 << 3}) // shorter than the vocabulary
		assert.EqualValues(t, 35, s.Pick(logits, nil))
		s.SetMask([]int32{})
		assert.EqualValues(t, -1, s.Pick(logits, nil))
		s.SetMask(nil)
		assert.GreaterOrEqual(t, s.Pick(logits, nil), int32(0))
	}
}

func TestLogitsAreNotChangedAndNothingIsAllocated(t *testing.T) {
	logits := vocabulary(2000)
	before := slices.Clone(logits)
	history := []int32{1, 2, 3, 1}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := seeded(1, c.options)
			s.SetMask(slices.Repeat([]int32{-1 << 2}, 63))
			s.Pick(logits, history)
			assert.Zero(t, testing.AllocsPerRun(20, func() { s.Pick(logits, history) }))
			assert.Equal(t, before, logits)
		})
	}
}

func FuzzPick(f *testing.F) {
	f.Add(uint64(1), uint16(20), 0.8, 40, 0.9, 0.05, 0.9, 1.1, 64, 0.0, 0.0)
	f.Add(uint64(2), uint16(900), math.Inf(1), -3, math.NaN(), 7.0, -1.0, -2.0, -1, 1e300, -1e300)
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, temperature float64, k int, p, minP, typical, repeat float64, last int, presence, frequency float64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		logits := make([]float32, n%4096)
		possible := false
		for i := range logits {
			logits[i] = math.Float32frombits(rng.Uint32()) // any float there is
			if rng.IntN(2) == 0 {
				logits[i] = float32(rng.NormFloat64())
			}
			possible = possible || logits[i] > -inf
		}
		s := seeded(int64(seed), llm.Sampling{Temperature: temperature, TopK: k, TopP: p, MinP: minP, TypicalP: typical,
			RepeatPenalty: repeat, RepeatLastN: last, PresencePenalty: presence, FrequencyPenalty: frequency})
		history := []int32{0, 1, 1, int32(n), -5, math.MaxInt32}
		id := s.Pick(logits, nil)
		if possible {
			require.True(t, id >= 0 && int(id) < len(logits) && logits[id] > -inf, "picked %d", id)
		} else {
			require.EqualValues(t, -1, id)
		}
		require.Less(t, int(s.Pick(logits, history)), max(len(logits), 1))
	})
}

// vocabulary makes logits as models do: most tokens hopeless, some likely.
func vocabulary(n int) []float32 {
	rng := rand.New(rand.NewPCG(9, 9))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64()*2.5 - 2)
	}
	for range 30 {
		logits[rng.IntN(n)] += float32(8 + rng.Float64()*6)
	}
	return logits
}

func BenchmarkPick(b *testing.B) {
	logits := vocabulary(49152)
	history := make([]int32, 1000)
	for i := range history {
		history[i] = int32(i * 37 % len(logits))
	}
	for _, c := range []struct {
		name    string
		options llm.Sampling
	}{
		{"greedy", with(func(o *llm.Sampling) { o.Temperature = 0 })},
		{"greedy+penalties", with(func(o *llm.Sampling) { o.Temperature, o.RepeatPenalty, o.RepeatLastN = 0, 1.1, -1 })},
		{"defaults", llm.DefaultSampling()},
		{"top_p only", with(func(o *llm.Sampling) { o.TopP = 0.9 })},
		{"min_p only", with(func(o *llm.Sampling) { o.MinP = 0.05 })},
		{"temperature only", none},
		{"typical_p only", with(func(o *llm.Sampling) { o.TypicalP = 0.9 })},
		{"everything", llm.Sampling{Temperature: 0.8, TopK: 1000, TopP: 0.95, MinP: 0.01, TypicalP: 0.95, RepeatPenalty: 1.1,
			RepeatLastN: 64, PresencePenalty: 0.1, FrequencyPenalty: 0.1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := seeded(1, c.options)
			b.ReportAllocs()
			for b.Loop() {
				s.Pick(logits, history)
			}
		})
	}
	b.Run("logprobs 5", func(b *testing.B) {
		for b.Loop() {
			sample.Logprobs(logits, 17, 5)
		}
	})
}
