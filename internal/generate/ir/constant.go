package ir

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxConstant bounds what Read reads: vocabularies are a few MB.
const maxConstant = 256 << 20

// Weights is the file of a model's constants.
type Weights struct {
	io.ReaderAt
	Size int64
}

// Bytes reads the constant l.
func (w Weights) Bytes(l *Layer) ([]byte, error) {
	if l == nil || l.Type != "Const" {
		return nil, fmt.Errorf("not a constant")
	}
	offset, err := strconv.ParseInt(l.Data["offset"], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("constant %s: offset: %w", l.Name, err)
	}
	size, err := strconv.ParseInt(l.Data["size"], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("constant %s: size: %w", l.Name, err)
	}
	if size < 0 || size > maxConstant || offset < 0 || offset > w.Size-size {
		return nil, fmt.Errorf("constant %s lies outside the weights file: %d bytes at %d of %d", l.Name, size, offset, w.Size)
	}
	data := make([]byte, size)
	if _, err := w.ReadAt(data, offset); err != nil && err != io.EOF {
		return nil, fmt.Errorf("constant %s: %w", l.Name, err)
	}
	return data, nil
}

// Ints reads the constant l of whole numbers (i32 or i64).
func (w Weights) Ints(l *Layer) ([]int64, error) {
	data, err := w.Bytes(l)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(l.Data["element_type"]) {
	case "i32":
		out := make([]int64, len(data)/4)
		for i := range out {
			out[i] = int64(int32(binary.LittleEndian.Uint32(data[4*i:])))
		}
		return out, nil
	case "i64":
		out := make([]int64, len(data)/8)
		for i := range out {
			out[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
		}
		return out, nil
	}
	return nil, fmt.Errorf("constant %s holds %s, not whole numbers", l.Name, l.Data["element_type"])
}
