package ir

import (
	"bytes"
	"errors"
	"fmt"
	"html"
)

// tag is one tag of an XML text.
type tag struct {
	name       string
	attributes []byte // as written
	start, end int    // from "<" to after ">"
	closing    bool   // </name>
	empty      bool   // <name/>
}

// scanner finds the tags of an XML text as OpenVINO writes it, in place. It knows no DTD and no namespaces, and unlike
// encoding/xml it reads a model's megabytes in milliseconds.
type scanner struct {
	text []byte
	at   int
}

var errTruncated = errors.New("the text ends inside a tag")

// next returns the next tag; ok is false at the end.
func (s *scanner) next() (t tag, ok bool, err error) {
	for {
		i := bytes.IndexByte(s.text[s.at:], '<')
		if i < 0 {
			return tag{}, false, nil
		}
		start := s.at + i
		rest := s.text[start:]
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			err = s.skip(start, "-->")
		case bytes.HasPrefix(rest, []byte("<?")):
			err = s.skip(start, "?>")
		case bytes.HasPrefix(rest, []byte("<!")):
			err = fmt.Errorf("declaration at byte %d: a model has none", start)
		default:
			t, err = s.tag(start)
			return t, err == nil, err
		}
		if err != nil {
			return tag{}, false, err
		}
	}
}

func (s *scanner) skip(start int, end string) error {
	i := bytes.Index(s.text[start:], []byte(end))
	if i < 0 {
		return errTruncated
	}
	s.at = start + i + len(end)
	return nil
}

// tag reads the tag at start. A ">" within quotes does not end it.
func (s *scanner) tag(start int) (tag, error) {
	quote := byte(0)
	for i := start + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '<':
			return tag{}, fmt.Errorf("tag in a tag at byte %d", i)
		case c == '>':
			s.at = i + 1
			return split(s.text[start+1:i], start, i+1)
		}
	}
	return tag{}, errTruncated
}

func split(inner []byte, start, end int) (tag, error) {
	t := tag{start: start, end: end}
	if t.closing = bytes.HasPrefix(inner, []byte("/")); t.closing {
		inner = inner[1:]
	}
	if t.empty = bytes.HasSuffix(inner, []byte("/")); t.empty {
		inner = inner[:len(inner)-1]
	}
	n := bytes.IndexAny(inner, " \t\r\n")
	if n < 0 {
		n = len(inner)
	}
	if n == 0 || n > 256 {
		return tag{}, fmt.Errorf("tag without a usable name at byte %d", start)
	}
	t.name, t.attributes = string(inner[:n]), inner[n:]
	return t, nil
}

// each calls f for every attribute, with entities resolved.
func (t tag) each(f func(name, value string)) {
	rest := t.attributes
	for {
		eq := bytes.IndexByte(rest, '=')
		if eq < 0 {
			return
		}
		name := string(bytes.TrimSpace(rest[:eq]))
		rest = bytes.TrimLeft(rest[eq+1:], " \t\r\n")
		if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
			return
		}
		end := bytes.IndexByte(rest[1:], rest[0])
		if end < 0 {
			return
		}
		f(name, html.UnescapeString(string(rest[1:1+end])))
		rest = rest[end+2:]
	}
}

// get is the value of one attribute, "" when it is missing.
func (t tag) get(name string) string {
	found := ""
	t.each(func(n, value string) {
		if n == name {
			found = value
		}
	})
	return found
}
