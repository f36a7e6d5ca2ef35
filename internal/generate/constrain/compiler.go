package constrain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/xgrammar"
)

// Vocabulary is what the tokens of a model stand for.
type Vocabulary struct {
	Text  [][]byte // by id, as shown; empty for special tokens
	Names [][]byte // by id, special tokens included
	Size  int      // how many logits the model has
	Ends  []int32  // tokens that end an answer
}

// Options bound the work. A zero field stands for its default.
type Options struct {
	Limit      time.Duration // how long compiling may take: 5 s
	CacheBytes int64         // compiled grammars that are kept: 64 MiB for each form of the vocabulary
	// Whitespace is how many blanks and line ends may stand between two elements of JSON: 2. Small models write as many as they
	// may. (With 1 the library compiles differently: a minute for 1,000 properties.)
	Whitespace int
	// Stuck is called when compiling went beyond Limit: a thread of this process is lost to it. It should be replaced soon.
	Stuck func(error)
}

func (o Options) withDefaults() Options {
	if o.Limit == 0 {
		o.Limit = 5 * time.Second
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Whitespace == 0 {
		o.Whitespace = 2
	}
	return o
}

// Compiler makes matchers for one model. It is safe for use by several goroutines.
type Compiler struct {
	runtime    string
	vocabulary Vocabulary
	options    Options

	working chan struct{} // holds one token while the library compiles, also when nobody waits for it any more

	mu     sync.Mutex
	native map[string]*native // by form of the vocabulary; guarded by mu
	closed bool               // guarded by mu
}

// native is the library's view of one form of the vocabulary.
type native struct {
	ends      []int32
	tokenizer *xgrammar.Tokenizer
	compiler  *xgrammar.Compiler
}

// New makes a compiler. The library is loaded from the folder runtime when it is first needed.
func New(runtime string, v Vocabulary, o Options) *Compiler {
	return &Compiler{
		runtime: runtime, vocabulary: v, options: o.withDefaults(),
		working: make(chan struct{}, 1), native: map[string]*native{},
	}
}

// Compile begins an answer under a constraint. Markers are special tokens that count as text in it. What cannot be enforced
// is an error with llm.CodeInvalid that names it.
func (c *Compiler) Compile(ctx context.Context, want *llm.Constraint, markers []string) (*Matcher, error) {
	job, err := c.plan(want, markers)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(c.options.Limit)
	select {
	case c.working <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-limit.C:
		return nil, llm.Errorf(llm.CodeOverloaded, "another request's JSON schema or grammar is still being compiled").WithHint("try again in a minute")
	}
	done := make(chan made, 1)
	go func() {
		defer func() { <-c.working }()
		done <- c.compile(job)
	}()
	late := llm.Errorf(llm.CodeInvalid, "%s takes more than %v to compile", job.name, c.options.Limit).WithHint("ask for something simpler")
	select {
	case m := <-done:
		if m.err != nil {
			return nil, m.err
		}
		defer m.grammar.Close()
		return c.begin(m, want)
	case <-ctx.Done():
		go c.abandon(done, limit, late)
		return nil, ctx.Err()
	case <-limit.C:
		limit.Reset(0)
		go c.abandon(done, limit, late)
		return nil, late
	}
}

type made struct {
	grammar *xgrammar.Grammar
	ends    []int32
	err     error
}

// abandon waits for a compile that its caller does not wait for any more, and reports it when it takes too long.
func (c *Compiler) abandon(done <-chan made, limit *time.Timer, late error) {
	var m made
	select {
	case m = <-done:
	case <-limit.C:
		if c.options.Stuck != nil {
			c.options.Stuck(late)
		}
		m = <-done
	}
	if m.grammar != nil {
		m.grammar.Close()
	}
}

func nameOf(want *llm.Constraint) string {
	switch {
	case want.Regex != "":
		return "the regular expression"
	case want.EBNF != "":
		return "the grammar"
	case want.Structural != nil:
		return "the description of tool calls"
	}
	return "the JSON schema"
}

// compile runs on a goroutine of its own: it may take long.
func (c *Compiler) compile(j job) made {
	n, err := c.nativeFor(j.form, j.markers)
	if err != nil {
		return made{err: err}
	}
	g, err := j.compile(n.compiler)
	if e, ok := errors.AsType[*xgrammar.Error](err); ok {
		err = llm.Errorf(llm.CodeInvalid, "%s cannot be used: %w", j.name, e)
	}
	return made{g, n.ends, err}
}

// nativeFor prepares a form of the vocabulary on first use.
func (c *Compiler) nativeFor(form string, markers []string) (*native, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, llm.Errorf(llm.CodeUnavailable, "the model was unloaded")
	}
	key := form + "\x00" + strings.Join(markers, "\x00")
	if n := c.native[key]; n != nil {
		return n, nil
	}
	n, err := c.load(form, markers)
	if err != nil {
		return nil, llm.Errorf(llm.CodeUnavailable, "constrained answers are not available: %w", err).WithHint("check the installation with: signalbox doctor")
	}
	c.native[key] = n
	return n, nil
}

func (c *Compiler) load(form string, markers []string) (*native, error) {
	lib, err := xgrammar.Load(c.runtime)
	if err != nil {
		return nil, err
	}
	tokens, ends := c.vocabulary.form(form, markers)
	t, err := lib.NewTokenizer(xgrammar.Vocabulary{Tokens: tokens, Size: c.vocabulary.Size, Stops: ends})
	if err != nil {
		return nil, err
	}
	compiler, err := t.NewCompiler(xgrammar.CompilerOptions{Threads: 1, CacheBytes: c.options.CacheBytes})
	if err != nil {
		t.Close()
		return nil, err
	}
	return &native{ends, t, compiler}, nil
}

// Forms of the vocabulary.
const (
	formJSON = "json"
	formText = "text"
)

// form gives the tokens' bytes and the tokens that end an answer. For JSON, tokens with control characters are left out:
// JSON has none, but the library lets them into strings of limited length. Markers are text, and end nothing.
func (v Vocabulary) form(form string, markers []string) (tokens [][]byte, ends []int32) {
	tokens = slices.Clone(v.Text)
	for id, text := range tokens {
		marker := id < len(v.Names) && slices.Contains(markers, string(v.Names[id]))
		switch {
		case marker:
			tokens[id] = v.Names[id]
		case slices.Contains(v.Ends, int32(id)):
			tokens[id] = nil
			ends = append(ends, int32(id))
		case form == formJSON && slices.ContainsFunc(text, control):
			tokens[id] = nil
		}
	}
	return tokens, ends
}

func control(b byte) bool { return b < ' ' && b != '\n' }

// begin makes the matcher of an answer.
func (c *Compiler) begin(m made, want *llm.Constraint) (*Matcher, error) {
	grammar, err := m.grammar.NewMatcher()
	if err != nil {
		return nil, fmt.Errorf("begin a constrained answer: %w", err)
	}
	words := (max(c.vocabulary.Size, len(c.vocabulary.Text)) + 31) / 32
	return newMatcher(grammar, &c.vocabulary, m.ends, words, want.After), nil
}

// Close releases the library's objects: at once, or when compiling that is under way has ended. Matchers go on.
func (c *Compiler) Close() {
	c.mu.Lock()
	c.closed = true
	list := c.native
	c.native = nil
	c.mu.Unlock()
	release := func() {
		for _, n := range list {
			n.compiler.Close()
			n.tokenizer.Close()
		}
		<-c.working
	}
	select {
	case c.working <- struct{}{}:
		release()
	default:
		go func() {
			c.working <- struct{}{}
			release()
		}()
	}
}
