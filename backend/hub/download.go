package hub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
)

// Download fetches a file into path, or goes on where an earlier call ended, also one that was killed. It checks the hash
// while bytes come, syncs, and returns the file's SHA-256. progress gets the bytes that are there, never fewer than before;
// it is called from several goroutines, one at a time.
//
// While it is not complete, path+".state" says which bytes are there. A file whose content is wrong is deleted, and the
// error names it.
func (c *Client) Download(ctx context.Context, s Snapshot, f File, path string, progress func(done int64)) (string, error) {
	d := &download{client: c, snapshot: s, file: f, path: path, progress: progress}
	for round := 0; ; round++ {
		sum, err := d.once(ctx)
		var restart *restartError
		switch {
		case err == nil:
			return sum, nil
		case !errors.As(err, &restart):
			return "", plain(err)
		case restart.err != nil:
			err = errors.Join(os.Remove(path), removeIfThere(path+stateSuffix))
			if round > 0 || !restart.resumed || err != nil {
				return "", errors.Join(restart.err, err)
			}
			// What was kept from before may have been damaged since: once more, from the first byte.
		case round > 3:
			return "", llm.Errorf(llm.CodeUnavailable, "%s changes while it is fetched", f.Name)
		}
		if err := removeIfThere(path + stateSuffix); err != nil {
			return "", err
		}
	}
}

// restartError asks for the file from its first byte.
type restartError struct {
	err     error // nil: it changed at the hub, or the hub gives no ranges
	resumed bool  // some of it came from an earlier call
}

func (e *restartError) Error() string {
	if e.err == nil {
		return "start over"
	}
	return e.err.Error()
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// download is one file on its way.
type download struct {
	client   *Client
	snapshot Snapshot
	file     File
	path     string
	progress func(int64)

	out   *os.File
	state *state

	mu      sync.Mutex
	grown   *sync.Cond // on mu: bytes came, or it failed
	done    int64      // bytes there; guarded by mu
	shown   int64      // most bytes that progress was told; guarded by mu
	next    int        // chunk that nobody has taken; guarded by mu
	failed  error      // guarded by mu
	whole   bool       // the hub ignores Range: the file is one chunk; guarded by mu
	resumed bool
}

func (d *download) once(ctx context.Context) (sum string, err error) {
	if err := d.open(); err != nil {
		return "", diskError(d.file.Name, err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		d.fail(context.Cause(ctx))
	})
	defer func() {
		if !stop() {
			<-told // else it could fail the next round, which begins with the same download
		}
	}()

	workers := min(d.client.o.Parts, len(d.state.at))
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			if err := d.work(ctx); err != nil {
				d.fail(err)
				cancel(err)
			}
		})
	}
	h := newHashes(d.file)
	err = d.follow(h)
	if err != nil {
		cancel(err)
	}
	group.Wait()
	if err = cmp.Or(d.trouble(), err); err != nil {
		return "", err
	}
	if err := h.check(); err != nil {
		return "", &restartError{llm.Errorf(llm.CodeUnavailable, "%s from %s is not what the hub declares (%v): it was deleted", d.file.Name, d.snapshot.Repo, err), d.resumed}
	}
	if err := d.out.Sync(); err != nil {
		return "", diskError(d.file.Name, err)
	}
	return h.sum(), removeIfThere(d.path + stateSuffix)
}

// trouble is what failed first, also after the last byte had come.
func (d *download) trouble() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *download) open() (err error) {
	d.grown = sync.NewCond(&d.mu)
	d.done, d.next, d.failed = 0, 0, nil
	// No link is followed: the folder is ours, and what is in it too.
	if d.out, err = os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	chunk := d.client.o.Chunk
	if d.whole {
		chunk = max(chunk, d.file.Size)
	}
	if d.state, d.resumed, err = openState(d.path+stateSuffix, d.file, chunk, d.out); err != nil {
		return errors.Join(err, d.out.Close())
	}
	for _, n := range d.state.at {
		d.done += n
	}
	d.show()
	return nil
}

func (d *download) close() error { return errors.Join(d.state.close(), d.out.Close()) }

func (d *download) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = err
	}
	d.grown.Broadcast()
}

// show tells how far it is.
func (d *download) show() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done > d.shown || d.done == 0 && d.shown == 0 {
		d.shown = d.done
		d.progress(d.shown)
	}
}

// work takes chunks until there are none.
func (d *download) work(ctx context.Context) error {
	for {
		d.mu.Lock()
		i := d.next
		d.next++
		d.mu.Unlock()
		if i >= len(d.state.at) {
			return nil
		}
		if err := d.chunk(ctx, i); err != nil {
			return err
		}
	}
}

// chunk fetches what is missing of one chunk, again after a cut or a stall.
func (d *download) chunk(ctx context.Context, i int) error {
	for try := 0; ; {
		from, to := d.missing(i)
		if from == to {
			return nil
		}
		err := d.fetch(ctx, i, from, to)
		if now, _ := d.missing(i); now > from {
			try = 0
		}
		if err == nil {
			continue
		}
		wait, again := d.client.patience(err, try)
		if !again {
			return err
		}
		try++
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// missing is the range that a chunk still needs.
func (d *download) missing(i int) (from, to int64) {
	start := int64(i) * d.state.Chunk
	d.mu.Lock()
	defer d.mu.Unlock()
	return start + d.state.at[i], min(start+d.state.Chunk, d.file.Size)
}

// errStalled ends an attempt without a byte for too long.
var errStalled = errors.New("no byte came for too long")

func (d *download) fetch(ctx context.Context, i int, from, to int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(d.client.o.Stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	err := d.attempt(ctx, i, from, to, func() { watchdog.Reset(d.client.o.Stall) })
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return &hubError{llm.Errorf(llm.CodeUnavailable, "%s stopped sending %s", d.client.endpoint.Host, d.file.Name), true, 0}
	}
	return err
}

func (d *download) attempt(ctx context.Context, i int, from, to int64, alive func()) error {
	headers := http.Header{}
	ranged := from > 0 || to < d.file.Size
	if ranged {
		headers.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	}
	first, resp, err := d.client.get(ctx, d.client.fileURL(d.snapshot, d.file), headers)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	alive()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return fault("%s has fewer bytes of %s than it declares", resp.Request.URL.Host, d.file.Name)
		}
		if first != resp && (resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusNotFound) { // a signed address that has run out
			return &hubError{llm.Errorf(llm.CodeUnavailable, "%s refuses %s (%s)", resp.Request.URL.Host, d.file.Name, resp.Status), true, 0}
		}
		return d.client.refused(resp, d.snapshot.Repo)
	}
	if err := d.sameAsBefore(etag(first, resp)); err != nil {
		return err
	}
	skip, err := d.position(resp, ranged, from, to)
	if err != nil {
		return err
	}
	return d.receive(resp, i, from, to, skip, alive)
}

func (c *Client) fileURL(s Snapshot, f File) *url.URL {
	if c.scope {
		return c.scopeFileURL(s, f)
	}
	segments := append(strings.SplitN(s.Repo, "/", 2), "resolve", s.Commit)
	return c.url(nil, append(segments, strings.Split(f.Name, "/")...)...)
}

// etag names the version of the file: the first answer's, since the second may come from any store.
func etag(first, last *http.Response) string {
	for _, value := range []string{first.Header.Get("X-Linked-Etag"), last.Header.Get("X-Linked-Etag"), last.Header.Get("ETag")} {
		if value = strings.Trim(strings.TrimPrefix(value, "W/"), `"`); value != "" && len(value) < 200 {
			return value
		}
	}
	return ""
}

// sameAsBefore starts the file over when it is another one than the bytes that are there.
func (d *download) sameAsBefore(etag string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case etag == "" || etag == d.state.ETag:
		return nil
	case d.state.ETag != "":
		return &restartError{}
	}
	return d.state.setETag(etag)
}

// position tells how many bytes of the answer come before the wanted ones, or that the answer cannot be right.
func (d *download) position(resp *http.Response, ranged bool, from, to int64) (skip int64, err error) {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, fault("%s sends %s compressed (%s), which was not asked for", resp.Request.URL.Host, d.file.Name, encoding)
	}
	want := to - from
	if resp.StatusCode == http.StatusPartialContent {
		var first, last int64
		var total string
		if n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%s", &first, &last, &total); n != 3 || !ranged || first != from || last != to-1 || total != "*" && total != strconv.FormatInt(d.file.Size, 10) {
			return 0, fault("%s answers with another part of %s (%.80q) than was asked for", resp.Request.URL.Host, d.file.Name, resp.Header.Get("Content-Range"))
		}
	} else {
		want = d.file.Size
		if len(d.state.at) > 1 {
			d.mu.Lock()
			d.whole = true
			d.mu.Unlock()
			return 0, &restartError{}
		}
		skip = from
	}
	if resp.ContentLength >= 0 && resp.ContentLength != want {
		return 0, d.wrongSize(resp, want)
	}
	return skip, nil
}

// wrongSize tells a Git LFS pointer from other wrong answers: a mirror without the large files sends these.
func (d *download) wrongSize(resp *http.Response, want int64) error {
	if resp.ContentLength < 1024 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		if strings.HasPrefix(string(text), "version https://git-lfs.github.com/spec/") {
			return fault("%s has only a Git LFS pointer for %s, not the file", resp.Request.URL.Host, d.file.Name)
		}
	}
	return fault("%s sends %d bytes of %s where %d are declared", resp.Request.URL.Host, resp.ContentLength, d.file.Name, want)
}

// receive writes the answer's bytes to their places.
func (d *download) receive(resp *http.Response, i int, from, to, skip int64, alive func()) error {
	host := resp.Request.URL.Host
	if skip > 0 {
		if _, err := io.CopyN(io.Discard, &aliveReader{resp.Body, alive}, skip); err != nil {
			return cut(host, d.file.Name, err)
		}
	}
	buf := make([]byte, 256<<10)
	for at := from; at < to; {
		n, err := resp.Body.Read(buf[:min(int64(len(buf)), to-at)])
		if n > 0 {
			alive()
			if err := d.write(i, buf[:n], at); err != nil {
				return diskError(d.file.Name, err)
			}
			at += int64(n)
		}
		if err != nil && at < to {
			return cut(host, d.file.Name, err)
		}
	}
	if n, _ := resp.Body.Read(buf[:1]); n > 0 && to == d.file.Size {
		return fault("%s sends more of %s than the %d bytes it declares", host, d.file.Name, d.file.Size)
	}
	return nil
}

type aliveReader struct {
	r     io.Reader
	alive func()
}

func (a *aliveReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.alive()
	}
	return n, err
}

func cut(host, name string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &hubError{llm.Errorf(llm.CodeUnavailable, "the connection to %s broke off while %s came: %w", host, name, err), true, 0}
}

// write puts bytes into the file, and then into the account.
func (d *download) write(i int, p []byte, at int64) error {
	if _, err := d.out.WriteAt(p, at); err != nil {
		return err
	}
	d.mu.Lock()
	d.state.at[i] += int64(len(p))
	d.done += int64(len(p))
	err := d.state.record(i)
	d.grown.Broadcast()
	d.mu.Unlock()
	d.show()
	return err
}

// follow hashes the bytes from the first on, as far as they are there, until all are.
func (d *download) follow(h *hashes) error {
	buf := make([]byte, 256<<10)
	for at := int64(0); at < d.file.Size; {
		ready, err := d.await(at)
		if err != nil {
			return err
		}
		for at < ready {
			n, err := d.out.ReadAt(buf[:min(int64(len(buf)), ready-at)], at)
			if n == 0 {
				return diskError(d.file.Name, err)
			}
			h.write(buf[:n])
			at += int64(n)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// await returns how many bytes from the first on are there, once they are more than at.
func (d *download) await(at int64) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.failed != nil {
			return 0, d.failed
		}
		if ready := d.state.prefix(d.file.Size); ready > at {
			return ready, nil
		}
		d.grown.Wait()
	}
}

// diskError says what to do when the disk is full.
func diskError(name string, err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	if disk.Full(err) {
		return &hubError{llm.Errorf(llm.CodeUnavailable, "the disk is full: %s could not be written (%w)", name, err).
			WithHint("free some space and pull again: it goes on where it stopped"), false, 0}
	}
	return &hubError{llm.Errorf(llm.CodeInternal, "write %s: %w", name, err), false, 0}
}

// hashes check a file as its hub declares it, and give the SHA-256 that our own manifest has.
type hashes struct {
	file   File
	sha256 hash.Hash
	blob   hash.Hash // nil: not needed
}

func newHashes(f File) *hashes {
	h := &hashes{file: f, sha256: sha256.New()}
	if f.SHA256 == "" {
		h.blob = sha1.New()
		fmt.Fprintf(h.blob, "blob %d\x00", f.Size)
	}
	return h
}

func (h *hashes) write(p []byte) {
	h.sha256.Write(p)
	if h.blob != nil {
		h.blob.Write(p)
	}
}

func (h *hashes) sum() string { return hex.EncodeToString(h.sha256.Sum(nil)) }

func (h *hashes) check() error {
	if h.blob != nil {
		if got := hex.EncodeToString(h.blob.Sum(nil)); got != h.file.Blob {
			return fmt.Errorf("git blob %s, not %s", got, h.file.Blob)
		}
		return nil
	}
	if got := h.sum(); got != h.file.SHA256 {
		return fmt.Errorf("sha256 %s, not %s", got, h.file.SHA256)
	}
	return nil
}

// Check tells whether a file on disk is the declared one, and gives its SHA-256.
func (f File) Check(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := newHashes(f)
	n, err := io.Copy(writerFunc(func(p []byte) (int, error) { h.write(p); return len(p), nil }), io.LimitReader(in, f.Size+1))
	if err != nil {
		return "", err
	}
	if n != f.Size {
		return "", fmt.Errorf("%s has not %d bytes", f.Name, f.Size)
	}
	return h.sum(), h.check()
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }
