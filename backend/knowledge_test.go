package backend

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/cards"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/backend/machine"
	"signalbox/backend/models"
	"signalbox/backend/router"
	"signalbox/internal/config"
	"signalbox/internal/dirs"
	"signalbox/internal/testenv"
)

// TestMain is also the engine process of these tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		llmtest.Child(llmtest.Options{})
	}
	os.Exit(m.Run())
}

const starter = "smollm2:135m"

// environment is what the backends of these tests find there, by name. It may change while they run.
var environment sync.Map

func getenv(name string) string {
	if name == "SIGNALBOX_PROBE" {
		return "on"
	}
	value, _ := environment.Load(name)
	text, _ := value.(string)
	return text
}

func setenv(t testing.TB, name, value string) {
	environment.Store(name, value)
	t.Cleanup(func() { environment.Delete(name) })
}

// logged is what the backends of these tests say in their log.
var logged lines

type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), words)
}

func (l *lines) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// start runs a backend on the fake engine with the starter model, until the test ends or stop is called.
func start(t testing.TB, home string, change ...func(*config.Settings)) (b *Backend, stop func()) {
	t.Helper()
	d := dirs.Dirs{Config: home, Data: home, State: home, Cache: filepath.Join(home, "cache")}
	settings := config.Default()
	settings.ModelsDir = filepath.Dir(testenv.ChatModel(t))
	for _, c := range change {
		c(&settings)
	}
	require.NoError(t, d.Make())
	require.NoError(t, settings.Save(d.Settings()))
	b, err := New(Options{
		Dirs: d, Fake: true, Token: "token", Log: slog.New(slog.NewTextHandler(&logged, nil)),
		Getenv: getenv,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			assert.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return b, stop
}

// ask sends one prompt to a device.
func ask(t *testing.T, b *Backend, prompt string) (string, error) {
	t.Helper()
	model, err := b.library.Find(starter)
	require.NoError(t, err)
	tokens, err := b.engine.Prepare(t.Context(), llm.PrepareRequest{Model: model.Ref(), Messages: []llm.Message{{Role: "user", Content: prompt}}})
	require.NoError(t, err)
	text := ""
	_, err = b.engine.Run(t.Context(), engine.Job{
		Device: llmtest.MockDevice(0), Load: llm.LoadRequest{Model: model.Ref()},
		Generate: llm.GenerateRequest{Model: model.Ref(), Tokens: tokens.Tokens},
		OnDelta:  func(d llm.Delta) error { text += d.Text; return nil },
	})
	return text, err
}

func cardOf(b *Backend) cards.Card {
	for _, c := range b.Cards() {
		if c.Model == starter {
			return c
		}
	}
	return cards.Card{}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, 10*time.Millisecond, what)
}

// asked replaces the known questions, and the waiting before them.
func asked(t *testing.T, quiet time.Duration, questions ...cards.Question) {
	oldQuestions, oldQuiet, oldLook := cards.Questions, probeQuiet, probeLook
	cards.Questions, probeQuiet, probeLook = questions, quiet, 5*time.Millisecond
	t.Cleanup(func() { cards.Questions, probeQuiet, probeLook = oldQuestions, oldQuiet, oldLook })
}

func TestWordSaladIsNoticedKeptAndReleased(t *testing.T) { // field report 3
	asked(t, 20*time.Millisecond, cards.Question{Text: "[[say cohclclcl]]", Answers: []string{"oslo"}})
	home := t.TempDir()
	b, stop := start(t, home)
	assert.True(t, cardOf(b).Assumed || cardOf(b).Model == "", "nothing was measured yet")
	text, err := ask(t, b, "hello")
	require.NoError(t, err)
	assert.Equal(t, llmtest.Canned, text)
	eventually(t, "the model was asked", func() bool { return cardOf(b).Verdict == cards.Wrong })
	card := cardOf(b)
	assert.False(t, card.Assumed)
	assert.True(t, card.Loads)
	assert.Equal(t, 8192, card.ContextLimit)
	assert.Contains(t, card.Wrongly(), "cohclclcl")
	assert.Contains(t, b.Status().Devices[0].Note, "answers wrongly")
	stop()

	b, _ = start(t, home)
	eventually(t, "the devices are there", func() bool { return len(b.Status().Devices) > 0 })
	assert.Equal(t, cards.Wrong, cardOf(b).Verdict, "it outlives a restart")
	facts := factsOf(b, "curl")
	assert.Contains(t, facts.Devices[0].Wrong, "cohclclcl")
	decision, err := router.Decide(facts)
	require.NoError(t, err, "the last usable device is not taken away")
	assert.Contains(t, decision.Reason, "no other device can take it")
	n, err := b.Release("mock:0", starter)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Empty(t, factsOf(b, "curl").Devices[0].Wrong)
	_, err = b.Release("gpu:7", "")
	assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err))
	assert.ErrorContains(t, err, `there is no device "gpu:7" here`)
	refused, _ := errors.AsType[*llm.Error](err)
	assert.Equal(t, "use mock:0", refused.Hint)
	_, err = b.RemoveCompiled("gpu:7", "")
	assert.ErrorContains(t, err, `there is no device "gpu:7" here`)
}

func factsOf(b *Backend, client string) router.Facts {
	model, _ := b.library.Find(starter)
	states := b.engine.current().States()
	facts := router.Facts{Model: router.Model{Name: model.Name}, Policy: b.policy().Router}
	for _, s := range states {
		facts.Devices = append(facts.Devices, router.DeviceFacts{Device: s.Device, Quarantined: s.Quarantined[model.Name]})
	}
	b.knowledge.advise(&facts, model, client)
	return facts
}

func TestTheNoteOfADeviceSaysWhetherAModelIsKeptOffIt(t *testing.T) {
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	eventually(t, "the devices are there", func() bool { return len(b.engine.current().States()) > 0 })
	model, err := b.library.Find(starter)
	require.NoError(t, err)
	npu, mock := llm.Device{Class: llm.NPU, Runtime: "NPU", Emulated: true}, b.engine.current().States()[0].Device
	change := func(device llm.Device, change func(*cards.Card)) {
		b.knowledge.cards.Update(starter, device, b.knowledge.basis(model.Ref().Digest, device), change)
	}
	change(npu, func(c *cards.Card) { c.Quarantined = "it crashed three times" })
	assert.Equal(t, []string{"smollm2:135m is kept off this device: it crashed three times."}, b.notes(engine.State{Device: npu}), "the other one takes it")
	change(mock, func(c *cards.Card) { c.Verdict = cards.Wrong })
	assert.Equal(t, []string{"smollm2:135m still runs on this device, since no other can take it: it crashed three times."}, b.notes(engine.State{Device: npu}))
}

func TestAProbeGivesWayToARequestAndComesBack(t *testing.T) {
	asked(t, 50*time.Millisecond, cards.Question{Text: "[[slow 100]] [[say Oslo is the capital of Norway, and it always was]]", Answers: []string{"oslo"}})
	b, _ := start(t, t.TempDir())
	_, err := ask(t, b, "hello")
	require.NoError(t, err)
	busy := func() bool { return b.engine.current().States()[0].Running > 0 }
	eventually(t, "the probe is at work", busy)
	logged.reset()
	_, err = ask(t, b, "hello")
	require.NoError(t, err)
	eventually(t, "it stopped", func() bool { return logged.has("was not asked known questions") })
	eventually(t, "it was asked after all", func() bool { return cardOf(b).Verdict == cards.Right })
}

func TestProbesCanBeSwitchedOff(t *testing.T) {
	asked(t, time.Millisecond, cards.Question{Text: "[[say Oslo]]", Answers: []string{"oslo"}})
	b, _ := start(t, t.TempDir(), func(s *config.Settings) { s.Probe = false })
	_, err := ask(t, b, "hello")
	require.NoError(t, err)
	b.prober.mu.Lock()
	defer b.prober.mu.Unlock()
	assert.Empty(t, b.prober.waiting)
}

func TestThreeCrashesAreKeptOverARestart(t *testing.T) { // field report 4
	asked(t, time.Hour)
	home := t.TempDir()
	b, stop := start(t, home)
	for _, prompt := range []string{"[[die]] a", "[[die]] b", "[[die]] c"} {
		_, err := ask(t, b, prompt)
		require.Error(t, err)
	}
	assert.Contains(t, cardOf(b).Quarantined, "crashed")
	stop()
	b, _ = start(t, home)
	eventually(t, "the devices are there", func() bool { return len(b.Status().Devices) > 0 })
	assert.Contains(t, factsOf(b, "curl").Devices[0].Quarantined, "crashed")
	assert.Contains(t, b.Status().Devices[0].Note, "still runs on this device, since no other can take it", "it is the only one")
	_, err := b.Release("mock:0", "")
	require.NoError(t, err)
	assert.Empty(t, factsOf(b, "curl").Devices[0].Quarantined)
	text, err := ask(t, b, "hello")
	require.NoError(t, err)
	assert.Equal(t, llmtest.Canned, text)
}

func TestSpeedsOutliveARestart(t *testing.T) {
	asked(t, time.Hour)
	home := t.TempDir()
	b, stop := start(t, home)
	_, err := ask(t, b, "[[tokens 40]] [[slow 2]] [[prefill 5]] a prompt of some words that can be measured")
	require.NoError(t, err)
	before := b.engine.current().States()[0].Speeds[starter]
	require.Positive(t, before.Decode)
	stop()
	b, _ = start(t, home)
	eventually(t, "the devices are there", func() bool { return len(b.engine.current().States()) > 0 })
	assert.Equal(t, before, b.engine.current().States()[0].Speeds[starter])
}

func TestWokenUpEngineWorks(t *testing.T) { // field report 40a
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	failed := make(chan error, 1)
	go func() {
		_, err := ask(t, b, "[[endless]] [[slow 5]]")
		failed <- err
	}()
	eventually(t, "it runs", func() bool {
		states := b.engine.current().States()
		return len(states) > 0 && states[0].Running > 0 && len(states[0].Loaded) > 0
	})
	b.wokeUp()
	assert.ErrorContains(t, <-failed, "this computer was asleep")
	text, err := ask(t, b, "hello")
	require.NoError(t, err)
	assert.Equal(t, llmtest.Canned, text)
}

func TestSettingsDecideAtTheNextRequest(t *testing.T) {
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	_, err := ask(t, b, "hello")
	require.NoError(t, err)
	b.knowledge.supply.Read = func() string { return machine.Battery }
	assert.Empty(t, factsOf(b, "Zed").Request.Pinned)
	pins := func(pins ...config.Pin) error {
		return b.ChangeSettings(func(s *config.Settings) error {
			s.NeverFallBack, s.Pins = true, pins
			return nil
		})
	}
	require.NoError(t, pins(
		config.Pin{Client: "zed", Model: "other", Device: "gpu"}, config.Pin{Client: "zed", Device: "npu"}, config.Pin{Model: starter, Device: "cpu"},
	))
	zed, curl := factsOf(b, "Zed"), factsOf(b, "curl")
	assert.Equal(t, "npu", zed.Request.Pinned)
	assert.Equal(t, "the settings send Zed to", zed.Request.PinnedBy)
	assert.Equal(t, "cpu", curl.Request.Pinned)
	assert.Equal(t, "the settings keep smollm2:135m on", curl.Request.PinnedBy)
	assert.True(t, curl.Policy.NeverFallBack)
	assert.True(t, curl.Policy.OnBattery, "the NPU is preferred there")
	require.NoError(t, b.ChangeSettings(func(s *config.Settings) error {
		s.NeverFallBack, s.BatteryNPU, s.SidePrompt, s.SideAnswer, s.Preference = false, false, 99, 9, []string{llm.CPU, llm.NPU}
		return nil
	}))
	policy := factsOf(b, "curl").Policy
	assert.False(t, policy.NeverFallBack)
	assert.False(t, policy.OnBattery)
	assert.Equal(t, 99, policy.SidePrompt)
	assert.Equal(t, 9, policy.SideAnswer)
	assert.Equal(t, []string{llm.CPU, llm.NPU}, policy.Preference)
	assert.ErrorContains(t, pins(config.Pin{Device: "cpu"}), "neither a model nor a client")
	assert.ErrorContains(t, pins(config.Pin{Client: "x", Device: "tpu"}), `"tpu" is no device`)
}

func TestADeviceOfAnEarlierRunIsMissed(t *testing.T) {
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	b.knowledge.fake = false // only what is no fake is missed
	npu := llm.Device{Class: llm.NPU, Name: "AI Boost", Runtime: "NPU"}
	yesterday := time.Now().Add(-24 * time.Hour)
	b.knowledge.cards.See([]llm.Device{npu}, yesterday)
	b.knowledge.cards.See([]llm.Device{{Class: llm.GPU}}, time.Now().Add(-40*24*time.Hour)) // sold
	facts := router.Facts{Devices: []router.DeviceFacts{{Device: llm.Device{Class: llm.CPU}}}}
	b.knowledge.advise(&facts, models.Model{Name: starter}, "curl")
	require.Len(t, facts.Devices, 2)
	d, err := router.Decide(facts)
	require.NoError(t, err)
	assert.Equal(t, "CPU", d.Device.Label())
	assert.Contains(t, d.Reason, "it was here on "+yesterday.Format("2 January 2006")+" and is not found now")
}

func TestAClockThatWasAheadClosesNothing(t *testing.T) {
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	b.knowledge.fake = false
	model, err := b.library.Find(starter)
	require.NoError(t, err)
	npu := llm.Device{Class: llm.NPU, Name: "AI Boost", Runtime: "NPU"}
	refused := func(at time.Time) string {
		b.knowledge.cards.Update(starter, npu, b.knowledge.basis(model.Ref().Digest, npu), func(c *cards.Card) {
			c.LoadError, c.LoadFailedAt = "no memory", at
		})
		facts := router.Facts{Devices: []router.DeviceFacts{{Device: npu}}}
		b.knowledge.advise(&facts, model, "curl")
		return facts.Devices[0].Quarantined
	}
	assert.NotEmpty(t, refused(time.Now().Add(-time.Minute)))
	assert.Empty(t, refused(time.Now().Add(-time.Hour)))
	assert.Empty(t, refused(time.Now().Add(10*365*24*time.Hour)), "it would be closed for ten years")
	b.knowledge.cards.See([]llm.Device{{Class: llm.GPU}}, time.Now().Add(10*365*24*time.Hour))
	assert.Empty(t, b.knowledge.missed())
}

func TestMemoryIsLookedAtBeforeALoad(t *testing.T) { // field report 13
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	b.knowledge.memory, b.knowledge.looked = func() int64 { return 6e9 }, time.Time{}
	facts := router.Facts{Model: router.Model{Name: "large"}, Devices: []router.DeviceFacts{{Device: llm.Device{Class: llm.CPU}}}}
	b.knowledge.advise(&facts, models.Model{Name: "large", Kind: models.KindChat, Size: 9e9}, "curl")
	_, err := router.Decide(facts)
	assert.EqualError(t, err, "no device can take the request: the CPU has 6.0 GB of memory free, and large needs about 9.0 GB: "+
		"smollm2:135m would fit; or close other programs, or unload other models")
}

func TestAModelIsWarmedUpInTheBackgroundOnce(t *testing.T) { // field report 1
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	model, err := b.library.Find(starter)
	require.NoError(t, err)
	eventually(t, "it runs", func() bool { return len(b.engine.current().States()) > 0 })
	loaded := func() int { return len(b.engine.current().Loaded()) }
	load := llm.LoadRequest{Model: model.Ref()}
	b.engine.WarmUp(llmtest.MockDevice(0), load)
	eventually(t, "it is loaded", func() bool { return loaded() == 1 })
	require.NoError(t, b.engine.Unload(t.Context(), starter))
	b.engine.WarmUp(llmtest.MockDevice(0), load)
	b.engine.WarmUp(llmtest.MockDevice(0), load)
	assert.Zero(t, loaded(), "not again at once: who unloads a model wants it gone")
}

func TestAVariantsCardIsItsFilesAndAnUntriedNPUHasItsProgramsLength(t *testing.T) {
	b, _ := start(t, t.TempDir())
	shelf := models.Open(t.TempDir(), filepath.Dir(testenv.ChatModel(t)))
	require.NoError(t, shelf.Create(models.Creation{Name: "mine", From: starter, System: "Be brief."}))
	mine, err := shelf.Find("mine")
	require.NoError(t, err)
	k, npu, cpu := b.knowledge, llm.Device{Class: llm.NPU}, llm.Device{Class: llm.CPU}
	card := k.card(nil, npu, mine)
	assert.Equal(t, card.PromptLimit+b.Settings().NPUReserve-1, card.ContextLimit)
	assert.Less(t, card.ContextLimit, mine.ContextLength)
	assert.True(t, card.Assumed)
	assert.Equal(t, mine.ContextLength, k.card(nil, cpu, mine).ContextLimit)

	k.cards.Update(starter, cpu, k.basis(mine.Ref().Digest, cpu), func(c *cards.Card) { c.Loads, c.ContextLimit, c.Decode = true, 4096, 20 })
	card = k.card(nil, cpu, mine)
	assert.False(t, card.Assumed)
	assert.Equal(t, "mine", card.Model)
	assert.Equal(t, 4096, card.ContextLimit)
	assert.InDelta(t, 20, card.Decode, 0)
	facts := router.DeviceFacts{Device: cpu}
	k.complete(&facts, mine, 1<<40)
	assert.Equal(t, 4096, facts.ContextLimit, "the router knows it, too")
}

func TestAPageOfAnErrorIsALineOnACard(t *testing.T) {
	assert.Equal(t, "it failed: no such file", oneLine("  it failed:\n\tno such file\n"))
	long := oneLine(strings.Repeat("\n  é", 1000))
	assert.Equal(t, 301, len([]rune(long)))
	assert.True(t, strings.HasSuffix(long, "…"), long)
}
