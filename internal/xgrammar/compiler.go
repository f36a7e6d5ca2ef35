package xgrammar

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"signalbox/internal/native"
)

// Vocabulary tells the library which bytes each token stands for.
type Vocabulary struct {
	Tokens [][]byte // by id, as they show in text; empty for special tokens, which no text ever allows
	Size   int      // how many logits the model has; 0: len(Tokens). Ids beyond Tokens are never allowed
	Stops  []int32  // tokens that end an answer: allowed where the grammar allows the end
}

// Tokenizer is a vocabulary, prepared for compiling.
type Tokenizer struct {
	lib    *Library
	size   int
	handle native.Handle
}

// NewTokenizer prepares a vocabulary: tens of milliseconds for 50,000 tokens.
func (l *Library) NewTokenizer(v Vocabulary) (*Tokenizer, error) {
	size := max(v.Size, len(v.Tokens))
	if len(v.Stops) == 0 {
		return nil, errors.New("prepare the vocabulary: no token ends an answer")
	}
	for _, id := range v.Stops {
		if id < 0 || int(id) >= size {
			return nil, fmt.Errorf("prepare the vocabulary: end token %d is not among its %d", id, size)
		}
	}
	tokens, err := l.byteArrays(v.Tokens)
	if err != nil {
		return nil, err
	}
	defer l.free(tokens)
	stops, err := l.integers(v.Stops)
	if err != nil {
		return nil, err
	}
	defer l.free(stops)
	const raw = 0 // the tokens are bytes, not an encoding of them
	p, err := l.make("prepare the vocabulary", l.tokenizer[construct],
		object(tokens), integer(raw), integer(int64(size)), object(stops), boolean(false))
	if err != nil {
		return nil, err
	}
	out := &Tokenizer{lib: l, size: size}
	out.handle.Set(p)
	return out, nil
}

// byteArrays makes an array object of byte strings.
func (l *Library) byteArrays(list [][]byte) (uintptr, error) {
	var lent texts
	defer lent.release()
	var all []byte
	for _, b := range list {
		all = append(all, b...)
	}
	all = append(all, 0)
	arrays := make([]byteArray, len(list)+1)
	values := make([]value, len(list))
	lent.pin.Pin(&all[0])
	lent.pin.Pin(&arrays[0])
	at := 0
	for i, b := range list {
		arrays[i] = byteArray{&all[at], uintptr(len(b))}
		at += len(b)
		values[i] = value{kind: kindBytes, bits: uint64(uintptr(unsafe.Pointer(&arrays[i])))}
	}
	return l.make("prepare the vocabulary", l.newArray, values...)
}

func (l *Library) integers(list []int32) (uintptr, error) {
	values := make([]value, len(list))
	for i, n := range list {
		values[i] = integer(int64(n))
	}
	return l.make("prepare the vocabulary", l.newArray, values...)
}

// MaskWords is the length of a mask: a bit for each token.
func (t *Tokenizer) MaskWords() int { return (t.size + 31) / 32 }

// Close releases the vocabulary. Compilers made from it go on.
func (t *Tokenizer) Close() { t.handle.Close(t.lib.free) }

// CompilerOptions bound what compiling may take.
type CompilerOptions struct {
	Threads    int   // at most so many; 0: 1
	CacheBytes int64 // keep compiled grammars up to this size; 0: none
	Lazy       bool  // work sets of tokens out when they are first needed, not while compiling
}

// Compiler turns grammars into what a Matcher runs. Equal grammars are compiled once, as long as the cache keeps them.
type Compiler struct {
	lib    *Library
	size   int
	handle native.Handle
}

// NewCompiler makes a compiler for the vocabulary.
func (t *Tokenizer) NewCompiler(o CompilerOptions) (*Compiler, error) {
	info, err := t.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer t.handle.Release()
	p, err := t.lib.make("make a grammar compiler", t.lib.compiler[construct], object(info),
		integer(int64(max(o.Threads, 1))), boolean(o.CacheBytes > 0), integer(max(o.CacheBytes, 0)), boolean(o.Lazy))
	if err != nil {
		return nil, err
	}
	out := &Compiler{lib: t.lib, size: t.size}
	out.handle.Set(p)
	return out, nil
}

// JSONFormat says how JSON may be laid out.
type JSONFormat struct {
	Whitespace int  // at most so many blanks and line ends between two elements; 0: any number
	Compact    bool // none at all: {"a":1,"b":[1,2]}
}

// JSONSchema compiles a JSON Schema. Properties come in the schema's order; what a schema does not mention is not allowed.
// The library passes over keywords that it cannot enforce: the caller must not hand them in.
func (c *Compiler) JSONSchema(schema string, f JSONFormat) (*Grammar, error) {
	if strings.ContainsRune(schema, 0) {
		return nil, ErrNUL
	}
	var lent texts
	defer lent.release()
	limit, separators := none(), none()
	if f.Whitespace > 0 {
		limit = integer(int64(f.Whitespace))
	}
	if f.Compact {
		array, err := c.lib.make("compile a JSON schema", c.lib.newArray, lent.text(","), lent.text(":"))
		if err != nil {
			return nil, err
		}
		defer c.lib.free(array)
		separators = object(array)
	}
	const strict, anyOrder = true, false
	return c.compile("compile a JSON schema", "compile_json_schema",
		lent.text(schema), boolean(!f.Compact), none(), separators, boolean(strict), limit, boolean(anyOrder))
}

// AnyJSON compiles a grammar of every JSON value, with any white space.
func (c *Compiler) AnyJSON() (*Grammar, error) {
	return c.compile("compile the JSON grammar", "compile_builtin_json_grammar")
}

// Regex compiles a regular expression that the whole answer matches.
func (c *Compiler) Regex(expression string) (*Grammar, error) {
	return c.compileText("compile a regular expression", "compile_regex", expression)
}

// EBNF compiles a grammar in xgrammar's EBNF, which begins at its rule root.
func (c *Compiler) EBNF(grammar, root string) (*Grammar, error) {
	return c.compileText("compile a grammar", "compile_grammar_from_strings", grammar, root)
}

// StructuralTag compiles a description of free text with structured parts, such as tool calls:
// {"type":"structural_tag","format":{"type":"triggered_tags",...}}.
func (c *Compiler) StructuralTag(description string) (*Grammar, error) {
	return c.compileText("compile a structural tag", "compile_structural_tag", description)
}

func (c *Compiler) compileText(op, method string, args ...string) (*Grammar, error) {
	var lent texts
	defer lent.release()
	values := make([]value, len(args))
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return nil, ErrNUL
		}
		values[i] = lent.text(arg)
	}
	return c.compile(op, method, values...)
}

func (c *Compiler) compile(op, method string, args ...value) (*Grammar, error) {
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	made, err := c.lib.make(op, c.lib.compiler[method], append([]value{object(p)}, args...)...)
	if err != nil {
		return nil, err
	}
	out := &Grammar{lib: c.lib, size: c.size}
	out.handle.Set(made)
	return out, nil
}

// CacheBytes is the size of the grammars that are kept.
func (c *Compiler) CacheBytes() (int64, error) {
	p, err := c.handle.Acquire()
	if err != nil {
		return 0, err
	}
	defer c.handle.Release()
	v, err := c.lib.call("read the size of the grammar cache", c.lib.compiler["get_cache_size_bytes"], object(p))
	return int64(v.bits), err
}

// Close releases the compiler and its cache. It waits for a compile that runs. Grammars made by it go on.
func (c *Compiler) Close() { c.handle.Close(c.lib.free) }

// Grammar is a compiled grammar. It does not change: many matchers may run it.
type Grammar struct {
	lib    *Library
	size   int
	handle native.Handle
}

// Bytes is the memory that the grammar takes.
func (g *Grammar) Bytes() (int64, error) {
	p, err := g.handle.Acquire()
	if err != nil {
		return 0, err
	}
	defer g.handle.Release()
	v, err := g.lib.call("read the size of a grammar", g.lib.grammar["memory_size_bytes"], object(p))
	return int64(v.bits), err
}

// Close releases the grammar. Matchers made from it go on.
func (g *Grammar) Close() { g.handle.Close(g.lib.free) }
