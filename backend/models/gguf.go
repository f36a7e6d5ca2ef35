package models

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"signalbox/backend/llm"
)

// GGUF is what the header of a GGUF file says about its model.
type GGUF struct {
	Architecture string // "qwen3"
	Name         string
	Parameters   int64 // 0: unknown
}

// IsGGUF looks at a file's first bytes.
func IsGGUF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "GGUF"
}

// ReadGGUF reads the header of a GGUF file. It takes nothing on trust: counts and lengths have bounds.
func ReadGGUF(r io.Reader) (GGUF, error) {
	d := &ggufReader{r: bufio.NewReader(io.LimitReader(r, 256<<20))}
	var g GGUF
	if magic := d.bytes(4); string(magic) != "GGUF" {
		return g, errors.New("it is no GGUF file")
	}
	if version := d.uint(4); version < 2 || version > 3 {
		return g, fmt.Errorf("its GGUF version %d is not known", version)
	}
	d.uint(8) // tensors
	pairs := d.uint(8)
	if pairs > 1<<16 {
		return g, fmt.Errorf("it has %d keys", pairs)
	}
	for range pairs {
		if d.err != nil {
			break
		}
		key := d.text()
		value := d.value(d.uint(4), 0)
		switch text, _ := value.(string); key {
		case "general.architecture":
			g.Architecture = text
		case "general.name":
			g.Name = text
		case "general.size_label":
			g.Parameters = countOf(text)
		}
	}
	if g.Architecture == "" && d.err != nil {
		return g, d.err
	}
	return g, nil
}

type ggufReader struct {
	r   *bufio.Reader
	err error
}

func (d *ggufReader) bytes(n uint64) []byte {
	if d.err != nil {
		return nil
	}
	if n > 1<<20 {
		d.err = errors.New("a text in it is too long")
		return nil
	}
	b := make([]byte, n)
	if _, d.err = io.ReadFull(d.r, b); d.err != nil {
		return nil
	}
	return b
}

func (d *ggufReader) uint(size uint64) uint64 {
	b := d.bytes(size)
	if d.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(append(b, make([]byte, 8-size)...))
}

func (d *ggufReader) text() string { return string(d.bytes(d.uint(8))) }

// value reads or skips a value; only texts come back.
func (d *ggufReader) value(kind uint64, depth int) any {
	switch kind {
	case 0, 1, 7:
		d.uint(1)
	case 2, 3:
		d.uint(2)
	case 4, 5, 6:
		d.uint(4)
	case 10, 11, 12:
		d.uint(8)
	case 8:
		return d.text()
	case 9:
		of, n := d.uint(4), d.uint(8)
		if n > 1<<22 || depth > 2 {
			d.err = errors.New("a list in it is too long")
		}
		for range n {
			if d.err != nil {
				break
			}
			d.value(of, depth+1)
		}
	default:
		d.err = fmt.Errorf("a value in it has the unknown type %d", kind)
	}
	return nil
}

// RefuseGGUF says what a GGUF file is and which model to pull instead.
func (t Table) RefuseGGUF(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := ReadGGUF(f)
	if err != nil {
		return llm.Errorf(llm.CodeUnsupported, "this is a damaged GGUF file (%w), and Signalbox runs OpenVINO models", err)
	}
	e := llm.Errorf(llm.CodeUnsupported, "this is a GGUF file of the architecture %.40q, and Signalbox runs OpenVINO models", g.Architecture)
	if k, ok := t.InPlaceOf(g.Architecture, g.Parameters); ok {
		return e.WithHint("`signalbox pull %s` fetches %s", k.Name, k.Repo)
	}
	return e.WithHint("`signalbox search` finds models whose names end in -ov")
}
