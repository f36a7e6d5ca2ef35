package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"signalbox/backend/llm"
)

// Number is a row of a dialect's table of number fields: what a field may be, and what happens outside of that.
type Number struct {
	Name     string
	Integer  bool
	Min, Max float64
	Refuse   bool // out of range is an error; otherwise the value is cut to the range, and that is noted
}

// Float takes a number; nil when it is absent.
func (o *Object) Float(row Number) *float64 {
	raw := o.Raw(row.Name)
	if raw == nil {
		return nil
	}
	if kind := kindOf(raw); kind != "number" {
		o.wrongType(o.Path(row.Name), "number", kind)
		return nil
	}
	value, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(value, 0) { // 1e999 is a number, only a very large one
		o.wrongType(o.Path(row.Name), "number", string(raw))
		return nil
	}
	value = o.bound(row, value) + 0 // -0 becomes 0
	if o.notes.err != nil {
		return nil
	}
	return &value
}

// Int takes a whole number, also when it is written as 4096.0 or 4e3; nil when it is absent.
func (o *Object) Int(row Number) *int64 {
	raw := o.Raw(row.Name)
	if raw == nil {
		return nil
	}
	if kind := kindOf(raw); kind != "number" {
		o.wrongType(o.Path(row.Name), "integer", kind)
		return nil
	}
	value, ok := whole(raw, row)
	if !ok {
		o.wrongType(o.Path(row.Name), "integer", "number with a fraction")
		return nil
	}
	// Only when the float is out of range is the exact integer too: below 2^53 both are the same, above it the row's
	// limits are powers of two.
	if f := o.bound(row, float64(value)); f != float64(value) {
		value = toInt(f)
	}
	if o.notes.err != nil {
		return nil
	}
	return &value
}

// whole reads an integer exactly where int64 can hold it; larger ones come back as the nearest end of int64.
func whole(raw json.RawMessage, row Number) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	if !math.IsInf(f, 0) && f != math.Trunc(f) {
		return 0, false
	}
	return toInt(f), true
}

func toInt(f float64) int64 {
	switch {
	case f >= math.MaxInt64: // float64(MaxInt64) is 2^63, one too many
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

func (o *Object) bound(row Number, value float64) float64 {
	if value >= row.Min && value <= row.Max {
		return value
	}
	path := o.Path(row.Name)
	if row.Refuse {
		err := llm.Errorf(llm.CodeInvalid, "%s", row.outOfRange())
		err.Param = path
		o.Fail(err)
		return value
	}
	o.notes.clamped = append(o.notes.clamped, path)
	return min(max(value, row.Min), row.Max)
}

func (n Number) outOfRange() string {
	return fmt.Sprintf("%s must be between %v and %v", n.Name, n.Min, n.Max)
}
