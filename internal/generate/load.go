package generate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/generate/constrain"
	"signalbox/internal/generate/ir"
	"signalbox/internal/openvino"
)

// chat is a language model that is ready.
type chat struct {
	name      string
	lib       *openvino.Library
	tokenizer *tokenizer
	release   func() // of the tokenizer
	model     *openvino.CompiledModel
	inputs    map[string]bool
	ends      map[int32]bool // tokens that end an answer
	vocab     int            // size of the logits
	loaded    llm.Loaded
	limits    limits
	trimmable bool // a tail of the cache can be masked out
	slots     slots
	pages     *pages // nil: each conversation's cache is in an infer request of its own
	pace      pace
	weights   int64 // bytes of their file
	grammars  *constrain.Compiler

	// NPU only: the one slot, and the right to use it for a whole answer.
	single *slot
	alone  *turn
}

type limits struct {
	context int // most tokens of prompt and answer
	prompt  int // most tokens of the prompt
	chunk   int // most prompt tokens in one inference
}

// Load implements llm.Runner.
func (r *Runner) Load(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	if progress == nil {
		progress = func(llm.Phase) {}
	}
	if req.Embedding {
		return r.loadEmbedder(ctx, req, progress)
	}
	if err := checkFolder(req.Model, "openvino_model.xml", "openvino_model.bin"); err != nil {
		return llm.Loaded{}, err
	}
	started := time.Now()
	c, fresh, done, err := r.chats.get(ctx, req.Model.Name, func() (*chat, error) {
		return r.openChat(ctx, req, progress)
	})
	if err != nil {
		return llm.Loaded{}, loadError(err, req.Model.Name, r.options.Device)
	}
	defer done()
	loaded := c.loaded
	if fresh {
		loaded.LoadTime = time.Since(started)
	}
	return loaded, nil
}

func loadError(err error, model, device string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return engineError(err, "load %s on %s", model, device)
}

// openChat loads a language model in phases; ctx is looked at between them.
func (r *Runner) openChat(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (*chat, error) {
	core, err := r.native()
	if err != nil {
		return nil, err
	}
	progress(llm.Phase{Name: "reading"})
	c := &chat{name: req.Model.Name, lib: core.Library(), ends: map[int32]bool{}, inputs: map[string]bool{}}
	if c.tokenizer, c.release, err = r.tokenizer(ctx, req.Model); err != nil {
		return nil, err
	}
	if err := c.open(ctx, r, core, req, progress); err != nil {
		c.close()
		r.memory.drop(c.name)
		return nil, err
	}
	c.weights = fileSize(req.Model.Dir, "openvino_model.bin")
	c.loaded.Bytes = r.memory.charge(c.name, c.least())
	return c, nil
}

// least is what the model takes at the very least: its weights, and its pages.
func (c *chat) least() int64 {
	if c.pages == nil {
		return c.weights
	}
	return c.weights + c.pages.size()
}

func (c *chat) open(ctx context.Context, r *Runner, core *openvino.Core, req llm.LoadRequest, progress func(llm.Phase)) error {
	known, err := readFacts(req.Model.Dir)
	if err != nil {
		return err
	}
	for _, id := range slices.Concat(known.Ends, c.tokenizer.ends()) {
		c.ends[id] = true
	}
	plan, err := r.plan(req, known, c.tokenizer.cutAt)
	if err != nil {
		return err
	}
	c.limits = plan.limits
	paged, err := c.compile(ctx, r, core, req.Model, known, plan, r.class() == llm.CPU && !r.options.States, progress)
	if err != nil && paged && ctx.Err() == nil {
		r.options.Log.Warn("the model does not run with its attention paged, so it is loaded without: long prompts and second turns take longer",
			"model", req.Model.Name, "error", err)
		c.uncompile()
		_, err = c.compile(ctx, r, core, req.Model, known, plan, false, progress)
	}
	if err != nil {
		return err
	}
	c.grammars = r.newCompiler(c)
	return nil
}

// compile makes the model ready to run, with its attention paged if page says so and the model can be.
func (c *chat) compile(ctx context.Context, r *Runner, core *openvino.Core, ref llm.ModelRef, known facts, plan plan, page bool, progress func(llm.Phase)) (paged bool, err error) {
	attempt := r.attempt(ref, core.Library().Version())
	defer r.attempts.begin(attempt)()
	model, entry, paged, err := r.readChat(core, ref, known, page, attempt)
	if err != nil {
		return paged, err
	}
	defer model.Close()
	c.trimmable = entry.trimmable && !known.Sliding
	if err := ctx.Err(); err != nil {
		return paged, err
	}
	// The CPU plugin cannot read paged attention back from its cache: it would compile and write the whole model anew each time.
	if c.model, err = r.compile(core, model, ref, plan.properties, !paged, progress); err != nil {
		return paged, err
	}
	if err := c.ports(); err != nil {
		return paged, err
	}
	cached, _ := c.model.Property("LOADED_FROM_CACHE")
	c.loaded = llm.Loaded{ContextLimit: c.limits.context, PromptLimit: c.limits.prompt, Cached: cached == "YES"}
	c.slots.limit, c.slots.bytes = r.options.SlotMemory, entry.memory(c.model)
	if c.pages != nil {
		c.slots.bytes = c.pages.memory
	}
	if err := ctx.Err(); err != nil {
		return paged, err
	}
	progress(llm.Phase{Name: "warming up"})
	return paged, c.warmUp(ctx, r)
}

// uncompile undoes compile.
func (c *chat) uncompile() {
	if c.pages != nil {
		c.pages.close()
	}
	if c.single != nil {
		c.single.close()
	}
	if c.model != nil {
		c.model.Close()
	}
	c.pages, c.single, c.model, c.inputs = nil, nil, nil, map[string]bool{}
	c.pace, c.vocab = pace{}, 0 // of a model that is compiled in another way
}

func (c *chat) ports() error {
	ports, err := c.model.Inputs()
	if err != nil {
		return err
	}
	for _, p := range ports {
		c.inputs[p.Name] = true
	}
	if !c.inputs["input_ids"] {
		return llm.Errorf(llm.CodeUnsupported, "%s is not a language model this engine can run: it lacks input_ids", c.name)
	}
	if c.inputs["key_cache.0"] {
		c.pages, err = newPages(c, ports)
		return err
	}
	known := []string{"input_ids", "attention_mask", "position_ids", "beam_idx", ir.Positions}
	for name := range c.inputs {
		if !slices.Contains(known, name) {
			return llm.Errorf(llm.CodeUnsupported, "%s needs an input %q that this engine does not know", c.name, name)
		}
	}
	if !c.inputs["attention_mask"] {
		return llm.Errorf(llm.CodeUnsupported, "%s is not a language model this engine can run: it lacks attention_mask", c.name)
	}
	return nil
}

// warmUp runs one short prompt and two steps: the first inference is slow, and the pace of a step becomes known.
func (c *chat) warmUp(ctx context.Context, r *Runner) error {
	s, err := c.newSlot()
	if err != nil {
		return err
	}
	keep := r.class() == llm.NPU
	defer func() {
		if !keep || err != nil {
			s.close()
		}
	}()
	ids, err := c.tokenizer.encodeRaw("Hello, how are you today?")
	if err != nil {
		return err
	}
	if err = r.turn.take(ctx); err != nil {
		return err
	}
	defer r.turn.give()
	for range 3 {
		var logits []float32
		started := time.Now()
		past := s.cached()
		if logits, err = s.feed(c, ids); err != nil {
			return fmt.Errorf("first inference: %w", err)
		}
		c.pace.saw(len(ids), past, time.Since(started))
		c.vocab = len(logits)
		ids = ids[:1]
	}
	if keep {
		s.forget()
		c.single, c.alone = s, newTurn()
	}
	return nil
}

func (c *chat) close() {
	if c.grammars != nil {
		c.grammars.Close()
	}
	c.slots.close()
	c.uncompile()
	if c.release != nil {
		c.release()
	}
}

// entry is what the model's XML says about its KV cache.
type entry struct {
	values    int64 // numbers in one cache entry
	trimmable bool  // every state is a list of entries
}

// memory estimates the bytes of caches. OpenVINO takes memory ahead, so half as much again is counted.
func (e entry) memory(model *openvino.CompiledModel) func([]*slot) int64 {
	precision, _ := model.Property("KV_CACHE_PRECISION")
	size := map[string]int64{"u8": 1, "i8": 1, "f16": 2, "bf16": 2}[precision]
	if size == 0 {
		size = 4
	}
	perEntry := e.values * size * 3 / 2
	return func(slots []*slot) (bytes int64) {
		for _, s := range slots {
			bytes += int64(s.cached()) * perEntry
		}
		return bytes
	}
}

// readChat reads the model: for CPU and GPU with the head sliced and, if page says so and that is seen to be possible, with its attention
// paged; for the NPU, whose plugin does all that itself, as it is.
func (r *Runner) readChat(core *openvino.Core, ref llm.ModelRef, known facts, page bool, attempt *attempt) (m *openvino.Model, e entry, paged bool, err error) {
	path, weights := filepath.Join(ref.Dir, "openvino_model.xml"), filepath.Join(ref.Dir, "openvino_model.bin")
	g, err := ir.Read(path)
	if err != nil {
		return nil, entry{}, false, err
	}
	e = cacheEntry(g)
	if r.class() == llm.NPU {
		m, err = core.ReadModel(path, "")
		return m, e, false, err
	}
	if page {
		if err := canPage(core.Library(), g, known, weights, attempt); err != nil {
			r.options.Log.Info("the model's attention is not paged: long prompts and second turns take longer", "model", ref.Name, "reason", err)
			page = false
		}
	}
	if err := ir.SliceHead(g, page); err != nil {
		r.options.Log.Warn("the head is not sliced: prompts take about twice the time", "model", ref.Name, "reason", err)
	}
	if m, err = readChanged(core, g, weights); err != nil || !page {
		return m, e, page, err
	}
	if err := attempt.begin(); err != nil {
		r.options.Log.Warn("no note of the attempt to page a model can be left", "error", err) // a full disk costs no answer
	}
	if err := m.PageAttention(); err != nil {
		m.Close()
		return nil, e, page, err
	}
	return m, e, page, nil
}

// canPage tells why the attention must not be paged; nil: it can be. A window that is told of in the model's config only would
// not be seen in the graph.
func canPage(lib *openvino.Library, g *ir.Graph, known facts, weights string, attempt *attempt) error {
	if err := attempt.refused(); err != nil {
		return err
	}
	if err := lib.CanPageAttention(); err != nil {
		return err
	}
	if known.Sliding {
		return errors.New("its attention looks back over a window only")
	}
	f, w, err := openWeights(weights)
	if err != nil {
		return err
	}
	defer f.Close()
	return ir.CanPage(g, w)
}

// readChanged reads changed XML with the weights where they are. By way of a private file, for then OpenVINO maps the weights
// into memory as usual.
func readChanged(core *openvino.Core, g *ir.Graph, weights string) (*openvino.Model, error) {
	f, err := os.CreateTemp("", "signalbox-*.xml")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(g.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return core.ReadModel(f.Name(), weights)
}

func cacheEntry(g *ir.Graph) entry {
	e := entry{trimmable: true}
	for _, l := range g.Layers("ReadValue") {
		size, open := int64(1), 0
		for dim := range strings.SplitSeq(l.Data["variable_shape"], ",") {
			var n int64
			if _, err := fmt.Sscan(strings.TrimSpace(dim), &n); err != nil {
				open++ // "?"
			} else if n > 0 && n < 1<<20 {
				size *= n
			}
		}
		e.values += size
		e.trimmable = e.trimmable && open == 2
	}
	return e
}
