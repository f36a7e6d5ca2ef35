// Package pipe carries an llm.Runner over two byte streams: Serve runs in the engine process and works for the Client in
// the parent, which is an llm.Runner itself. Nothing else knows what the bytes look like.
//
// A frame is a magic, a length, a checksum and JSON. Requests have our own numbers as ids. The answer to one is any number
// of pieces (phase, delta, vectors) and one done frame, which carries the result and, as *llm.Error, what went wrong.
//
// Rules that keep streams independent of each other:
//   - At most Config.Window deltas of one answer wait to be read. The Client acknowledges what its caller has consumed; without
//     credit emit blocks in the child, so a Runner must hold no turn of its device while it calls emit. A reader that takes
//     nothing for Config.Stall is cancelled.
//   - Cancels, acknowledgements and pings overtake everything that waits to be written.
//   - Whoever calls never waits for a write: one goroutine writes, and a write that takes longer than Config.Write ends the
//     connection.
//   - The Client pings; a child that is silent for Config.Silence is dead. Pings are answered by a goroutine of its own, so a
//     native call that takes minutes is no silence.
//   - Anything that is not a frame ends the connection with one sentence.
package pipe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"signalbox/backend/llm"
)

// MaxFrame is the most bytes of JSON in one frame.
const MaxFrame = 16 << 20

const headerSize = 12 // magic, length and checksum, four bytes each

var magic = [4]byte{'S', 'B', 'X', 1}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type op string

const (
	// parent to child: the first six are requests and are answered by pieces and one done
	opDevices  op = "devices"
	opLoad     op = "load"
	opUnload   op = "unload"
	opPrepare  op = "prepare"
	opGenerate op = "generate"
	opEmbed    op = "embed"
	opCancel   op = "cancel"
	opAck      op = "ack"
	opPing     op = "ping"
	// child to parent
	opHello   op = "hello"
	opPhase   op = "phase"
	opDelta   op = "delta"
	opVectors op = "vectors"
	opDone    op = "done"
	opPong    op = "pong"
)

type incoming struct {
	Op    op              `json:"op"`
	ID    uint64          `json:"id"`
	N     int             `json:"n"` // with ack: how many deltas were consumed
	Body  json.RawMessage `json:"body"`
	Error *llm.Error      `json:"error"`

	stopped time.Duration // client: with an unwanted call, from the wish to stop until this frame
}

type outgoing struct {
	Op    op         `json:"op"`
	ID    uint64     `json:"id,omitempty"`
	N     int        `json:"n,omitempty"`
	Body  any        `json:"body,omitempty"`
	Error *llm.Error `json:"error,omitempty"`
}

// Hello is the child's first frame.
type Hello struct {
	Build string `json:"build"` // Build of the child's program
	PID   int    `json:"pid"`
}

// Config holds the limits of a connection. A zero field stands for its default.
type Config struct {
	Window   int           // unacknowledged deltas of one answer: 256
	Stall    time.Duration // child: a reader that acknowledges nothing for so long is cancelled: 30 s
	Write    time.Duration // one frame must be taken within: 30 s
	Ping     time.Duration // client: 2 s
	Silence  time.Duration // client: a child that says nothing for so long is dead: 30 s
	Patience time.Duration // client: how long a call whose ctx is done waits for the child's last word: 5 s
	Build    string        // child: what Hello says; default Build()

	ended func(error) // child: called when the stream has ended, before anything is waited for
}

func (c Config) withDefaults() Config {
	orDefault(&c.Window, 256)
	orDefault(&c.Stall, 30*time.Second)
	orDefault(&c.Write, 30*time.Second)
	orDefault(&c.Ping, 2*time.Second)
	orDefault(&c.Silence, 30*time.Second)
	orDefault(&c.Patience, 5*time.Second)
	if c.Build == "" {
		c.Build = Build()
	}
	return c
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

var errTooLarge = errors.New("frame is too large")

// encode makes the bytes of a frame. It fails for values that JSON cannot hold and for more than MaxFrame.
func encode(f outgoing) ([]byte, error) {
	var buf bytes.Buffer
	buf.Write(make([]byte, headerSize))
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // tools and arguments stay as they were written
	if err := enc.Encode(f); err != nil {
		return nil, err
	}
	frame := buf.Bytes()
	payload := frame[headerSize:]
	if len(payload) > MaxFrame {
		return nil, fmt.Errorf("%w: %d bytes > %d", errTooLarge, len(payload), MaxFrame)
	}
	copy(frame, magic[:])
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(payload, castagnoli))
	return frame, nil
}

// decode reads one frame. The error is io.EOF only between two frames.
func decode(r *bufio.Reader) (incoming, error) {
	var f incoming
	var header [headerSize]byte
	if n, err := io.ReadFull(r, header[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return f, fmt.Errorf("the stream ended inside a frame's header, after %d bytes: %w", n, err)
		}
		return f, err
	}
	if !bytes.Equal(header[:4], magic[:]) {
		return f, fmt.Errorf("bytes that are no frame: % x", header[:4])
	}
	size := binary.LittleEndian.Uint32(header[4:])
	if size > MaxFrame {
		return f, fmt.Errorf("a frame of %d bytes, the limit is %d", size, MaxFrame)
	}
	var payload bytes.Buffer // grows with what really comes
	if _, err := io.CopyN(&payload, r, int64(size)); err != nil {
		return f, fmt.Errorf("the stream ended inside a frame, after %d of %d bytes: %w", payload.Len(), size, io.ErrUnexpectedEOF)
	}
	if sum := crc32.Checksum(payload.Bytes(), castagnoli); sum != binary.LittleEndian.Uint32(header[8:]) {
		return f, fmt.Errorf("a frame of %d bytes with a wrong checksum", size)
	}
	if err := json.Unmarshal(payload.Bytes(), &f); err != nil {
		return f, fmt.Errorf("a frame that cannot be read: %w", err)
	}
	return f, nil
}
