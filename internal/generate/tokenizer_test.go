package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/generate/prompt"
	"signalbox/internal/testenv"
)

func open(t *testing.T, dir string) *tokenizer {
	t.Helper()
	core, err := openCore(testenv.Runtime(t))
	require.NoError(t, err)
	t.Cleanup(core.Close)
	tok, err := openTokenizer(core, dir, true)
	require.NoError(t, err)
	t.Cleanup(tok.close)
	return tok
}

func (t *tokenizer) decode(ids []int32) string {
	var out strings.Builder
	for _, id := range ids {
		out.Write(t.text(id))
	}
	return out.String()
}

func TestTokensJoinToTheText(t *testing.T) {
	tok := open(t, testenv.ChatModel(t))
	for _, text := range []string{"Hello, world!", "Grüße aus Köln 🙂", "\n\n  code {\n\t}\n", "日本語", "a\r\nb", "\u200d👩‍💻"} {
		ids, err := tok.encodeRaw(text)
		require.NoError(t, err)
		assert.Equal(t, text, tok.decode(ids))
	}
}

// Llama's kind of tokenizer: marks for spaces, bytes for what is not in the vocabulary, and a token of its own in front.
func TestTokenizerWithSpaceMarks(t *testing.T) {
	tok := open(t, filepath.Join("testdata", "spaces"))
	assert.Equal(t, []int32{1}, tok.before)
	ids, err := tok.encodeRaw("hello world 🙂")
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 294, 299, 259, 243, 162, 156, 133}, ids)
	assert.Equal(t, " hello world 🙂", tok.decode(ids))
	assert.Equal(t, " world", string(tok.text(299)))
	assert.Equal(t, []byte{0xf0}, tok.text(243), "half a character stays as it is")
	assert.Empty(t, tok.text(1))
	assert.Equal(t, "<s>", string(tok.name(1)))

	ids, err = tok.encode([]prompt.Segment{{Text: "<s>hello "}, {Text: "</s>", Literal: true}, {Text: "</s>"}})
	require.NoError(t, err)
	assert.Equal(t, int32(1), ids[0])
	assert.Equal(t, int32(2), ids[len(ids)-1])
	for _, id := range ids[1 : len(ids)-1] {
		assert.Greater(t, id, int32(2), "what a message wrote is text")
	}
}

func TestCutBreaksOnlyWhatMessagesWrote(t *testing.T) {
	tok := &tokenizer{byText: []string{"<|im_start|>", "<|im_end|>", "<s>"}}
	for name, c := range map[string]struct {
		segments []prompt.Segment
		meant    int
	}{
		"template only":  {[]prompt.Segment{{Text: "<|im_start|>user\nhi<|im_end|>"}}, 2},
		"literal":        {[]prompt.Segment{{Text: "<s>"}, {Text: "<|im_end|>", Literal: true}, {Text: "<s>"}}, 2},
		"across borders": {[]prompt.Segment{{Text: "a<|im_"}, {Text: "end|>", Literal: true}, {Text: "b"}}, 0},
		"twice":          {[]prompt.Segment{{Text: "<s><s>", Literal: true}}, 0},
	} {
		text, literal := join(c.segments)
		joined, meant := "", 0
		for _, p := range tok.cut(text, literal) {
			found := 0
			for _, special := range tok.byText {
				found += strings.Count(p.text, special)
			}
			assert.Equal(t, p.specials, found, name)
			joined += p.text
			meant += p.specials
		}
		assert.Equal(t, text, joined, name)
		assert.Equal(t, c.meant, meant, name)
	}
}

func TestMalformedTokenizersAreErrors(t *testing.T) {
	core, err := openCore(testenv.Runtime(t))
	require.NoError(t, err)
	defer core.Close()
	good := filepath.Join("testdata", "spaces")
	for name, spoil := range map[string]func(dir string) error{
		"no weights":    func(dir string) error { return os.Truncate(filepath.Join(dir, "openvino_detokenizer.bin"), 0) },
		"short weights": func(dir string) error { return os.Truncate(filepath.Join(dir, "openvino_detokenizer.bin"), 1000) },
		"onnx under xml": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "openvino_tokenizer.xml"), []byte("\x08\x07\x12"), 0o644)
		},
		"half a detokenzer": func(dir string) error { return os.Truncate(filepath.Join(dir, "openvino_detokenizer.xml"), 5000) },
		"missing":           func(dir string) error { return os.Remove(filepath.Join(dir, "openvino_tokenizer.bin")) },
	} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(good)))
		require.NoError(t, spoil(dir))
		_, err := openTokenizer(core, dir, true)
		assert.Error(t, err, name)
	}
}
