package ir_test

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/generate/ir"
	"signalbox/internal/testenv"
)

func weights(t testing.TB, name string) ir.Weights {
	f, err := os.Open(filepath.Join(testenv.ChatModel(t), name))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	require.NoError(t, err)
	return ir.Weights{ReaderAt: f, Size: info.Size()}
}

func read(t testing.TB, name string) *ir.Graph {
	g, err := ir.Read(filepath.Join(testenv.ChatModel(t), name))
	require.NoError(t, err)
	return g
}

func TestUnchangedGraphIsTheSameText(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.ChatModel(t), "openvino_model.xml"))
	require.NoError(t, err)
	g, err := ir.Parse(text)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(g.Bytes()))
}

func TestHeadIsSlicedBeforeItsMatMul(t *testing.T) {
	g := read(t, "openvino_model.xml")
	require.NoError(t, ir.SliceHead(g, false))
	again, err := ir.Parse(g.Bytes())
	require.NoError(t, err)
	gathers := again.Layers("GatherND")
	require.Len(t, gathers, 1)
	readers := again.Readers(gathers[0], 0)
	require.Len(t, readers, 1)
	assert.Equal(t, "MatMul", readers[0].Type)
	positions, _ := again.Source(gathers[0], 1)
	assert.Equal(t, ir.Positions, positions.Name)
}

func TestTokenizerIsUncut(t *testing.T) {
	g := read(t, "openvino_tokenizer.xml")
	limit, err := ir.Uncut(g, weights(t, "openvino_tokenizer.bin"))
	require.NoError(t, err)
	assert.Equal(t, 8192, limit)
	again, err := ir.Parse(g.Bytes())
	require.NoError(t, err)
	for _, l := range again.Layers("Minimum") {
		assert.Empty(t, again.Readers(l, 0))
	}
}

func TestTruncateCutsNothing(t *testing.T) {
	dir := testenv.EmbedModel(t)
	g, err := ir.Read(filepath.Join(dir, "openvino_tokenizer.xml"))
	require.NoError(t, err)
	_, err = ir.Uncut(g, ir.Weights{ReaderAt: strings.NewReader(""), Size: 0})
	require.NoError(t, err)
	again, err := ir.Parse(g.Bytes())
	require.NoError(t, err)
	for _, l := range again.Layers("Truncate") {
		length, _ := again.Source(l, len(l.Outputs))
		require.Equal(t, "Select", length.Type)
		_, on := again.Source(length, 1)
		_, off := again.Source(length, 2)
		assert.Equal(t, off, on)
	}
}

func TestVocabularyIsReadFromTheDetokenizer(t *testing.T) {
	v, err := ir.ReadVocabulary(read(t, "openvino_detokenizer.xml"), weights(t, "openvino_detokenizer.bin"))
	require.NoError(t, err)
	assert.Len(t, v.Tokens, 49152)
	assert.Len(t, v.Special, 17)
	assert.True(t, v.Plain)
	assert.Equal(t, "<|im_end|>", string(v.Tokens[2]))
}

func TestMalformedModelsAreErrors(t *testing.T) {
	const layer = `<layer id="0" name="a" type="Const"><data offset="0" size="4"/></layer>`
	for name, text := range map[string]string{
		"empty":           "",
		"onnx":            "\x08\x07\x12\x07pytorch",
		"no layers":       `<net></net>`,
		"open":            `<net><layers>`,
		"truncated tag":   `<net><layers><layer id="0"`,
		"open quote":      `<net name="><layers></layers></net>`,
		"crossed":         `<net><layers></net></layers>`,
		"doctype":         `<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a "b">]><net></net>`,
		"deep":            "<net>" + strings.Repeat("<a>", 2_000_000),
		"two of one id":   `<net><layers>` + layer + layer + `</layers><edges></edges></net>`,
		"no id":           `<net><layers><layer name="a"/></layers><edges></edges></net>`,
		"edge of letters": `<net><layers>` + layer + `</layers><edges><edge from-layer="x"/></edges></net>`,
		"port of letters": `<net><layers><layer id="0"><output><port id="x"/></output></layer></layers><edges></edges></net>`,
		"dim of letters":  `<net><layers><layer id="0"><output><port id="0"><dim>x</dim></port></output></layer></layers><edges></edges></net>`,
	} {
		_, err := ir.Parse([]byte(text))
		assert.Error(t, err, name)
	}
}

func TestConstantsOutsideTheFileAreErrors(t *testing.T) {
	w := ir.Weights{ReaderAt: strings.NewReader("12345678"), Size: 8}
	for _, data := range []string{
		`offset="0" size="9"`, `offset="8" size="1"`, `offset="-1" size="4"`, `offset="9223372036854775807" size="8"`,
		`offset="0" size="-4"`, `offset="4" size="9223372036854775807"`, `offset="x" size="4"`, ``,
	} {
		g, err := ir.Parse([]byte(`<net><layers><layer id="0" type="Const"><data element_type="i32" ` + data + `/></layer></layers><edges></edges></net>`))
		require.NoError(t, err)
		_, err = w.Ints(g.Layers("Const")[0])
		assert.Error(t, err, data)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"openvino_tokenizer.xml", "openvino_detokenizer.xml"} {
		text, err := os.ReadFile(filepath.Join(testenv.ChatModel(f), name))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`<net><layers><layer id="0" name="logits" type="Result"><input><port id="0"/></input></layer></layers><edges><edge from-layer="0" from-port="0" to-layer="0" to-port="0"/></edges></net>`))
	w := ir.Weights{ReaderAt: strings.NewReader("12345678"), Size: 8}
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ir.Parse(text)
		if err != nil {
			return
		}
		_ = ir.SliceHead(g, true)
		_, _ = ir.Uncut(g, w)
		_, _ = ir.ReadVocabulary(g, w)
		_ = ir.CutText(g)
		g.Bytes()
	})
}

func BenchmarkParse(b *testing.B) {
	text, err := os.ReadFile(filepath.Join(testenv.ChatModel(b), "openvino_model.xml"))
	require.NoError(b, err)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, err := ir.Parse(text)
		require.NoError(b, err)
	}
}

func TestPlainAttentionCanBePaged(t *testing.T) {
	require.NoError(t, ir.CanPage(read(t, "openvino_model.xml"), weights(t, "openvino_model.bin")))
}

// windows is a weights file in which each scalar is the same number.
type windows struct{ io.ReaderAt }

func (w windows) ReadAt(p []byte, at int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(p, at)
	if len(p) == 8 {
		binary.LittleEndian.PutUint64(p, 4096)
	}
	return n, err
}

func TestAttentionWithAWindowIsNotPaged(t *testing.T) {
	w := weights(t, "openvino_model.bin")
	w.ReaderAt = windows{w.ReaderAt}
	assert.ErrorContains(t, ir.CanPage(read(t, "openvino_model.xml"), w), "is 4096: a window?")
}

func TestOtherAttentionIsNotPaged(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.ChatModel(t), "openvino_model.xml"))
	require.NoError(t, err)
	for name, change := range map[string][2]string{
		"a mask for each head":    {"<dim>1</dim>\n\t\t\t\t\t<dim>-1</dim>\n\t\t\t\t\t<dim>-1</dim>\n\t\t\t\t</port>\n\t\t\t</input>", "<dim>9</dim>\n\t\t\t\t\t<dim>-1</dim>\n\t\t\t\t\t<dim>-1</dim>\n\t\t\t\t</port>\n\t\t\t</input>"},
		"causal by itself":        {`<data causal="false"`, `<data causal="true"`},
		"an unknown operation":    {`type="Greater"`, `type="Mod"`},
		"made of another input":   {`names="attention_mask"`, `names="token_type_ids"`},
		"no attention of a known": {`type="ScaledDotProductAttention"`, `type="Attention"`},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.ReplaceAll(string(text), change[0], change[1])
			require.NotEqual(t, string(text), changed)
			g, err := ir.Parse([]byte(changed))
			require.NoError(t, err)
			require.Error(t, ir.CanPage(g, weights(t, "openvino_model.bin")))
		})
	}
}
