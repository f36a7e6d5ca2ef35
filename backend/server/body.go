package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"signalbox/backend/llm"
)

const (
	maxBody   = 64 << 20
	bodyGrace = 30 * time.Second // for a body of any size
	bodyRate  = 16 << 10         // and bytes per second on top
	leftGrace = 10 * time.Second // for what no handler reads: the answer's first write waits for it, and has its own limit
)

// readBody reads a request's body within its limits of size and time.
func readBody(w *response, r *http.Request) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, withStatus(http.StatusUnsupportedMediaType,
			llm.Errorf(llm.CodeInvalid, "Content-Encoding %q is not supported: send the body uncompressed", short(enc)))
	}
	body, err := io.ReadAll(&timedBody{w: w, r: http.MaxBytesReader(w.ResponseWriter, r.Body, maxBody), since: time.Now()})
	if err == nil {
		// The server goes on reading to notice that the client has left: that wait has no limit. Of a body that did not come
		// whole it wants the rest, and its time is over.
		_ = w.ctl.SetReadDeadline(time.Time{})
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, withStatus(http.StatusRequestEntityTooLarge,
			llm.Errorf(llm.CodeInvalid, "the request body is larger than %d MiB", tooLarge.Limit>>20))
	}
	if err != nil {
		w.Header().Set("Connection", "close")
		return nil, llm.Errorf(llm.CodeInvalid, "read the request body: %w", err)
	}
	return body, nil
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

// short is text from outside, fit to be repeated in an answer.
func short(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*s...", most, s)
	}
	return s
}
