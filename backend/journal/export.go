package journal

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Each calls do for every entry that has ended and that the query wants, newest first. Limit does not count. An error of do
// ends it and is returned.
func (j *Journal) Each(ctx context.Context, q Query, do func(Entry) error) error {
	seen := map[string]bool{}
	for _, e := range j.memory() {
		if e.State != StateDone || !q.matches(e) {
			continue
		}
		seen[e.key()] = true
		if err := do(e); err != nil {
			return err
		}
	}
	s := j.reader()
	if s == nil {
		return nil
	}
	where, args := q.where()
	rows, err := s.reads.QueryContext(ctx, "SELECT entry FROM requests WHERE "+where+" ORDER BY started_at DESC, id DESC", args...)
	if err != nil {
		return fmt.Errorf("read the journal %s: %w", j.path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return fmt.Errorf("read the journal %s: %w", j.path, err)
		}
		var e Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return fmt.Errorf("read the journal %s: %w", j.path, err)
		}
		if seen[e.key()] {
			continue
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ExportJSON writes the entries as lines of JSON.
func (j *Journal) ExportJSON(ctx context.Context, q Query, w io.Writer) error {
	enc := json.NewEncoder(w)
	return j.Each(ctx, q, func(e Entry) error { return enc.Encode(e) })
}

// columns of the CSV export, in order.
var columns = []struct {
	name string
	cell func(e Entry) string
}{
	{"trace_id", func(e Entry) string { return e.TraceID }},
	{"started_at", func(e Entry) string { return e.StartedAt.Format(time.RFC3339Nano) }},
	{"ended_at", func(e Entry) string {
		if e.EndedAt.IsZero() {
			return ""
		}
		return e.EndedAt.Format(time.RFC3339Nano)
	}},
	{"client", func(e Entry) string { return e.Client }},
	{"user_agent", func(e Entry) string { return e.UserAgent }},
	{"route", func(e Entry) string { return e.Route }},
	{"model_asked", func(e Entry) string { return e.ModelAsked }},
	{"model_used", func(e Entry) string { return e.ModelUsed }},
	{"routed_device", func(e Entry) string { return e.RoutedDevice }},
	{"execution_device", func(e Entry) string { return e.ExecutionDevice }},
	{"route_rule", func(e Entry) string { return e.RouteRule }},
	{"route_reason", func(e Entry) string { return e.RouteReason }},
	{"fallback_reason", func(e Entry) string { return e.FallbackReason }},
	{"outcome", func(e Entry) string { return string(e.Outcome) }},
	{"error", func(e Entry) string { return e.Error }},
	{"prompt_tokens", func(e Entry) string { return figure(e.PromptTokens) }},
	{"completion_tokens", func(e Entry) string { return figure(e.CompletionTokens) }},
	{"cached_tokens", func(e Entry) string { return figure(e.CachedTokens) }},
	{"prepare_ms", func(e Entry) string { return figure(e.PrepareMS) }},
	{"queue_ms", func(e Entry) string { return figure(e.QueueMS) }},
	{"load_ms", func(e Entry) string { return figure(e.LoadMS) }},
	{"ttft_ms", func(e Entry) string { return figure(e.TTFTMS) }},
	{"prefill_ms", func(e Entry) string { return figure(e.PrefillMS) }},
	{"decode_ms", func(e Entry) string { return figure(e.DecodeMS) }},
	{"cancel_ms", func(e Entry) string { return figure(e.CancelMS) }},
	{"tokens_per_second", func(e Entry) string { return figure(e.TokensPerSecond) }},
	{"device_seconds", func(e Entry) string { return figure(e.CostEstimate.DeviceSeconds) }},
	{"energy_joules", func(e Entry) string { return figure(e.CostEstimate.EnergyJoules) }},
	{"power_source", func(e Entry) string { return e.PowerSource }},
	{"interrupted", func(e Entry) string { return strconv.FormatBool(e.Interrupted) }},
	{"continued_on", func(e Entry) string {
		if e.Continued == nil {
			return ""
		}
		return e.Continued.Device
	}},
}

// ExportCSV writes the entries as a table. Texts that a spreadsheet would take for a formula get an apostrophe in front: clients
// choose them.
func (j *Journal) ExportCSV(ctx context.Context, q Query, w io.Writer) error {
	table := csv.NewWriter(w)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.name
	}
	if err := table.Write(row); err != nil {
		return err
	}
	err := j.Each(ctx, q, func(e Entry) error {
		for i, c := range columns {
			row[i] = harmless(c.cell(e))
		}
		return table.Write(row)
	})
	table.Flush()
	if err != nil {
		return err
	}
	return table.Error()
}

// figure writes what is not known as nothing, not as 0.
func figure[N int | float64](n *N) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(float64(*n), 'f', -1, 64)
}

// harmless keeps a text from being a formula. Spreadsheets look past blanks and quotes.
func harmless(text string) string {
	begins := strings.TrimLeft(text, " \t\r\n'\"\u00a0")
	if text != "" && (strings.ContainsAny(text[:1], "\t\r\n") || begins != "" && strings.ContainsAny(begins[:1], "=+-@|%") || strings.HasPrefix(begins, "＝")) {
		return "'" + text
	}
	return text
}
