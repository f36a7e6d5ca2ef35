package schema

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// Normal writes raw, a JSON Schema, in the form that the grammar library enforces. The error is an *llm.Error with
// CodeInvalid: it names the keyword that cannot be enforced, and where it stands.
func Normal(raw []byte) (string, error) { return normal(raw, &budget{most: MaxSchemas}) }

// normal is Normal within what is left of a budget.
func normal(raw []byte, left *budget) (string, error) {
	root, err := parse(raw)
	if err != nil {
		return "", err
	}
	w := &writer{budget: left, root: root, names: map[*node]string{}, empty: map[*node]error{}, into: &definition{}}
	whole := w.into
	text, err := w.schema(root, 0)
	if errors.Is(err, errNothing) {
		return "", llm.Errorf(llm.CodeInvalid, "no value can satisfy the JSON schema: %w", err)
	}
	if err != nil {
		return "", err
	}
	if w.height(whole, nil) > MaxDepth {
		return "", llm.Errorf(llm.CodeInvalid, "the JSON schema is nested more than %d deep through its references", MaxDepth)
	}
	return w.document(text)
}

// errNothing is the error for a schema that accepts no value. Where there is a choice, that choice is left out.
var errNothing = errors.New("accepts nothing")

func nothing(at, why string) error { return fmt.Errorf("%s at %s: %w", why, at, errNothing) }

// cannot is the error for a keyword that the grammar cannot enforce.
func cannot(keyword, at, why string) *llm.Error {
	return llm.Errorf(llm.CodeInvalid, "the JSON schema has %q at %s, which cannot be enforced here: %s", keyword, at, why).
		WithHint("leave the keyword out, or say it in another way")
}

// wrong is the error for a keyword with a value that JSON Schema does not know.
func wrong(keyword, at, want string) *llm.Error {
	return llm.Errorf(llm.CodeInvalid, "the JSON schema is not valid: %q at %s must be %s", keyword, at, want)
}

// writer writes one schema.
type writer struct {
	root  *node
	names map[*node]string // of the schemas that references name
	empty map[*node]error  // those of them that no value satisfies
	defs  []*definition    // in the order they were finished
	into  *definition      // what is being written: a definition or the root
	open  []*node          // schemas that are being written without a value in between
	*budget
}

// budget is what the library has been asked to do so far, in several schemas where one grammar is made of them: it cannot be
// interrupted, so what would take it long is refused before. The weights were measured.
type budget struct {
	most     int // schemas
	schemas  int // written so far, with what formats and ranges cost on top
	branches int // written so far
	written  int // bytes
	letters  int // bytes of names and values
	patterns []string
	repeats  int // their work
	counted  int // work of counting properties
	negated  int // schemas whose opposite was looked for
}

// charge counts n more schemas, or what costs as much.
func (b *budget) charge(n int, keyword, at string) error {
	if b.schemas += n; b.schemas > b.most {
		return cannot(keyword, at, fmt.Sprintf("the schema is too large: with this, more than %d schemas when its parts are put together", b.most))
	}
	return nil
}

// spell counts the letters of a name or a value.
func (b *budget) spell(text, keyword, at string) error {
	if b.letters += len(text); b.letters > maxLetters {
		return cannot(keyword, at, fmt.Sprintf("names and values come to more than %d bytes", maxLetters))
	}
	return nil
}

// definition is a schema that references name.
type definition struct {
	name, text string
	start      int // the depth where it was met first
	depth      int // of what is written in it
	uses       []use
}

// use is a reference in a definition.
type use struct {
	name  string
	depth int
}

// height is how deep values can be nested without going round in a circle.
func (w *writer) height(d *definition, path []string) int {
	deepest := d.depth
	for _, u := range d.uses {
		if i := slices.IndexFunc(w.defs, func(d *definition) bool { return d.name == u.name }); i >= 0 && !slices.Contains(path, u.name) {
			deepest = max(deepest, u.depth+w.height(w.defs[i], append(path, u.name)))
		}
	}
	return deepest
}

// document puts the definitions beside the root schema.
func (w *writer) document(root string) (string, error) {
	if len(w.defs) == 0 {
		return root, nil
	}
	var b strings.Builder
	b.WriteString(`{"$defs":{`)
	for i, d := range w.defs {
		if i > 0 {
			b.WriteByte(',')
		}
		if d.text == "" { // nothing satisfies it: what refers to it was left out
			d.text = anything
		}
		b.WriteString(quote(d.name) + ":" + d.text)
	}
	b.WriteString("}," + root[1:]) // every schema that is written has a keyword
	return b.String(), nil
}

// anything accepts every value. A keyword is in it so that document can put others before.
const anything = `{"title":"any"}`

// schema writes the schema n.
func (w *writer) schema(n *node, depth int) (string, error) {
	if w.schemas++; w.schemas > w.most || w.written > maxOutput {
		return "", llm.Errorf(llm.CodeInvalid, "the JSON schema is too large: more than %d schemas when its parts are put together", w.most)
	}
	if depth > MaxDepth {
		return "", llm.Errorf(llm.CodeInvalid, "the JSON schema is nested more than %d deep at %s", MaxDepth, n.at)
	}
	w.into.depth = max(w.into.depth, depth-w.into.start)
	if accepts, ok := n.bool(); ok {
		if !accepts {
			return "", nothing(n.at, "false")
		}
		return anything, nil
	}
	if !n.object() {
		return "", wrong("schema", n.at, "an object or a boolean")
	}
	if target, err := w.alone(n); err != nil || target != nil {
		if err != nil {
			return "", err
		}
		return w.reference(target, depth)
	}
	f, err := w.flatten(n)
	if err != nil {
		return "", err
	}
	open := w.open
	w.open = append(slices.Clone(open), f.parts...)
	defer func() { w.open = open }()
	text, err := w.flat(f, depth)
	w.written += len(text)
	return text, err
}

// reference writes a reference to target, and target itself when it is met for the first time.
func (w *writer) reference(target *node, depth int) (string, error) {
	if slices.Contains(w.open, target) {
		return "", circular(target)
	}
	name := w.names[target]
	if name == "" {
		name = fmt.Sprintf("d%d", len(w.names))
		w.names[target] = name
		outer := w.into
		w.into = &definition{name: name, start: depth}
		text, err := w.schema(target, depth)
		w.into.text = text
		w.defs = append(w.defs, w.into)
		w.into = outer
		if errors.Is(err, errNothing) {
			w.empty[target] = err
		} else if err != nil {
			return "", err
		}
	}
	if err := w.empty[target]; err != nil {
		return "", err
	}
	w.into.uses = append(w.into.uses, use{name, depth - w.into.start})
	return `{"$ref":"#/$defs/` + name + `"}`, nil
}

// flat writes a schema without references and allOf.
func (w *writer) flat(f *flat, depth int) (string, error) {
	if err := f.refuse(); err != nil {
		return "", err
	}
	if keyword := f.depends(); keyword != "" {
		return w.dependent(f, keyword, depth)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if n := f.get(keyword); n != nil {
			return w.choice(f, keyword, n, depth)
		}
	}
	if len(f.pending) > 0 {
		for _, keyword := range []string{"unevaluatedProperties", "unevaluatedItems"} {
			if n := f.get(keyword); n != nil { // what an opposite speaks of does not count as evaluated
				return "", cannot(keyword, n.at, "it stands beside not, if, or alternatives of oneOf that have values in common")
			}
		}
		rest := f.clone()
		rest.pending = rest.pending[1:]
		return w.choice(rest, "", f.pending[0], depth)
	}
	if err := f.leaveOut(); err != nil {
		return "", err
	}
	if f.values != nil {
		return w.values(f)
	}
	types, err := f.types()
	if err != nil {
		return "", err
	}
	if types == nil {
		return anything, nil
	}
	var options []string
	var last error = nothing(f.at, "no type is left")
	for _, t := range types {
		text, err := w.typed(f, t, depth)
		if errors.Is(err, errNothing) {
			last = err
			continue
		}
		if err != nil {
			return "", err
		}
		options = append(options, text)
	}
	return anyOf(options, last)
}

// anyOf writes a choice among options; with none left the error is last.
func anyOf(options []string, last error) (string, error) {
	switch len(options) {
	case 0:
		return "", last
	case 1:
		return options[0], nil
	}
	return `{"anyOf":[` + strings.Join(options, ",") + `]}`, nil
}

func (w *writer) typed(f *flat, t string, depth int) (string, error) {
	switch t {
	case "integer", "number":
		if keyword := f.dear(); keyword != "" {
			if err := w.charge(costs[keyword], keyword, f.at); err != nil {
				return "", err
			}
		}
		return numeric(f, t)
	case "string":
		return w.str(f)
	case "array":
		return w.array(f, depth)
	case "object":
		return w.obj(f, depth)
	}
	return `{"type":"` + t + `"}`, nil
}

// branch counts n more alternatives.
func (w *writer) branch(n int, at string) error {
	if w.branches += n; w.branches > MaxBranches {
		return llm.Errorf(llm.CodeInvalid, "the JSON schema has more than %d alternatives (anyOf, oneOf, enum), at the latest at %s", MaxBranches, at)
	}
	return nil
}

// values writes the values of const and enum that are of the schema's types.
func (w *writer) values(f *flat) (string, error) {
	types, err := f.types()
	if err != nil {
		return "", err
	}
	var list []string
	for _, v := range f.values {
		kind := v.kind()
		if types != nil && f.get("type") != nil && !slices.Contains(types, kind) && !(kind == "integer" && slices.Contains(types, "number")) {
			continue
		}
		if fits, err := f.fits(v, kind); err != nil {
			return "", err
		} else if !fits {
			continue
		}
		text, err := literal(v)
		if err != nil {
			return "", err
		}
		if err := w.spell(text, "enum", v.at); err != nil {
			return "", err
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return "", nothing(f.at, "the list of values has none that fits")
	}
	if err := w.branch(len(list), f.at); err != nil {
		return "", err
	}
	return `{"enum":[` + strings.Join(list, ",") + `]}`, nil
}

// fits tells whether a listed value keeps to the limits beside the list.
func (f *flat) fits(v *node, kind string) (bool, error) {
	switch keyword := f.about(kind); {
	case keyword == "":
		return true, nil
	case kind == "string":
		return f.fitsText(v)
	case (kind == "integer" || kind == "number") && f.get("multipleOf") == nil:
		return f.fitsNumber(v)
	default:
		return false, cannot(keyword, f.get(keyword).at, "it stands beside a list of values")
	}
}

func (f *flat) fitsText(v *node) (bool, error) {
	text, _ := v.text()
	least, most, err := f.counts("minLength", "maxLength")
	if err != nil {
		return false, err
	}
	if n := utf8.RuneCountInString(text); n < least || most >= 0 && n > most {
		return false, nil
	}
	n := f.get("pattern")
	if n == nil {
		return true, nil
	}
	expression, ok := n.text()
	if !ok {
		return false, wrong("pattern", f.at, "a text")
	}
	matches, err := regexp.Compile(goPattern(expression))
	if err != nil {
		return false, cannot("pattern", n.at, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return matches.MatchString(text), nil
}

func (f *flat) fitsNumber(v *node) (bool, error) {
	from, fromOpen, to, toOpen, err := f.ends()
	if err != nil {
		return false, err
	}
	at, ok := v.number()
	below := from != nil && ok && (at.Cmp(from) < 0 || fromOpen && at.Cmp(from) == 0)
	above := to != nil && ok && (at.Cmp(to) > 0 || toOpen && at.Cmp(to) == 0)
	return ok && !below && !above, nil
}

// literal writes a value that the answer must be. Numbers that the library cannot hold exactly are refused.
func literal(n *node) (string, error) {
	if err := exact(n); err != nil {
		return "", err
	}
	return n.String(), nil
}

func exact(n *node) error {
	for _, key := range n.keys {
		if err := exact(n.fields[key]); err != nil {
			return err
		}
	}
	for _, item := range n.items {
		if err := exact(item); err != nil {
			return err
		}
	}
	if k := n.kind(); k != "integer" && k != "number" {
		return nil
	}
	if _, err := bound(n); err != nil {
		return cannot("enum", n.at, "the number "+n.scalar[:min(len(n.scalar), 20)]+" is too large or too long")
	}
	return nil
}

// kind is the type of a value: integer for a number without a fraction.
func (n *node) kind() string {
	switch {
	case n.object():
		return "object"
	case n.array:
		return "array"
	case n.scalar == "null":
		return "null"
	case n.scalar == "true", n.scalar == "false":
		return "boolean"
	case strings.HasPrefix(n.scalar, `"`):
		return "string"
	}
	if r, ok := n.number(); ok && r.IsInt() {
		return "integer"
	}
	return "number"
}
