package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/server"
)

// piped is a listener for a single connection in memory, which has the bubble's clock.
type piped struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error   { close(p.done); return nil }
func (p *piped) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 11434} }

// TestABodyThatNeverComesHoldsNoConnection: whichever answer a request has, also one for which nobody reads its body.
func TestABodyThatNeverComesHoldsNoConnection(t *testing.T) {
	for _, tt := range []struct{ name, request, status string }{
		{"a route that reads", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\n", " 408 "},
		{"a route that reads, of another dialect", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n", " 408 "},
		{"no such route", "POST /nope HTTP/1.1\r\nHost: localhost\r\n", " 404 "},
		{"no such method", "DELETE /api/chat HTTP/1.1\r\nHost: localhost\r\n", " 405 "},
		{"a route without a body", "GET /api/version HTTP/1.1\r\nHost: localhost\r\n", " 200 "},
		{"a stranger", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n", " 403 "},
		{"a body that is not read", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: br\r\n", " 415 "},
		{"a packed body", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n", " 408 "},
		{"another packed body", "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: zstd\r\n", " 408 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server.New(server.Deps{Version: "0.32.9"})
				srv := server.HTTPServer(s.Public(), context.Background(), slog.New(slog.DiscardHandler))
				l := &piped{conns: make(chan net.Conn, 1), done: make(chan struct{})}
				served := make(chan error, 1)
				go func() { served <- srv.Serve(l) }()
				client, theirs := net.Pipe()
				l.conns <- theirs

				began := time.Now()
				_, err := io.WriteString(client, tt.request+"Content-Length: 100\r\n\r\n{")
				require.NoError(t, err)
				require.NoError(t, client.SetReadDeadline(began.Add(time.Hour)))
				answer, err := io.ReadAll(client)
				require.NoError(t, err, "the server closes the connection")
				assert.Contains(t, string(answer), tt.status)
				assert.Less(t, time.Since(began), time.Minute)

				require.NoError(t, srv.Close())
				require.ErrorIs(t, <-served, http.ErrServerClosed)
			})
		})
	}
}
