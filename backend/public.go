package backend

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/server"
)

// goodbyeLimit is how long streams of a server that stops may take to send their last line. The port is closed before. A request
// in the middle of a long native call gets half of it to come back.
const goodbyeLimit = 4 * time.Second

// publicServer is the API server that the user starts and stops.
type publicServer struct {
	backend *Backend

	turn sync.Mutex // start and stop one after the other

	mu   sync.Mutex
	srv  *http.Server            // nil while it is stopped; guarded by mu
	end  context.CancelCauseFunc // ends its requests; guarded by mu
	url  string                  // guarded by mu
	fail error                   // why the last start failed; guarded by mu
}

func (p *publicServer) status() server.ServerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.srv != nil:
		return server.ServerStatus{State: "running", URL: p.url}
	case p.fail != nil:
		return server.ServerStatus{State: "failed", Error: p.fail.Error()}
	}
	return server.ServerStatus{State: "stopped"}
}

// StartServer opens the public port. Starting what runs is no error. To say that it does not listen is the caller's: one ends
// with it, another goes on.
func (b *Backend) StartServer(ctx context.Context) error {
	p := &b.public
	p.turn.Lock()
	defer p.turn.Unlock()
	defer b.serverChanged()
	if p.status().State == "running" {
		return nil
	}
	address := b.Settings().Listen(b.options.Getenv)
	b.notice("address", address.Note)
	listeners, err := listen(address.Port)
	if err != nil {
		p.mu.Lock()
		p.fail = err
		p.mu.Unlock()
		return err
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	srv := server.HTTPServer(b.server.Public(), base, b.log)
	p.mu.Lock()
	p.srv, p.end, p.fail = srv, end, nil
	p.url = fmt.Sprintf("http://127.0.0.1:%d", listeners[0].Addr().(*net.TCPAddr).Port)
	b.log.Info("the server listens", "url", p.url)
	p.mu.Unlock()
	for _, l := range listeners {
		b.work.Go(func() { _ = srv.Serve(l) }) // ends with ErrServerClosed
	}
	return nil
}

// StopServer closes the public port, ends its streams with an error line, and frees what the window is not using. The
// window still chats. Stopping what is stopped is no error.
func (b *Backend) StopServer(ctx context.Context) error {
	p := &b.public
	p.turn.Lock()
	defer p.turn.Unlock()
	defer b.serverChanged()
	p.mu.Lock()
	srv, end := p.srv, p.end
	p.srv, p.end, p.fail = nil, nil, nil
	p.mu.Unlock()
	if srv == nil {
		return nil
	}
	end(llm.Errorf(llm.CodeStopped, "the Signalbox server was stopped"))
	ctx, cancel := context.WithTimeout(ctx, goodbyeLimit)
	defer cancel()
	err := shutdown(ctx, srv)
	used := map[string]bool{} // by the window: those of the public port have ended
	for _, entry := range b.journal.Active() {
		used[entry.ModelUsed] = true
	}
	b.engine.trim(used)
	b.log.Info("the server is stopped")
	return err
}

func (b *Backend) serverChanged() {
	b.changed.wake()
	if b.options.ServerChanged != nil {
		b.options.ServerChanged()
	}
}

func (b *Backend) runServer(ctx context.Context, running bool) error {
	if running {
		// The server outlives the request that starts it.
		err := b.StartServer(context.WithoutCancel(ctx))
		if err != nil {
			b.log.Error("the server does not listen", "error", err)
		}
		return err
	}
	return b.StopServer(context.WithoutCancel(ctx))
}
