package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"signalbox/internal/brief"
)

// KeepAlive takes "keep_alive": a number of seconds or a Go duration; negative is for ever, and too long is too. The errors
// for other types are Ollama's texts.
func (o *Object) KeepAlive() *time.Duration {
	raw := o.Raw("keep_alive")
	if raw == nil {
		return nil
	}
	d, err := parseKeepAlive(raw)
	if err != nil {
		o.FailAt("keep_alive", "%w", err)
		return nil
	}
	return &d
}

func parseKeepAlive(raw json.RawMessage) (time.Duration, error) {
	const forever = -time.Second
	switch kind := kindOf(raw); kind {
	case "number":
		seconds, err := strconv.ParseFloat(string(raw), 64)
		if (err != nil && !math.IsInf(seconds, 0)) || seconds < 0 || seconds*float64(time.Second) >= math.MaxInt64 {
			return forever, nil
		}
		return time.Duration(seconds * float64(time.Second)), nil
	case "string":
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("keep_alive: %q is no duration: write seconds as a number, or 5m, or 1h30m", brief.Text(text))
		}
		if d < 0 {
			return forever, nil
		}
		return d, nil
	case "boolean":
		return 0, fmt.Errorf("Unsupported type: 'bool'") //nolint:staticcheck // Ollama's text
	case "array":
		return 0, fmt.Errorf("Unsupported type: '[]interface {}'") //nolint:staticcheck // Ollama's text
	default:
		return 0, fmt.Errorf("Unsupported type: 'map[string]interface {}'") //nolint:staticcheck // Ollama's text
	}
}
