package sample

import "math"

// collect fills the candidates from the logits: all that are possible, or the TopK best of them.
func (s *Sampler) collect(logits []float32) {
	s.cands = s.cands[:0]
	k := s.options.TopK
	if k <= 0 || k >= len(logits) {
		k = len(logits)
	}
	// Keep more than k, cut back to k when there are too many, and from then on take only what beats the worst of those:
	// one pass, and few tokens are ever looked at twice.
	limit, least := k+max(k, 64), float32(math.Inf(-1))
	for id, logit := range logits {
		if !(logit > least) { // also NaN
			continue
		}
		logit = min(logit, math.MaxFloat32)
		s.cands = append(s.cands, candidate{id: int32(id), logit: logit})
		if len(s.cands) == limit {
			least = s.keepBest(k)
		}
	}
	if len(s.cands) > k {
		s.keepBest(k)
	}
}

// keepBest keeps the k candidates with the largest logits, of equals those with the smallest ids, and returns the smallest logit kept.
func (s *Sampler) keepBest(k int) float32 {
	for i := range s.cands {
		s.cands[i].rank, s.cands[i].weight = -float64(s.cands[i].logit), 1
	}
	s.cands = s.cands[:selectMass(s.cands, float64(k))]
	least := s.cands[0].logit
	for _, c := range s.cands[1:] {
		least = min(least, c.logit)
	}
	return least
}

// weigh gives each candidate its probability and returns it to normalise: the sum.
func (s *Sampler) weigh() (sum float64) {
	top := s.top()
	for i := range s.cands {
		s.cands[i].weight = math.Exp(float64(s.cands[i].logit) - top)
		sum += s.cands[i].weight
	}
	return sum
}

// nucleus keeps the most probable candidates that together reach TopP.
func (s *Sampler) nucleus() {
	if !(s.options.TopP < 1) || len(s.cands) < 2 {
		return
	}
	sum := s.weigh()
	for i := range s.cands {
		s.cands[i].rank = -float64(s.cands[i].logit)
	}
	s.cands = s.cands[:selectMass(s.cands, s.options.TopP*sum)]
}

// typical keeps the candidates whose surprise is nearest to the expected one and that together exceed TypicalP
// (locally typical sampling, Meister et al.).
func (s *Sampler) typical() {
	if !(s.options.TypicalP < 1) || len(s.cands) < 2 {
		return
	}
	sum, top := s.weigh(), s.top()
	all := math.Log(sum)
	entropy := all
	for _, c := range s.cands {
		entropy -= c.weight / sum * (float64(c.logit) - top)
	}
	for i, c := range s.cands {
		surprise := all - (float64(c.logit) - top)
		s.cands[i].rank = math.Abs(surprise - entropy)
	}
	s.cands = s.cands[:selectMass(s.cands, math.Nextafter(s.options.TypicalP*sum, math.Inf(1)))]
}

// floor drops the candidates less probable than MinP times the most probable one.
func (s *Sampler) floor() {
	if !(s.options.MinP > 0) {
		return
	}
	least := s.top() + math.Log(min(s.options.MinP, 1))
	kept := s.cands[:0]
	for _, c := range s.cands {
		if float64(c.logit) >= least {
			kept = append(kept, c)
		}
	}
	s.cands = kept
}

// selectMass moves the candidates of the smallest rank to the front until their weights reach mass, and returns how
// many that are, at least one. It is quickselect by weight: linear, and nothing is sorted.
func selectMass(c []candidate, mass float64) int {
	from, to := 0, len(c)
	for to-from > 1 {
		mid := partition(c[from:to]) + from // c[from:mid] comes before c[mid], the rest after it
		before := 0.0
		for _, x := range c[from:mid] {
			before += x.weight
		}
		switch {
		case before >= mass && mid > from:
			to = mid
		case before+c[mid].weight >= mass:
			return mid + 1
		default:
			mass -= before + c[mid].weight
			from = mid + 1
		}
	}
	return min(from+1, to) // to when only rounding has kept the weights below mass
}

// partition orders c around one of its elements and returns that element's new place.
func partition(c []candidate) int {
	last := len(c) - 1
	mid := len(c) / 2
	if before(c[mid], c[0]) {
		c[mid], c[0] = c[0], c[mid]
	}
	if before(c[last], c[0]) {
		c[last], c[0] = c[0], c[last]
	}
	if before(c[mid], c[last]) {
		c[mid], c[last] = c[last], c[mid]
	}
	pivot, at := c[last], 0 // the median of three
	for i := range c[:last] {
		if before(c[i], pivot) {
			c[i], c[at] = c[at], c[i]
			at++
		}
	}
	c[at], c[last] = c[last], c[at]
	return at
}

func before(a, b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.id < b.id
}
