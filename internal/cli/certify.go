package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/backend"
	"signalbox/backend/cards"
	"signalbox/backend/llm"
	"signalbox/backend/server"
	"signalbox/internal/config"
	"signalbox/internal/dirs"
	"signalbox/internal/instance"
	"signalbox/internal/logs"
	"signalbox/internal/version"
)

func (p Program) certifyCommand() *cobra.Command {
	var o certifyOptions
	cmd := &cobra.Command{
		Use: "certify", Short: "Prove that a device really runs your models, and runs them right", Args: cobra.NoArgs,
		Long: "certify sends real requests and checks what happened to each: that short ones ran on the device, that one too long for\n" +
			"it went elsewhere with a reason, that known answers are right, that a cancelled request frees the device, and that the\n" +
			"compile cache helps. It takes the Signalbox that runs, or with --own starts one of its own with empty caches. The exit\n" +
			"code is 0 when all checks passed. An NPU that the CPU stands in for is certified as “emulated”.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.device = strings.ToUpper(o.device); !slices.Contains([]string{llm.CPU, llm.GPU, llm.NPU}, o.device) {
				return llm.Errorf(llm.CodeInvalid, "there is no device %q: use NPU, GPU or CPU", o.device)
			}
			return p.certify(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&o.device, "device", llm.NPU, "NPU, GPU or CPU")
	cmd.Flags().StringVar(&o.model, "model", "", "the model to use; without it the smallest chat model that fits")
	cmd.Flags().StringVar(&o.json, "json", "", "write the report to this file as JSON too; - for standard output")
	cmd.Flags().BoolVar(&o.own, "own", false, "start a server of its own, with empty caches, also while one runs")
	return cmd
}

type certifyOptions struct {
	device, model, json string
	own                 bool
}

// Results of a check.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped" // it could not be tried here; Detail says why
)

// certificate is the report.
type certificate struct {
	Signalbox string        `json:"signalbox"` // version
	Runtime   string        `json:"runtime"`
	Device    string        `json:"device"` // label
	Name      string        `json:"name"`   // the maker's
	Model     string        `json:"model"`
	Digest    string        `json:"digest"`
	Driver    string        `json:"driver,omitempty"`
	Certified string        `json:"certified"` // "hardware", "emulated" or "no"
	Server    string        `json:"server"`    // "own" or "running"
	StartedAt time.Time     `json:"started_at"`
	Seconds   float64       `json:"seconds"`
	Checks    []certCheck   `json:"checks"`
	Records   []*llm.Record `json:"records"` // of all requests that were sent
}

type certCheck struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Detail string `json:"detail"`
}

// certifier sends the requests.
type certifier struct {
	client
	out    io.Writer
	report certificate
	class  string // of the device
	device server.DeviceStatus
	limit  int      // prompt tokens that the device takes; 0: not known
	cold   *float64 // ms that the first load took; nil: it was loaded already
	own    bool
}

func (p Program) certify(ctx context.Context, out io.Writer, o certifyOptions) error {
	c, stop, err := p.certifyServer(ctx, o)
	if err != nil {
		return err
	}
	defer stop()
	c.out, c.class = out, o.device
	if o.json == "-" {
		c.out = os.Stderr
	}
	c.report.Signalbox, c.report.StartedAt, c.report.Certified = version.Version, time.Now().UTC(), "no"
	c.run(ctx, o.model)
	c.report.Seconds = time.Since(c.report.StartedAt).Seconds()
	c.conclude()
	if err := c.write(o.json, out); err != nil {
		return err
	}
	if c.report.Certified == "no" {
		return exitError{1}
	}
	return nil
}

// certifyServer connects to the Signalbox that runs, or starts one in a temporary folder.
func (p Program) certifyServer(ctx context.Context, o certifyOptions) (*certifier, func(), error) {
	if !o.own {
		running, err := connect()
		if err == nil {
			return &certifier{client: running, report: certificate{Server: "running"}}, func() {}, nil
		}
		if !errors.Is(err, errNoServer) {
			return nil, nil, err
		}
	}
	home, err := os.MkdirTemp("", "signalbox-certify-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(home) }
	b, token, closeLog, err := p.ownBackend(home, o)
	if err != nil {
		remove()
		return nil, nil, err
	}
	running, quit := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(running) }()
	stop := func() {
		quit()
		<-ended
		closeLog()
		remove()
	}
	h, err := (instance.Owner{UIURL: b.UIURL(), Token: token}).Client()
	if err != nil {
		stop()
		return nil, nil, err
	}
	return &certifier{client: client{url: b.UIURL(), http: h}, own: true, report: certificate{Server: "own"}}, stop, nil
}

// ownBackend has the user's models and settings, and empty caches. The device comes first, so that the rules choose it by
// themselves; where no NPU is, the CPU stands in for it with limits that make that bearable.
func (p Program) ownBackend(home string, o certifyOptions) (*backend.Backend, string, func(), error) {
	usual, err := dirs.Find()
	if err != nil {
		return nil, "", nil, err
	}
	settings, _ := config.Load(usual.Settings())
	if settings.ModelsDir == "" {
		settings.ModelsDir = usual.Models()
	}
	if settings.RuntimeDir == "" {
		if _, err := os.Stat(usual.Runtime()); err == nil {
			settings.RuntimeDir = usual.Runtime()
		}
	}
	settings.Preference = append([]string{o.device}, slices.DeleteFunc([]string{llm.NPU, llm.GPU, llm.CPU}, func(s string) bool { return s == o.device })...)
	settings.EmulateNPU = o.device == llm.NPU // where a real one is, that has no effect
	settings.NeverFallBack, settings.Pins, settings.Probe, settings.BatteryNPU = false, nil, false, false
	if settings.EmulateNPU && !hasNPU() {
		settings.NPUPrompt, settings.NPUReserve = 256, 64
	}
	d := dirs.Dirs{Config: home, Data: home, State: home, Cache: filepath.Join(home, "cache")}
	if err := errors.Join(d.Make(), settings.Save(d.Settings())); err != nil {
		return nil, "", nil, err
	}
	log, file := logs.Open(d.Logs(), io.Discard)
	token := instance.NewToken()
	b, err := backend.New(backend.Options{Dirs: d, Frontend: p.Assets, Token: token, Log: log})
	return b, token, func() { _ = file.Close() }, err
}

// hasNPU tells whether the system has the device file of an NPU's driver. Windows has none: there the usual limits hold.
func hasNPU() bool {
	found, _ := filepath.Glob("/dev/accel/accel*")
	return len(found) > 0
}

// run does the checks in order. The later ones need the first.
func (c *certifier) run(ctx context.Context, model string) {
	if !c.check("device", c.findDevice(ctx)) || !c.check("model", c.findModel(ctx, model)) {
		return
	}
	c.check("short requests run on it", c.short(ctx))
	c.check("a prompt that is too long goes elsewhere, with a reason", c.long(ctx))
	c.check("known answers are right", c.answers(ctx))
	c.check("a cancelled request frees the device", c.cancel(ctx))
	c.check("the compile cache helps", c.cache(ctx))
}

// outcome is what a check returns.
type outcome struct {
	detail string
	err    error
	skip   bool
}

func (c *certifier) check(name string, o outcome) bool {
	check := certCheck{Name: name, Result: passed, Detail: o.detail}
	switch {
	case o.err != nil:
		check.Result, check.Detail = failed, o.err.Error()
	case o.skip:
		check.Result = skipped
	}
	c.report.Checks = append(c.report.Checks, check)
	fmt.Fprintf(c.out, "%-8s %s: %s\n", check.Result, check.Name, printable(check.Detail))
	return o.err == nil
}

func (c *certifier) findDevice(ctx context.Context) outcome {
	deadline := time.Now().Add(time.Minute)
	for {
		var status server.Status
		if err := c.get(ctx, "GET", "/ui/status", nil, &status); err != nil {
			return outcome{err: err}
		}
		if status.Runtime.Error != "" {
			return outcome{err: errors.New(status.Runtime.Error)}
		}
		c.report.Runtime = status.Runtime.Version
		var others []string
		for _, d := range status.Devices {
			if d.Class == c.class && d.State != "unavailable" {
				c.device = d
				c.report.Device, c.report.Name = d.Label, d.Name
				return outcome{detail: d.Label + ", " + d.Name}
			}
			if d.Class == c.class {
				return outcome{err: fmt.Errorf("%s: %s", d.Label, d.Note)}
			}
			others = append(others, d.Label)
		}
		switch {
		case len(status.Devices) > 0:
			return outcome{err: fmt.Errorf("there is no %s here, only %s; `signalbox doctor` says what is missing", c.class, strings.Join(others, " and "))}
		case time.Now().After(deadline):
			return outcome{err: errors.New("the devices were not found within a minute")}
		}
		select {
		case <-ctx.Done():
			return outcome{err: ctx.Err()}
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *certifier) findModel(ctx context.Context, asked string) outcome {
	var known struct {
		Cards []cards.Card `json:"cards"`
	}
	if err := c.get(ctx, "GET", "/ui/cards", nil, &known); err != nil {
		return outcome{err: err}
	}
	var tags struct {
		Models []struct {
			Name string `json:"name"`
			Size int64  `json:"size"`
		} `json:"models"`
	}
	if err := c.get(ctx, "GET", "/api/tags", nil, &tags); err != nil {
		return outcome{err: err}
	}
	why := ""
	slices.SortFunc(tags.Models, func(a, b struct {
		Name string `json:"name"`
		Size int64  `json:"size"`
	}) int {
		return int(min(max(a.Size-b.Size, -1), 1))
	})
	for _, m := range tags.Models {
		if asked != "" && m.Name != asked && m.Name != asked+":latest" {
			continue
		}
		var show struct {
			Capabilities []string `json:"capabilities"`
		}
		if err := c.get(ctx, "POST", "/api/show", map[string]string{"model": m.Name}, &show); err != nil {
			return outcome{err: err}
		}
		if !slices.Contains(show.Capabilities, "completion") {
			continue
		}
		i := slices.IndexFunc(known.Cards, func(card cards.Card) bool { return card.Model == m.Name && card.Device == c.device.ID })
		if i >= 0 && known.Cards[i].LoadError != "" {
			why = fmt.Sprintf("%s does not run there: %s", m.Name, known.Cards[i].LoadError)
			continue
		}
		if i >= 0 {
			c.report.Digest, c.report.Driver = known.Cards[i].Digest, known.Cards[i].Driver
		}
		c.report.Model = m.Name
		return outcome{detail: m.Name}
	}
	switch {
	case why != "":
		return outcome{err: errors.New(why)}
	case asked != "":
		return outcome{err: fmt.Errorf("there is no chat model called %q: `signalbox list` shows what you have", asked)}
	}
	return outcome{err: errors.New("there is no chat model here: `signalbox pull` gets one")}
}

// said is the end of an answer.
type said struct {
	text   string
	record *llm.Record
	header http.Header
	status int
	error  string
}

// chat sends one request; device pins it. first, which may be nil, is called at the first piece.
func (c *certifier) chat(ctx context.Context, prompt string, most int, device string, first func()) (said, error) {
	body, err := json.Marshal(map[string]any{
		"model": c.report.Model, "messages": []map[string]string{{"role": "user", "content": prompt}}, "stream": true, "think": false,
		"keep_alive": "10m", "options": map[string]any{"temperature": 0, "num_predict": most},
	})
	if err != nil {
		return said{}, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+"/api/chat", bytes.NewReader(body))
	if err != nil {
		return said{}, err
	}
	req.Header.Set("User-Agent", "signalbox-cli certify")
	req.Header.Set("Content-Type", "application/json")
	if device != "" {
		req.Header.Set("X-Signalbox-Device", device)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return said{}, err
	}
	defer resp.Body.Close()
	s := said{header: resp.Header, status: resp.StatusCode}
	lines := json.NewDecoder(resp.Body)
	for {
		var line struct {
			Message struct{ Content string } `json:"message"`
			Record  *llm.Record              `json:"llmeu"`
			Error   string                   `json:"error"`
		}
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return s, err
		}
		s.text += line.Message.Content
		s.error = line.Error
		if line.Record != nil {
			s.record = line.Record
			c.report.Records = append(c.report.Records, line.Record)
		}
		if first != nil && line.Message.Content != "" {
			first()
			first = nil
		}
	}
	return s, nil
}

// ran sends a request that must succeed.
func (c *certifier) ran(ctx context.Context, prompt string, most int, device string) (said, error) {
	s, err := c.chat(ctx, prompt, most, device, nil)
	switch {
	case err != nil:
		return s, err
	case s.error != "":
		return s, errors.New(s.error)
	case s.record == nil:
		return s, fmt.Errorf("the answer (status %d) has no routing record", s.status)
	}
	return s, nil
}

// pin is the device where the rules of a running server may want another one.
func (c *certifier) pin() string {
	if c.own {
		return ""
	}
	return c.device.ID
}

func (c *certifier) short(ctx context.Context) outcome {
	for i, prompt := range []string{"Say hello.", "Name a colour.", "Count to three."} {
		s, err := c.ran(ctx, prompt, 8, c.pin())
		if err != nil {
			return outcome{err: err}
		}
		r := s.record
		switch {
		case r.ExecutionDevice != c.device.Label:
			return outcome{err: fmt.Errorf("it ran on %s: %s", r.ExecutionDevice, r.RouteReason)}
		case s.header.Get("X-NPU-Proxy-Execution-Device") != r.ExecutionDevice:
			return outcome{err: fmt.Errorf("the header says %q and the record %q", s.header.Get("X-NPU-Proxy-Execution-Device"), r.ExecutionDevice)}
		case r.CompletionTokens == nil || *r.CompletionTokens == 0:
			return outcome{err: errors.New("it gave no token")}
		}
		if i == 0 && r.LoadMS != nil && *r.LoadMS > 50 {
			c.cold = r.LoadMS
		}
		if i == 2 {
			return outcome{detail: fmt.Sprintf("3 of 3 on %s; %s%s", r.ExecutionDevice, r.RouteReason, speedOf(r))}
		}
	}
	return outcome{}
}

func speedOf(r *llm.Record) string {
	if r.TokensPerSecond == nil {
		return ""
	}
	return fmt.Sprintf(" (%.1f tokens/s)", *r.TokensPerSecond)
}

// long sends a prompt above the device's limit, free to go anywhere and pinned.
func (c *certifier) long(ctx context.Context) outcome {
	var known struct {
		Cards []cards.Card `json:"cards"`
	}
	if err := c.get(ctx, "GET", "/ui/cards", nil, &known); err != nil {
		return outcome{err: err}
	}
	for _, card := range known.Cards {
		if card.Model == c.report.Model && card.Device == c.device.ID {
			c.limit = card.PromptLimit
			if c.limit == 0 {
				c.limit = card.ContextLimit - 1
			}
		}
	}
	if c.limit <= 0 {
		return outcome{err: errors.New("the device's prompt limit is not known")}
	}
	prompt := strings.Repeat("one two three four five six seven eight nine ten ", c.limit/10+2)
	refused, err := c.chat(ctx, prompt, 1, c.device.ID, nil)
	switch {
	case err != nil:
		return outcome{err: err}
	case refused.status != http.StatusBadRequest || !strings.Contains(refused.error, "prompt is too long"):
		return outcome{err: fmt.Errorf("pinned to %s it was not refused: status %d, %s", c.device.Label, refused.status, refused.error)}
	}
	free, err := c.chat(ctx, prompt, 1, "", nil)
	switch {
	case err != nil:
		return outcome{err: err}
	case free.status == http.StatusBadRequest && strings.Contains(free.error, "prompt is too long"):
		return outcome{detail: "no other device takes it either: " + free.error}
	case free.error != "":
		return outcome{err: errors.New(free.error)}
	case free.record == nil:
		return outcome{err: fmt.Errorf("the answer (status %d) has no routing record", free.status)}
	case free.record.ExecutionDevice == c.device.Label:
		return outcome{err: fmt.Errorf("it ran on %s, above the limit of %d", c.device.Label, c.limit)}
	}
	for _, r := range free.record.Rejected {
		if r.Device == c.device.Label && r.Rule == "prompt_limit" {
			return outcome{detail: fmt.Sprintf("it went to %s: %s", free.record.ExecutionDevice, free.record.RouteReason)}
		}
	}
	if free.record.RouteReason == "" {
		return outcome{err: errors.New("it went elsewhere without a reason")}
	}
	return outcome{detail: fmt.Sprintf("it went to %s: %s", free.record.ExecutionDevice, free.record.RouteReason)}
}

// answers asks known questions, and the CPU the same where the device does not know.
func (c *certifier) answers(ctx context.Context) outcome {
	ask := func(device string) (list []cards.Answer, err error) {
		for _, q := range cards.Questions {
			s, err := c.ran(ctx, q.Text, cards.AnswerTokens, device)
			if err != nil {
				return nil, err
			}
			list = append(list, q.Mark(s.text))
		}
		return list, nil
	}
	got, err := ask(c.device.ID)
	if err != nil {
		return outcome{err: err}
	}
	var reference []cards.Answer
	if c.class != llm.CPU && slices.ContainsFunc(got, func(a cards.Answer) bool { return !a.Right }) {
		if reference, err = ask("cpu"); err != nil {
			return outcome{err: err}
		}
	}
	right := 0
	for _, a := range got {
		if a.Right {
			right++
		}
	}
	switch cards.Judge(got, reference) {
	case cards.Wrong:
		return outcome{err: errors.New(cards.Card{Verdict: cards.Wrong, Answers: got}.Wrongly())}
	case cards.Unsure:
		return outcome{skip: true, detail: "this model does not know the answers on the CPU either; use a larger one with --model"}
	}
	rest := ""
	if right < len(got) {
		rest = ", and what it does not know it does not know on the CPU either"
	}
	return outcome{detail: fmt.Sprintf("%d of %d right%s", right, len(got), rest)}
}

// cancel leaves in the middle of an answer. The device must be free for the next request.
func (c *certifier) cancel(ctx context.Context) outcome {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	trace := ""
	_, err := c.chat(leaving, "Write a long story about a train, with every station.", 2000, c.device.ID, func() { leave() })
	if err == nil {
		return outcome{err: errors.New("the answer ended before it could be cancelled")}
	}
	begun := time.Now()
	s, err := c.ran(ctx, "Say yes.", 2, c.device.ID)
	if err != nil {
		return outcome{err: err}
	}
	var list struct {
		Requests []struct {
			llm.Record
		} `json:"requests"`
	}
	if err := c.get(ctx, "GET", "/ui/requests?limit=5&outcome=cancelled&device="+strings.ReplaceAll(c.device.ID, ":", "%3A"), nil, &list); err != nil {
		return outcome{err: err}
	}
	if len(list.Requests) == 0 {
		return outcome{err: errors.New("the journal has no cancelled request")}
	}
	cancelled := list.Requests[0].Record
	trace = cancelled.TraceID
	c.report.Records = append(c.report.Records, &cancelled)
	if cancelled.CancelMS == nil {
		return outcome{err: fmt.Errorf("request %s does not say how long the cancel took", trace)}
	}
	waited := 0.0
	if s.record.QueueMS != nil {
		waited = *s.record.QueueMS
	}
	return outcome{detail: fmt.Sprintf("free after %.0f ms; the next request waited %.0f ms and was answered after %.1f s", *cancelled.CancelMS, waited, time.Since(begun).Seconds())}
}

// cache loads the model a second time.
func (c *certifier) cache(ctx context.Context) outcome {
	if !c.own || c.cold == nil {
		return outcome{skip: true, detail: "the model was loaded or compiled before: use --own to measure with an empty cache"}
	}
	var kept server.Compiled
	if err := c.get(ctx, "GET", "/ui/compiled", nil, &kept); err != nil {
		return outcome{err: err}
	}
	if !slices.ContainsFunc(kept.Models, func(m server.CompiledModel) bool { return m.Device == c.device.ID }) {
		return outcome{skip: true, detail: fmt.Sprintf("nothing is kept of models compiled for %s; it was loaded in %.1f s", c.device.Label, *c.cold/1000)}
	}
	if err := c.get(ctx, "POST", "/api/generate", map[string]any{"model": c.report.Model, "keep_alive": 0}, &struct{}{}); err != nil {
		return outcome{err: err}
	}
	s, err := c.ran(ctx, "Say hello.", 2, c.device.ID)
	switch {
	case err != nil:
		return outcome{err: err}
	case s.record.LoadMS == nil || *s.record.LoadMS < 1:
		return outcome{err: errors.New("the model was not unloaded")}
	case *s.record.LoadMS > *c.cold*0.9:
		return outcome{err: fmt.Errorf("the second load took %.1f s, the first %.1f s", *s.record.LoadMS/1000, *c.cold/1000)}
	}
	return outcome{detail: fmt.Sprintf("the first load took %.1f s, the second %.1f s", *c.cold/1000, *s.record.LoadMS/1000)}
}

func (c *certifier) conclude() {
	bad := slices.ContainsFunc(c.report.Checks, func(check certCheck) bool { return check.Result == failed })
	switch {
	case bad:
		fmt.Fprintf(c.out, "\n%s is not certified.\n", cmp.Or(c.report.Device, c.class))
		return
	case c.device.Emulated:
		c.report.Certified = "emulated"
		fmt.Fprintf(c.out, "\n%s is certified as emulated: the plugin works, no hardware was tried.\n", c.report.Device)
	default:
		c.report.Certified = "hardware"
		fmt.Fprintf(c.out, "\n%s (%s) is certified with %s.\n", c.report.Device, c.report.Name, c.report.Model)
	}
}

func (c *certifier) write(path string, out io.Writer) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(c.report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err := out.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
