package backend

import (
	"context"
	"sync"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
)

// prober asks each model a few known questions after its first load on a device, and writes the result on its card. It waits until
// the device has nothing to do, and stops in the middle of a word when a request comes: then it tries again later.
type prober struct {
	backend *Backend
	enabled func() bool

	mu      sync.Mutex
	waiting []probe                 // guarded by mu
	came    int                     // requests so far; guarded by mu
	running context.CancelCauseFunc // of the probe at work; nil: none; guarded by mu
	more    chan struct{}           // holds a token when waiting has grown
}

type probe struct {
	device llm.Device
	load   llm.LoadRequest
	tries  int
}

const (
	probeTries = 10 // a machine that is never idle is not probed for ever
	probeLimit = 3 * time.Minute
)

// probeQuiet is how long a device must have been idle, and probeLook how often that is looked at. Variables so that tests need
// not wait.
var (
	probeQuiet = 2 * time.Second
	probeLook  = 200 * time.Millisecond
)

func newProber(b *Backend) *prober {
	p := &prober{backend: b, more: make(chan struct{}, 1)}
	p.enabled = func() bool {
		switch b.options.Getenv("SIGNALBOX_PROBE") {
		case "off":
			return false
		case "on":
			return b.Settings().Probe
		}
		return b.Settings().Probe && !b.options.Fake
	}
	return p
}

// want puts a model on a device on the list, unless it has been asked already.
func (p *prober) want(device llm.Device, load llm.LoadRequest) {
	if !p.enabled() {
		return
	}
	k := p.backend.knowledge
	if c, ok := k.cards.Get(load.Model.Name, device.ID(), k.basis(load.Model.Digest, device)); ok && c.Verdict != cards.Unknown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		if w.device.ID() == device.ID() && w.load.Model.Name == load.Model.Name {
			return
		}
	}
	p.waiting = append(p.waiting, probe{device: device, load: load})
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// giveWay stops a probe: a request has come.
func (p *prober) giveWay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.came++
	if p.running != nil {
		p.running(llm.Errorf(llm.CodeCancelled, "a request came"))
		p.running = nil
	}
}

// run probes until ctx is done.
func (p *prober) run(ctx context.Context) {
	for {
		next, ok := p.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-p.more:
			}
			continue
		}
		came, ok := p.idle(ctx)
		if !ok {
			return
		}
		p.enter(ctx, next, came)
	}
}

func (p *prober) next() (probe, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return probe{}, false
	}
	next := p.waiting[0]
	p.waiting = p.waiting[1:]
	return next, true
}

// idle waits until no device has anything to do: they share memory and power. It tells how many requests
// had come by then, and reports false when ctx is done.
func (p *prober) idle(ctx context.Context) (came int, ok bool) {
	look := time.NewTicker(probeLook)
	defer look.Stop()
	since := time.Now()
	for {
		p.mu.Lock()
		if p.came != came {
			came, since = p.came, time.Now()
		}
		p.mu.Unlock()
		for _, s := range p.backend.engine.current().States() {
			if s.Running+s.Queued > 0 || s.Loading != "" {
				since = time.Now()
			}
		}
		if time.Since(since) >= probeQuiet {
			return came, true
		}
		select {
		case <-ctx.Done():
			return came, false
		case <-look.C:
		}
	}
}

// enter does one probe. One that had to give way, or failed, is tried again.
func (p *prober) enter(ctx context.Context, next probe, came int) {
	if !p.enabled() || !p.loaded(next) {
		return // the next request wants it again
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	if p.came != came { // in this very moment
		p.waiting = append(p.waiting, next)
		p.mu.Unlock()
		return
	}
	p.running = cancel
	p.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, probeLimit)
	defer stop()
	err := p.ask(ctx, next)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = nil
	if err != nil {
		p.backend.log.Info("a model was not asked known questions", "model", next.load.Model.Name, "device", next.device.ID(), "error", err)
		if next.tries++; next.tries < probeTries && llm.CodeOf(err) != llm.CodeEngine {
			p.waiting = append(p.waiting, next)
		}
	}
}

// loaded tells whether the model is still there: a probe never loads one, but for the comparison.
func (p *prober) loaded(next probe) bool {
	for _, l := range p.backend.engine.current().Loaded() {
		if l.Device.ID() == next.device.ID() && l.Model == next.load.Model {
			return true
		}
	}
	return false
}

// ask asks and writes the card. Where an answer is not right, the CPU is asked the same: only it can tell a device that
// computes wrongly from a model that does not know.
func (p *prober) ask(ctx context.Context, next probe) error {
	eng, release := p.backend.engine.use()
	defer release()
	said, err := questions(ctx, eng, next.device, next.load)
	if err != nil {
		return err
	}
	var reference []cards.Answer
	if !allRight(said) && next.device.Class != llm.CPU && next.device.Class != llm.Mock {
		if reference, err = questions(ctx, eng, llm.Device{Class: llm.CPU, Runtime: "CPU", Name: "CPU"}, next.load); err != nil {
			return err
		}
	}
	k := p.backend.knowledge
	verdict := cards.Judge(said, reference)
	k.learn(eng.States())
	k.cards.Update(next.load.Model.Name, next.device, k.basis(next.load.Model.Digest, next.device), func(c *cards.Card) {
		c.Verdict, c.Answers, c.MeasuredAt = verdict, said, time.Now().UTC()
	})
	if verdict == cards.Wrong {
		p.backend.log.Warn("known answers came out wrong", "model", next.load.Model.Name, "device", next.device.ID())
	}
	p.backend.changed.wake()
	return nil
}

func allRight(answers []cards.Answer) bool {
	for _, a := range answers {
		if !a.Right {
			return false
		}
	}
	return true
}

// questions asks all of them on a device, greedily.
func questions(ctx context.Context, eng *engine.Engine, device llm.Device, load llm.LoadRequest) ([]cards.Answer, error) {
	var answers []cards.Answer
	keep := keepOf(eng, device, load)
	thinking := false // the answers are short, and a model would spend them on its thoughts
	for _, q := range cards.Questions {
		prompt, err := eng.Prepare(ctx, llm.PrepareRequest{
			Model: load.Model, Messages: []llm.Message{{Role: "user", Content: q.Text}}, Thinking: &thinking,
		})
		if err != nil {
			return nil, err
		}
		greedy := llm.DefaultSampling()
		greedy.Temperature = 0
		text := ""
		_, err = eng.Run(ctx, engine.Job{
			Device: device, Load: load, KeepAlive: &keep,
			Generate: llm.GenerateRequest{
				Model: load.Model, Tokens: prompt.Tokens, Sampling: greedy, MaxTokens: cards.AnswerTokens, Owner: "signalbox-probe",
			},
			OnDelta: func(d llm.Delta) error { text += d.Text; return nil },
		})
		if err != nil {
			return nil, err
		}
		answers = append(answers, q.Mark(text))
	}
	return answers, nil
}

// keepOf is how long a model would stay loaded without the probe, so that the probe changes nothing about it.
func keepOf(eng *engine.Engine, device llm.Device, load llm.LoadRequest) time.Duration {
	for _, l := range eng.Loaded() {
		if l.Device.ID() != device.ID() || l.Model != load.Model {
			continue
		}
		if l.ExpiresAt.IsZero() {
			return -1
		}
		return max(time.Second, time.Until(l.ExpiresAt))
	}
	return 30 * time.Second // it was loaded for the comparison alone
}
