package constrain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate/constrain"
	"signalbox/internal/generate/ir"
	"signalbox/internal/testenv"
)

// bytewise is a vocabulary of the 256 bytes: token 0 ends an answer, 1 is special, a byte b is token b+2.
func bytewise() constrain.Vocabulary {
	v := constrain.Vocabulary{Text: [][]byte{nil, nil}, Names: [][]byte{[]byte("<end>"), []byte("<call>")}, Ends: []int32{0}}
	for b := range 256 {
		v.Text = append(v.Text, []byte{byte(b)})
		v.Names = append(v.Names, []byte{byte(b)})
	}
	return v
}

const end = int32(0)

func token(b byte) int32 { return int32(b) + 2 }

func newCompiler(t testing.TB, options constrain.Options) *constrain.Compiler {
	t.Helper()
	c := constrain.New(testenv.Runtime(t), bytewise(), options)
	t.Cleanup(c.Close)
	return c
}

func compile(t testing.TB, c *constrain.Compiler, want *llm.Constraint, markers ...string) *constrain.Matcher {
	t.Helper()
	m, err := c.Compile(context.Background(), want, markers)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func schemaOf(text string) *llm.Constraint { return &llm.Constraint{Schema: json.RawMessage(text)} }

// write lets text come, a byte at a time, and tells how far it got.
func write(t testing.TB, m *constrain.Matcher, text string) (ok bool, at int) {
	t.Helper()
	for i := range len(text) {
		if m.Done() || !allows(t, m, token(text[i])) {
			return false, i
		}
		require.NoError(t, m.Accept(token(text[i])))
	}
	return true, len(text)
}

func allows(t testing.TB, m *constrain.Matcher, id int32) bool {
	t.Helper()
	mask, err := m.Mask()
	require.NoError(t, err)
	return mask == nil || mask[id/32]>>(id%32)&1 == 1
}

// accepts tells whether text is a whole answer.
func accepts(t testing.TB, m *constrain.Matcher, text string) bool {
	t.Helper()
	ok, _ := write(t, m, text)
	return ok && (m.Done() || allows(t, m, end))
}

// real is the vocabulary of the starter chat model.
var real = sync.OnceValues(func() (constrain.Vocabulary, error) {
	root, err := os.Getwd()
	for err == nil && !exists(filepath.Join(root, "go.mod")) {
		root = filepath.Dir(root)
	}
	file := filepath.Join(root, "build", "bin", "models", "smollm2-135m", "openvino_detokenizer")
	g, err := ir.Read(file + ".xml")
	if err != nil {
		return constrain.Vocabulary{}, err
	}
	bin, err := os.ReadFile(file + ".bin")
	if err != nil {
		return constrain.Vocabulary{}, err
	}
	words, err := ir.ReadVocabulary(g, ir.Weights{ReaderAt: strings.NewReader(string(bin)), Size: int64(len(bin))})
	if err != nil || !words.Plain {
		return constrain.Vocabulary{}, fmt.Errorf("the starter's vocabulary is not plain: %w", err)
	}
	v := constrain.Vocabulary{Names: words.Tokens, Text: append([][]byte(nil), words.Tokens...)}
	for _, id := range words.Special {
		v.Text[id] = nil
		if string(words.Tokens[id]) == "<|im_end|>" {
			v.Ends = append(v.Ends, id)
		}
	}
	return v, nil
})

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
