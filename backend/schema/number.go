package schema

import (
	"fmt"
	"math/big"
	"strings"
)

// Bounds on the numbers of a schema. The library counts with 64 bits, in places with floating point.
var (
	largest = big.NewInt(1 << 53)
	digits  = big.NewInt(1_000_000) // bounds of numbers with a fraction have at most six digits behind the point
)

// bound is the value of a number that the library holds exactly.
func bound(n *node) (*big.Rat, error) {
	r, ok := n.number()
	if !ok || new(big.Int).Abs(r.Num()).Cmp(new(big.Int).Mul(largest, r.Denom())) > 0 || len(strings.TrimLeft(n.scalar, "-0.")) > 16 {
		return nil, fmt.Errorf("the number %s is too large or too long", n.scalar)
	}
	return r, nil
}

// dear is a keyword of a number schema that takes the library long; empty for none.
func (f *flat) dear() string {
	for _, keyword := range []string{"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if f.get(keyword) != nil {
			return keyword
		}
	}
	return ""
}

// numeric writes a number schema.
func numeric(f *flat, t string) (string, error) {
	step, err := f.step(t)
	if err != nil {
		return "", err
	}
	if t == "integer" || step != nil {
		return f.integers(step)
	}
	from, fromOpen, to, toOpen, err := f.ends()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`{"type":"number"`)
	if from != nil {
		writeEnd(&b, "minimum", "exclusiveMinimum", from, fromOpen, true)
	}
	if to != nil {
		writeEnd(&b, "maximum", "exclusiveMaximum", to, toOpen, false)
	}
	b.WriteByte('}')
	if from != nil && to != nil && (from.Cmp(to) > 0 || from.Cmp(to) == 0 && (fromOpen || toOpen)) {
		return "", nothing(f.at, "no number is in the range")
	}
	return b.String(), nil
}

// ends are the two ends of the range of numbers; nil where there is none, open where the end itself is not in it.
func (f *flat) ends() (from *big.Rat, fromOpen bool, to *big.Rat, toOpen bool, err error) {
	if from, fromOpen, err = f.end("minimum", "exclusiveMinimum", 1); err != nil {
		return nil, false, nil, false, err
	}
	to, toOpen, err = f.end("maximum", "exclusiveMaximum", -1)
	return from, fromOpen, to, toOpen, err
}

// writeEnd writes one end of a range, moved inwards to six digits behind the point.
func writeEnd(b *strings.Builder, closed, open string, r *big.Rat, isOpen, up bool) {
	at := new(big.Rat).SetFrac(round(new(big.Rat).Mul(r, new(big.Rat).SetInt(digits)), up), digits)
	keyword := closed
	if isOpen && at.Cmp(r) == 0 {
		keyword = open
	}
	text := strings.TrimSuffix(strings.TrimRight(at.FloatString(6), "0"), ".")
	fmt.Fprintf(b, `,"%s":%s`, keyword, text)
}

// round is the nearest whole number that is not below r (up), or not above.
func round(r *big.Rat, up bool) *big.Int {
	quotient, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if up && rest.Sign() != 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}

// end is the stricter of an end and an open end of a range; sign is 1 for the lower.
func (f *flat) end(closed, open string, sign int) (r *big.Rat, isOpen bool, err error) {
	for _, keyword := range []string{closed, open} {
		n := f.get(keyword)
		if n == nil {
			continue
		}
		at, ok := n.number()
		if !ok {
			return nil, false, wrong(keyword, f.at, "a number")
		}
		if r == nil || at.Cmp(r) == sign || at.Cmp(r) == 0 {
			r, isOpen = at, keyword == open
		}
	}
	if r == nil {
		return nil, false, nil
	}
	most := new(big.Rat).SetInt(largest)
	least := new(big.Rat).Neg(most)
	switch {
	case sign > 0 && r.Cmp(most) > 0, sign < 0 && r.Cmp(least) < 0:
		return nil, false, cannot(closed, f.at, "it is too large")
	case r.Cmp(most) > 0:
		return most, false, nil
	case r.Cmp(least) < 0:
		return least, false, nil
	}
	return r, isOpen, nil
}

// Bounds of the library on multipleOf: what is beyond, it passes over.
const (
	largestStep   = 1024
	widestStepped = 10_000
)

// step is what whole numbers must be a multiple of; nil when every one is allowed.
func (f *flat) step(t string) (*big.Int, error) {
	n := f.get("multipleOf")
	if n == nil {
		return nil, nil
	}
	r, ok := n.number()
	if !ok || r.Sign() <= 0 {
		return nil, wrong("multipleOf", f.at, "a number above 0")
	}
	if t == "number" && !r.IsInt() {
		return nil, cannot("multipleOf", f.at, "only whole numbers are supported")
	}
	// The whole multiples of a fraction in lowest terms are the multiples of its numerator.
	step := new(big.Int).Set(r.Num())
	if step.Cmp(big.NewInt(largestStep)) > 0 {
		return nil, cannot("multipleOf", f.at, fmt.Sprintf("only numbers up to %d are supported", largestStep))
	}
	return step, nil
}

// integers writes a schema of whole numbers.
func (f *flat) integers(step *big.Int) (string, error) {
	from, fromOpen, to, toOpen, err := f.ends()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`{"type":"integer"`)
	var least, most *big.Int
	if from != nil {
		least = round(from, true)
		if fromOpen && from.IsInt() {
			least.Add(least, big.NewInt(1))
		}
		fmt.Fprintf(&b, `,"minimum":%s`, least)
	}
	if to != nil {
		most = round(to, false)
		if toOpen && to.IsInt() {
			most.Sub(most, big.NewInt(1))
		}
		fmt.Fprintf(&b, `,"maximum":%s`, most)
	}
	if least != nil && most != nil && least.Cmp(most) > 0 {
		return "", nothing(f.at, "no whole number is in the range")
	}
	if step != nil && step.Cmp(big.NewInt(1)) > 0 {
		if err := f.stepped(least, most, step); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, `,"multipleOf":%s`, step)
	}
	b.WriteByte('}')
	return b.String(), nil
}

// stepped is the error for a range within which the library does not enforce multipleOf.
func (f *flat) stepped(least, most, step *big.Int) error {
	if least == nil && most == nil {
		return nil
	}
	if least == nil || most == nil || new(big.Int).Sub(most, least).Cmp(big.NewInt(widestStepped-1)) > 0 {
		return cannot("multipleOf", f.at, fmt.Sprintf("beside minimum and maximum, only ranges of up to %d numbers are supported", widestStepped))
	}
	next := round(new(big.Rat).SetFrac(least, step), true)
	if next.Mul(next, step).Cmp(most) > 0 {
		return nothing(f.at, "no multiple is in the range")
	}
	return nil
}
