package server

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

const (
	maxBody   = 64 << 20
	bodyGrace = 30 * time.Second // for a body of any size
	bodyRate  = 16 << 10         // and bytes per second on top
	leftGrace = 10 * time.Second // for what no handler reads: the answer's first write waits for it, and has its own limit
)

// readBody reads a request's body within its limits of size and time, and unpacks it: Codex sends zstd.
func readBody(w *response, r *http.Request) ([]byte, error) {
	timed := &timedBody{w: w, r: http.MaxBytesReader(w.ResponseWriter, r.Body, maxBody), since: time.Now()}
	plain, err := unpack(timed, r.Header.Get("Content-Encoding"))
	if err != nil {
		w.Header().Set("Connection", "close") // what it said of its body may be wrong, too
		return nil, err
	}
	defer plain.Close()
	body, err := readAll(plain)
	if err == nil {
		// The server goes on reading to notice that the client has left: that wait has no limit. Of a body that did not come
		// whole it wants the rest, and its time is over.
		_ = w.ctl.SetReadDeadline(time.Time{})
		return body, nil
	}
	w.Header().Set("Connection", "close")
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || errors.Is(err, errTooLarge) {
		return nil, withStatus(http.StatusRequestEntityTooLarge, llm.Errorf(llm.CodeInvalid, "the request body is larger than %d MiB", maxBody>>20))
	}
	return nil, unread(err, "")
}

// unread says why a body did not come whole; as is how it was packed.
func unread(err error, as string) error {
	if as != "" {
		as = " as " + as
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return withStatus(http.StatusRequestTimeout, llm.Errorf(llm.CodeInvalid, "read the request body%s: it came too slowly", as))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return llm.Errorf(llm.CodeInvalid, "read the request body%s: it ended before it was complete", as)
	}
	return llm.Errorf(llm.CodeInvalid, "read the request body%s: %w", as, err)
}

var errTooLarge = errors.New("the body is too large")

// readAll reads up to maxBody bytes. It holds no more than that until all are there: a packed body of kilobytes may stand for
// gigabytes, and a buffer that grows is there twice whenever it does.
func readAll(r io.Reader) ([]byte, error) {
	const piece = 1 << 20
	var pieces [][]byte
	for {
		p, err := io.ReadAll(io.LimitReader(r, piece))
		pieces = append(pieces, p)
		switch {
		case err != nil:
			return nil, err
		case len(pieces)*piece > maxBody && len(p) > 0:
			return nil, errTooLarge
		case len(p) < piece && len(pieces) == 1:
			return p, nil
		case len(p) < piece:
			return slices.Concat(pieces...), nil
		}
	}
}

// maxWindow is how far back a zstd body may refer, and so what unpacking it holds in memory beside its result: what every
// decoder must take, by RFC 8878.
const maxWindow = 8 << 20

// unpack undoes a Content-Encoding. What comes out is not bounded in length here.
func unpack(body io.Reader, coding string) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return io.NopCloser(body), nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, unread(err, "gzip")
		}
		return z, nil
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, unread(err, "zstd")
		}
		return z.IOReadCloser(), nil
	}
	return nil, withStatus(http.StatusUnsupportedMediaType,
		llm.Errorf(llm.CodeInvalid, "Content-Encoding %q is not supported: send the body uncompressed, or as gzip or zstd", brief.Text(coding)))
}

// limitBody bounds the wait for a body that no handler may ever read: before an answer goes out, and after it, net/http reads
// what is left of the request, and a client that promised a body and sends none would hold its connection for good.
func limitBody(w *response, r *http.Request) {
	if r.ContentLength != 0 {
		// Not every ResponseWriter has deadlines; those in tests do not need any.
		_ = w.ctl.SetReadDeadline(time.Now().Add(leftGrace))
	}
}

// timedBody lets a body take time as long as bytes keep coming.
type timedBody struct {
	w     *response
	r     io.Reader
	since time.Time
	got   int
}

func (b *timedBody) Read(p []byte) (int, error) {
	// Not every ResponseWriter has deadlines; those in tests do not need any.
	_ = b.w.ctl.SetReadDeadline(b.since.Add(bodyGrace + time.Duration(b.got)*time.Second/bodyRate))
	n, err := b.r.Read(p)
	b.got += n
	return n, err
}
