package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// routing measures what deciding, recording and watching cost, and what a second device is worth.
func routing() ([]figure, error) {
	ours, err := start()
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	decision, err := decisionCost()
	if err != nil {
		return nil, err
	}
	watching, err := watchingCost(ours)
	if err != nil {
		return nil, err
	}
	cancel, err := cancelCost(ours)
	if err != nil {
		return nil, err
	}
	side, err := sideRequest()
	if err != nil {
		return nil, err
	}
	return []figure{decision, watching, cancel, side}, nil
}

var result = regexp.MustCompile(`(?m)^Benchmark(\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// benchmarks runs Go benchmarks of a package and returns the fastest of three runs of each, in nanoseconds: whatever else the
// machine does makes them slower only. On one core, so that what a benchmark leaves to other goroutines counts too.
func benchmarks(pkg, pattern string) (map[string]float64, error) {
	cmd := exec.Command("go", "test", pkg, "-run", "^$", "-bench", pattern, "-benchtime", "300ms", "-count", "3", "-cpu", "1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w: %s", pattern, pkg, err, out)
	}
	best := map[string]float64{}
	for _, m := range result.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		if old, ok := best[m[1]]; !ok || ns < old {
			best[m[1]] = ns
		}
	}
	if len(best) == 0 {
		return nil, fmt.Errorf("go test -bench %s %s: no result in %s", pattern, pkg, out)
	}
	return best, nil
}

// decisionCost is what deciding takes apart from counting the prompt: the facts of one device, and the rules for four.
func decisionCost() (figure, error) {
	facts, err := benchmarks("./backend", "^BenchmarkDecision$")
	if err != nil {
		return figure{}, err
	}
	rules, err := benchmarks("./backend/router", "^BenchmarkDecide$")
	if err != nil {
		return figure{}, err
	}
	us := (facts["Decision"] + rules["Decide"]) / 1000
	return figure{
		Name: "a decision apart from tokenizing, us", Value: us, Goal: "< 50", Met: us < 50,
		Details: map[string]any{"facts_and_rules_one_device_us": facts["Decision"] / 1000, "rules_four_devices_us": rules["Decide"] / 1000},
	}, nil
}

// watchingCost is the share of journal and live view in the time of an answer: what they take for it, measured alone, over what an
// answer of the usual length takes on the real engine. Both together are within the noise of a stream's speed.
func watchingCost(ours *signalbox) (figure, error) {
	costs, err := benchmarks("./backend/journal", "^Benchmark(Request|Token)$")
	if err != nil {
		return figure{}, err
	}
	if _, err := ours.ask(map[string]any{"num_predict": 1}, "Hello."); err != nil { // it loads the model
		return figure{}, err
	}
	var takes []float64
	for range *rounds {
		got, err := ours.generate(text(32))
		for try := 0; err != nil && try < 10; try++ {
			got, err = ours.generate(text(32))
		}
		if err != nil {
			return figure{}, err
		}
		takes = append(takes, (got.FirstMS+got.TokenMS*(answer-1))*1e6)
	}
	costs["answer"] = costs["Request"] + costs["Token"]*answer
	percent := costs["answer"] / median(takes) * 100
	return figure{
		Name: "journal and live view, % of an answer's time", Value: percent, Goal: "< 1", Met: percent < 1,
		Details: map[string]any{"request_us": costs["Request"] / 1000, "token_ns": costs["Token"], "answer_ms": median(takes) / 1e6, "answer_tokens": answer},
	}, nil
}

// outcome is the part of a routing record that is looked at.
type outcome struct {
	TraceID   string   `json:"trace_id"`
	Device    string   `json:"execution_device"`
	Rule      string   `json:"route_rule"`
	Outcome   string   `json:"outcome"`
	Prompt    *int     `json:"prompt_tokens"`
	CancelMS  *float64 `json:"cancel_ms"`
	QueueMS   *float64 `json:"queue_ms"`
	DecodeMS  *float64 `json:"decode_ms"`
	Completed *int     `json:"completion_tokens"`
	State     string   `json:"state"`
}

// cancelCost leaves in the middle of answers. The device must be free when the token under way is done.
func cancelCost(ours *signalbox) (figure, error) {
	var tokens, cancels, ratios []float64
	for range *rounds * 2 {
		ctx, leave := context.WithCancel(context.Background())
		resp, err := ours.open(ctx, map[string]any{"num_predict": 2000, "temperature": 0}, "Write a long story about a train. "+text(20))
		if err != nil {
			leave()
			return figure{}, err
		}
		lines := bufio.NewReader(resp.Body)
		for range 20 {
			if _, err := lines.ReadString('\n'); err != nil {
				break
			}
		}
		leave()
		resp.Body.Close()
		rec, err := ours.ended(resp.Header.Get("X-Request-ID"))
		if err != nil {
			return figure{}, err
		}
		if rec.Outcome != "cancelled" || rec.CancelMS == nil || rec.DecodeMS == nil || rec.Completed == nil || *rec.Completed < 5 {
			continue // it had ended by itself
		}
		token := *rec.DecodeMS / float64(*rec.Completed-1)
		tokens, cancels, ratios = append(tokens, token), append(cancels, *rec.CancelMS), append(ratios, *rec.CancelMS/token)
	}
	if len(ratios) == 0 {
		return figure{}, fmt.Errorf("no answer was long enough to be left")
	}
	return figure{
		Name: "left in decode, free after, tokens", Value: median(ratios), Goal: "<= 1", Met: median(ratios) <= 1,
		Details: map[string]any{"cancel_ms": median(cancels), "token_ms": median(tokens), "samples": len(ratios)},
	}, nil
}

// sideRequest is the time of a short answer beside a prompt of 2,000 tokens on another device, over its time alone. The NPU's
// plugin runs on the CPU here, so both share the same cores.
func sideRequest() (figure, error) {
	s, err := start()
	if err != nil {
		return figure{}, err
	}
	defer s.stop()
	settings := map[string]any{"emulate_npu": true, "npu_prompt_limit": 256, "npu_response_reserve": 64, "probe_models": false}
	if err := s.ui(http.MethodPut, "/ui/settings", settings, &struct{}{}); err != nil {
		return figure{}, err
	}
	short := func() (time.Duration, outcome, error) {
		begun := time.Now()
		rec, err := s.ask(map[string]any{"num_predict": 4, "temperature": 0}, "Name this chat: "+text(6))
		return time.Since(begun), rec, err
	}
	for _, device := range []string{"npu", "cpu"} { // both have the model
		if _, err := s.ask(map[string]any{"num_predict": 2, "device": device}, "Hello."); err != nil {
			return figure{}, err
		}
	}
	var alone, beside, overlap []float64
	for range max(2, *rounds) {
		took, rec, err := short()
		if err != nil {
			return figure{}, err
		}
		if rec.Device == "CPU" {
			return figure{}, fmt.Errorf("the short request ran on the CPU (%s)", rec.Rule)
		}
		alone = append(alone, took.Seconds()*1000)

		type end struct {
			rec outcome
			err error
			at  time.Time
		}
		long := make(chan end, 1)
		go func() {
			rec, err := s.ask(map[string]any{"num_predict": 1, "temperature": 0}, text(1700))
			long <- end{rec, err, time.Now()}
		}()
		if err := s.busy("CPU"); err != nil {
			return figure{}, err
		}
		begun := time.Now()
		if took, rec, err = short(); err != nil {
			return figure{}, err
		}
		l := <-long
		if l.err != nil {
			return figure{}, l.err
		}
		if rec.Device == "CPU" || l.rec.Device != "CPU" {
			return figure{}, fmt.Errorf("the short request ran on %s, the long one on %s", rec.Device, l.rec.Device)
		}
		beside = append(beside, took.Seconds()*1000)
		overlap = append(overlap, min(1, l.at.Sub(begun).Seconds()/took.Seconds()))
	}
	ratio := median(beside) / median(alone)
	return figure{
		Name: "side request beside 2,000 tokens / alone", Value: ratio, Goal: "<= 1.5", Met: ratio <= 1.5,
		Details: map[string]any{
			"alone_ms": median(alone), "beside_ms": median(beside), "share_of_its_time_beside_the_prompt": median(overlap),
			"devices": "NPU (emulated on CPU) and CPU: both on the same cores",
		},
	}, nil
}

// open asks in the way of a chat, and leaves the stream to read.
func (s *signalbox) open(ctx context.Context, options map[string]any, prompt string) (*http.Response, error) {
	payload, err := json.Marshal(map[string]any{
		"model": "smollm2:135m", "messages": []any{map[string]any{"role": "user", "content": prompt}}, "options": options,
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/chat", bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// ask reads an answer to its end and returns its record.
func (s *signalbox) ask(options map[string]any, prompt string) (outcome, error) {
	resp, err := s.open(context.Background(), options, prompt)
	if err != nil {
		return outcome{}, err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	for {
		var line struct {
			Done   bool    `json:"done"`
			Error  string  `json:"error"`
			Record outcome `json:"llmeu"`
		}
		if err := lines.Decode(&line); err != nil {
			return outcome{}, err
		}
		if line.Error != "" {
			return outcome{}, fmt.Errorf("%s", line.Error)
		}
		if line.Done {
			return line.Record, nil
		}
	}
}

// ui speaks JSON with the window's listener.
func (s *signalbox) ui(method, path string, body, out any) error {
	text, err := os.ReadFile(filepath.Join(s.home, "instance.json"))
	if err != nil {
		return err
	}
	var owner struct {
		UI    string `json:"ui_url"`
		Token string `json:"token"`
	}
	if err := json.Unmarshal(text, &owner); err != nil {
		return err
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, owner.UI+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+owner.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// ended waits for a request's end.
func (s *signalbox) ended(trace string) (rec outcome, err error) {
	for deadline := time.Now().Add(time.Minute); rec.State != "done"; time.Sleep(2 * time.Millisecond) {
		if err = s.ui(http.MethodGet, "/ui/requests/"+trace, nil, &rec); err != nil {
			return rec, err
		}
		if time.Now().After(deadline) {
			return rec, fmt.Errorf("request %s has not ended", trace)
		}
	}
	return rec, nil
}

// busy waits until a device works.
func (s *signalbox) busy(class string) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var status struct {
			Devices []struct {
				Class   string `json:"class"`
				Running int    `json:"running"`
			} `json:"devices"`
		}
		if err := s.ui(http.MethodGet, "/ui/status", nil, &status); err != nil {
			return err
		}
		for _, d := range status.Devices {
			if d.Class == class && d.Running > 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("the long prompt never began")
}
