package pipe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
)

// These tests are inside the package: frames are nobody else's business.

func decodeAll(data []byte) (frames []incoming, err error) {
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		f, err := decode(r)
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

func frameOf(t testing.TB, f outgoing) []byte {
	frame, err := encode(f)
	require.NoError(t, err)
	return frame
}

func TestFramesComeBackAsTheyWere(t *testing.T) {
	tools := json.RawMessage(`{"z":1,"a":"<b>&"}`)
	data := append(frameOf(t, outgoing{Op: opPrepare, ID: 7, Body: llm.PrepareRequest{Tools: tools}}),
		frameOf(t, outgoing{Op: opDone, ID: 8, Error: llm.PromptTooLong(9, 5)})...)
	frames, err := decodeAll(data)
	assert.Equal(t, io.EOF, err, "the end between two frames is orderly")
	require.Len(t, frames, 2)
	var req llm.PrepareRequest
	require.NoError(t, json.Unmarshal(frames[0].Body, &req))
	assert.Equal(t, string(tools), string(req.Tools), "keys keep their order, and < stays <")
	assert.Equal(t, llm.PromptTooLong(9, 5), frames[1].Error)
}

func TestWhatIsNoFrameEndsTheConnectionWithOneSentence(t *testing.T) {
	good := frameOf(t, outgoing{Op: opPing})
	change := func(at int, value byte) []byte {
		bad := bytes.Clone(good)
		bad[at] = value
		return bad
	}
	oversize := bytes.Clone(good)
	binary.LittleEndian.PutUint32(oversize[4:], MaxFrame+1)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"noise":        {append(bytes.Clone(good), "[WARNING] hello"...), "bytes that are no frame: 5b 57 41 52"},
		"bad magic":    {change(3, 9), "bytes that are no frame"},
		"oversize":     {oversize, "a frame of 16777217 bytes, the limit is 16777216"},
		"bad checksum": {change(len(good)-3, 'x'), "wrong checksum"},
		"half header":  {good[:5], "inside a frame's header, after 5 bytes"},
		"half frame":   {good[:len(good)-1], "inside a frame, after"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeAll(c.data)
			assert.ErrorContains(t, err, c.want)
			assert.NotEqual(t, io.EOF, err)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestEncodeRefusesWhatIsTooLarge(t *testing.T) {
	_, err := encode(outgoing{Op: opEmbed, Body: strings.Repeat("x", MaxFrame)})
	assert.ErrorIs(t, err, errTooLarge)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(frameOf(f, outgoing{Op: opPing}))
	f.Add(frameOf(f, outgoing{Op: opDelta, ID: 1, Body: llm.Delta{Text: "🌍", Tokens: 1}}))
	f.Add(append(frameOf(f, outgoing{Op: opAck, ID: 1, N: 3}), "noise"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		frames, err := decodeAll(data)
		require.Error(t, err)
		for _, frame := range frames { // what is taken can be sent again
			_, err := encode(outgoing{Op: frame.Op, ID: frame.ID, N: frame.N, Error: frame.Error})
			require.NoError(t, err)
		}
	})
}

func TestVectorsSurviveExactly(t *testing.T) {
	want := []float32{0, 1, -1, 3.4028235e38, 1e-45}
	got, err := decodeVector(encodeVector(want))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	_, err = decodeVector("AAA=")
	assert.Error(t, err)
}

func TestUrgentFramesOvertakeAndRequestsCanBeTakenBack(t *testing.T) {
	out := &gate{open: make(chan struct{}), entered: make(chan struct{}, 8)}
	w := newWriter(out, 1e12, func(error) {})
	go w.run()
	w.send(1, []byte("1"), false)
	<-out.entered // the first write is under way
	w.send(2, []byte("2"), false)
	w.send(3, []byte("3"), false)
	w.send(2, []byte("!"), true)
	assert.True(t, w.drop(3))
	assert.False(t, w.drop(1), "it is on its way")
	close(out.open)
	<-out.entered
	<-out.entered
	w.stop()
	<-w.ended
	assert.Equal(t, "1!2", out.buf.String())
}

// gate is a stream whose reader does not read before it is opened.
type gate struct {
	open, entered chan struct{}
	buf           bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.open
	return g.buf.Write(p)
}
