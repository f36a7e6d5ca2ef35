package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"signalbox/backend/downloads"
	"signalbox/backend/hub"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/internal/brief"
	"signalbox/internal/disk"
)

// Shop is where models come from and how they are changed. *models.Library and *downloads.Manager do the work.
type Shop struct {
	Library   *models.Library
	Downloads *downloads.Manager
	Hub       func() (*hub.Client, error)
	Table     func() models.Table
	MayPull   func() bool // clients may download, beside the window and the command line
	Source    func() Source
	Login     func(ctx context.Context, token string) (Login, error) // keeps a token for the hub; "" forgets it
	Changed   func()                                                 // the models have changed
	Moved     func(to string) error                                  // opens the library there and says so in the settings; nil: it stays
	Space     func(dir string) (free, total int64, err error)
}

// Source is where models are fetched from.
type Source struct {
	Endpoint string `json:"endpoint"`
	Default  string `json:"default"` // where nothing else is chosen
	Token    string `json:"token"`   // where the token is: "environment", "keyring" or "file"; empty: there is none
}

// Login is what came of a token.
type Login struct {
	Account   string `json:"account"`   // whose it is; empty: not known
	Kept      string `json:"kept"`      // as Source.Token
	Unchecked string `json:"unchecked"` // a sentence: why the hub could not be asked about it; empty: it could
}

// modelRoutes change models, and find some. They are part of the API.
func (s *Server) modelRoutes() []route {
	o := ollamaDialect
	return s.withShop([]route{
		{"POST", "/api/pull", o, s.pull, true},
		{"POST", "/api/push", o, push, true},
		{"POST", "/api/create", o, s.create, true},
		{"POST", "/api/copy", o, s.copyModel, true},
		{"DELETE", "/api/delete", o, s.deleteModel, true},
		{"HEAD", "/api/blobs/{digest}", o, s.hasBlob, false},
		{"POST", "/api/blobs/{digest}", o, s.takeBlob, true},
		{"GET", "/api/search", o, s.search, false},
		{"GET", "/api/models/known", o, s.known, false},
	})
}

// shopRoutes are for the window and the command line alone.
func (s *Server) shopRoutes() []route {
	o := ollamaDialect
	return s.withShop([]route{
		{"GET", "/ui/downloads", o, s.downloads, false},
		{"POST", "/ui/downloads", o, withModel(s.beginDownload), false},
		{"POST", "/ui/downloads/{id}/pause", o, s.steer((*downloads.Manager).Pause), false},
		{"POST", "/ui/downloads/{id}/resume", o, s.steer((*downloads.Manager).Resume), false},
		{"POST", "/ui/downloads/{id}/cancel", o, s.steer((*downloads.Manager).Cancel), false},
		{"DELETE", "/ui/downloads/{id}", o, s.steer((*downloads.Manager).Cancel), false},
		{"POST", "/ui/preflight", o, withModel(s.preflight), false},
		{"GET", "/ui/disk", o, s.disk, false},
		{"POST", "/ui/models/restore", o, withModel(s.restoreModel), false},
		{"POST", "/ui/models/verify", o, s.verifyModel, false},
		{"POST", "/ui/models/repair", o, withModel(s.repairModel), false},
		{"POST", "/ui/models/move", o, s.moveModels, false},
		{"GET", "/ui/hub", o, s.hubSource, false},
		{"PUT", "/ui/hub/token", o, s.setToken, false},
		{"POST", "/desktop/import", o, s.importModel, false},
	})
}

// withShop keeps the handlers from running where there is none.
func (s *Server) withShop(routes []route) []route {
	if s.deps.Shop == nil {
		for i := range routes {
			routes[i].handler = notBuilt
		}
	}
	return routes
}

func (s *Server) modelsChanged() {
	if s.deps.Shop.Changed != nil {
		s.deps.Shop.Changed()
	}
}

// lineStream writes lines of JSON; nothing is sent before the first.
type lineStream struct {
	w     *response
	begun bool
}

func (l *lineStream) send(line []byte) error {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.w.Header().Set("Cache-Control", "no-cache, no-transform")
		l.w.WriteHeader(http.StatusOK)
	}
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return llm.Errorf(llm.CodeCancelled, "the client left or stopped reading: %w", err)
	}
	return l.w.flush()
}

// end turns an error after the first line into the last line.
func (l *lineStream) end(ctx context.Context, err error) error {
	if err == nil || !l.begun {
		return err
	}
	_ = l.send(ollama.ErrorBody(wireError(ctx, err))) // when nobody reads, nobody reads
	return nil
}

func (s *Server) pull(w *response, r *http.Request) error {
	req, err := parseBody(w, r, ollama.ParsePull)
	if err != nil {
		return err
	}
	if shop := s.deps.Shop; !visitorOf(r).ui && shop.MayPull != nil && !shop.MayPull() {
		return forbidden("clients may not download models here: pull %s in the Signalbox window, or allow it in the settings", brief.Text(req.Model))
	}
	defer s.modelsChanged()
	if !req.Stream {
		if err := s.deps.Shop.Downloads.Pull(r.Context(), req.Model, func(downloads.Event) error { return nil }); err != nil {
			return upstream(err)
		}
		return w.json(http.StatusOK, ollama.StatusFrame("success"))
	}
	out := &lineStream{w: w}
	err = s.deps.Shop.Downloads.Pull(r.Context(), req.Model, func(e downloads.Event) error {
		if e.Digest == "" {
			return out.send(ollama.StatusFrame(e.Status))
		}
		return out.send(ollama.FileFrame(e.Status, e.Digest, e.Total, e.Completed))
	})
	return out.end(r.Context(), upstream(err))
}

// upstream tells a fault of the hub from one of ours, and a full disk from both.
func upstream(err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case !ok || e.Code != llm.CodeUnavailable:
		return err
	case errors.Is(err, models.ErrNoSpace):
		return err
	}
	return withStatus(http.StatusBadGateway, e)
}

// push is refused: nothing leaves this computer.
func push(w *response, r *http.Request) error {
	model, err := parseBody(w, r, ollama.ParseModel)
	if err != nil {
		return err
	}
	if model == "" {
		return llm.Errorf(llm.CodeInvalid, "model is required")
	}
	return llm.Errorf(llm.CodeUnsupported, "%s cannot be pushed: Signalbox sends no models anywhere", brief.Text(model))
}

func (s *Server) create(w *response, r *http.Request) error {
	req, err := parseBody(w, r, ollama.ParseCreate)
	if err != nil {
		return err
	}
	if len(req.Files) > 0 {
		return s.refuseFiles(req.Files)
	}
	if err := s.deps.Shop.Library.Create(req.Creation); err != nil {
		return named(err, req.From)
	}
	defer s.modelsChanged()
	if !req.Stream {
		return w.json(http.StatusOK, ollama.StatusFrame("success"))
	}
	out := &lineStream{w: w}
	steps := []string{"reading model metadata"}
	for text, step := range map[string]string{req.System: "creating system layer"} {
		if text != "" {
			steps = append(steps, step)
		}
	}
	if m, err := s.deps.Models.Find(req.From); err == nil {
		steps = append(steps, "using already created layer sha256:"+m.Digest)
	}
	for _, step := range append(steps, "writing manifest", "success") {
		if err := out.send(ollama.StatusFrame(step)); err != nil {
			return out.end(r.Context(), err)
		}
	}
	return nil
}

// refuseFiles says what the files are that a model was to be made of.
func (s *Server) refuseFiles(files map[string]string) error {
	for name, digest := range files {
		path, err := s.blobPath(digest)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return withStatus(http.StatusNotFound, llm.Errorf(llm.CodeInvalid, "blob %q not found", digest))
		}
		if models.IsGGUF(path) {
			return s.deps.Shop.Table().RefuseGGUF(path)
		}
		if strings.HasSuffix(name, ".safetensors") {
			return llm.Errorf(llm.CodeUnsupported, "models are not made of safetensors here").WithHint("export the model to OpenVINO (optimum-cli export openvino) and use `signalbox import`")
		}
	}
	return llm.Errorf(llm.CodeUnsupported, "models are not made of single files here").WithHint("`signalbox import` adds a folder with an OpenVINO model")
}

func (s *Server) copyModel(w *response, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	source, destination, err := ollama.ParseCopy(body)
	if err != nil {
		return err
	}
	if err := s.deps.Shop.Library.Copy(source, destination); err != nil {
		return err
	}
	s.modelsChanged()
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) deleteModel(w *response, r *http.Request) error {
	model, err := parseBody(w, r, ollama.ParseModel)
	if err != nil {
		return err
	}
	if err := s.deps.Shop.Library.Delete(model); err != nil {
		return named(err, model)
	}
	s.modelsChanged()
	w.WriteHeader(http.StatusOK)
	return nil
}

var digestForm = regexp.MustCompile(`^sha256[:-]([0-9a-f]{64})$`)

// blobPath is where a blob lies: nothing of what a client wrote but hex digits gets into it.
func (s *Server) blobPath(digest string) (string, error) {
	m := digestForm.FindStringSubmatch(digest)
	if m == nil {
		return "", llm.Errorf(llm.CodeInvalid, "invalid digest format")
	}
	return filepath.Join(s.deps.Shop.Library.BlobDir(), "sha256-"+m[1]), nil
}

func (s *Server) hasBlob(w *response, r *http.Request) error {
	digest := mux.Vars(r)["digest"]
	path, err := s.blobPath(digest)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return withStatus(http.StatusNotFound, llm.Errorf(llm.CodeInvalid, "blob %q not found", digest))
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) takeBlob(w *response, r *http.Request) error {
	digest := mux.Vars(r)["digest"]
	path, err := s.blobPath(digest)
	if err != nil {
		return err
	}
	dir := s.deps.Shop.Library.BlobDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s.deps.Shop.Library.CollectBlobs()
	if _, err := os.Stat(path); err == nil {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	temp, err := os.CreateTemp(dir, "incoming-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone already when the rename worked
	got, err := s.receiveBlob(w, r, temp)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if want := path[strings.LastIndexByte(path, '-')+1:]; got != want {
		return llm.Errorf(llm.CodeInvalid, `digest mismatch, expected "sha256:%s", got "sha256:%s"`, want, got)
	}
	if err := disk.Rename(temp.Name(), path); err != nil {
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// receiveBlob writes a body of any length, as long as the disk keeps its reserve.
func (s *Server) receiveBlob(w *response, r *http.Request, to *os.File) (sum string, err error) {
	space := s.deps.Shop.Space
	if space == nil {
		space = models.Space
	}
	h := sha256.New()
	from := &timedBody{w: w, r: r.Body, since: time.Now()}
	const piece = 4 << 20
	for {
		if free, _, err := space(filepath.Dir(to.Name())); err == nil && free < models.Reserve+piece {
			w.Header().Set("Connection", "close")
			return "", upstream(models.NoSpace(max(piece, r.ContentLength), free))
		}
		n, err := io.CopyN(io.MultiWriter(to, h), from, piece)
		if errors.Is(err, io.EOF) {
			_ = w.ctl.SetReadDeadline(time.Time{})
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			w.Header().Set("Connection", "close")
			return "", llm.Errorf(llm.CodeInvalid, "read the blob after %d bytes: %w", n, err)
		}
	}
}

func (s *Server) search(w *response, r *http.Request) error {
	values := r.URL.Query()
	q := hub.Query{Text: values.Get("q"), Task: values.Get("task"), Quantization: values.Get("quantization"), Sort: values.Get("sort"), NPU: values.Get("npu") == "true"}
	if text := values.Get("max_billions"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return llm.Errorf(llm.CodeInvalid, "max_billions must be a number")
		}
		q.MostBillions = n
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 200 {
			return llm.Errorf(llm.CodeInvalid, "limit must be a number from 1 to 200")
		}
		q.Limit = n
	}
	client, err := s.deps.Shop.Hub()
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := client.Search(r.Context(), q)
	if err != nil {
		return upstream(err)
	}
	return w.jsonOf(http.StatusOK, map[string]any{"models": found})
}

func (s *Server) known(w *response, _ *http.Request) error {
	type entry struct {
		models.Known
		Installed bool `json:"installed"`
	}
	entries := []entry{}
	for _, k := range s.deps.Shop.Table() {
		m, err := s.deps.Models.Find(k.Name)
		entries = append(entries, entry{k, err == nil && k.IsIt(m)})
	}
	return w.jsonOf(http.StatusOK, map[string]any{"models": entries})
}

func (s *Server) downloads(w *response, _ *http.Request) error {
	return w.jsonOf(http.StatusOK, map[string]any{"downloads": s.deps.Shop.Downloads.List()})
}

// modelOf reads a body that names a model.
func modelOf(w *response, r *http.Request) (string, error) {
	var req struct {
		Model string `json:"model"`
	}
	if err := decode(w, r, &req); err != nil {
		return "", err
	}
	if req.Model == "" {
		return "", llm.Errorf(llm.CodeInvalid, "model is required")
	}
	return req.Model, nil
}

// withModel makes a handler of something that is done with the model the body names. What comes of it is the answer; nil is none.
func withModel(do func(ctx context.Context, model string) (any, error)) handler {
	return func(w *response, r *http.Request) error {
		model, err := modelOf(w, r)
		if err != nil {
			return err
		}
		result, err := do(r.Context(), model)
		switch {
		case err != nil:
			return named(err, model)
		case result == nil:
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return w.jsonOf(http.StatusOK, result)
	}
}

func (s *Server) beginDownload(_ context.Context, model string) (any, error) {
	return s.deps.Shop.Downloads.Begin(model)
}

func (s *Server) preflight(ctx context.Context, model string) (any, error) {
	report, err := s.deps.Shop.Downloads.Preflight(ctx, model)
	return report, upstream(err)
}

// repairModel fetches again what is wrong of a model: a download like any other.
func (s *Server) repairModel(_ context.Context, model string) (any, error) {
	return s.deps.Shop.Downloads.Repair(model)
}

func (s *Server) restoreModel(_ context.Context, model string) (any, error) {
	err := s.deps.Shop.Library.Restore(model)
	if err == nil {
		s.modelsChanged()
	}
	return nil, err
}

// steer does something with one download.
func (s *Server) steer(act func(*downloads.Manager, string) error) handler {
	return func(w *response, r *http.Request) error {
		if err := act(s.deps.Shop.Downloads, mux.Vars(r)["id"]); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

func (s *Server) disk(w *response, _ *http.Request) error {
	usage, err := s.deps.Shop.Library.Usage()
	if err != nil {
		return err
	}
	caches := int64(0)
	if s.deps.Routing != nil {
		caches = s.deps.Routing.Compiled().Bytes
	}
	return w.jsonOf(http.StatusOK, struct {
		models.Usage
		Caches int64 `json:"caches"` // what is kept of compiled models
	}{usage, caches})
}

// verifyModel reads all of a model's files: lines of progress, then what was found.
func (s *Server) verifyModel(w *response, r *http.Request) error {
	model, err := modelOf(w, r)
	if err != nil {
		return err
	}
	out := &lineStream{w: w}
	found, err := s.deps.Shop.Library.Verify(r.Context(), model, out.progress("verifying"))
	if err != nil {
		return out.end(r.Context(), named(err, model))
	}
	line, err := json.Marshal(struct {
		Status string `json:"status"`
		models.Verified
	}{"success", found})
	if err != nil {
		return err
	}
	return out.end(r.Context(), out.send(line))
}

func (s *Server) hubSource(w *response, r *http.Request) error {
	if s.deps.Shop.Source == nil {
		return notBuilt(w, r)
	}
	return w.jsonOf(http.StatusOK, s.deps.Shop.Source())
}

const longestToken = 4096

func (s *Server) setToken(w *response, r *http.Request) error {
	var req struct {
		Token string `json:"token"`
	}
	if err := decode(w, r, &req); err != nil {
		return err
	}
	token := strings.TrimSpace(req.Token)
	switch {
	case s.deps.Shop.Login == nil:
		return notBuilt(w, r)
	case len(token) > longestToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return llm.Errorf(llm.CodeInvalid, "this is no token: it has spaces or signs that none has")
	}
	done, err := s.deps.Shop.Login(r.Context(), token)
	if err != nil {
		return upstream(err)
	}
	return w.jsonOf(http.StatusOK, done)
}

// moveModels takes the library to another folder of this computer: lines of progress, then success.
func (s *Server) moveModels(w *response, r *http.Request) error {
	var req struct {
		To string `json:"to"`
	}
	if err := decode(w, r, &req); err != nil {
		return err
	}
	switch {
	case !onThisComputer(req.To):
		return llm.Errorf(llm.CodeInvalid, "to must be the full path of a folder on this computer")
	case s.deps.Shop.Moved == nil:
		return notBuilt(w, r)
	case s.deps.Shop.Downloads.Busy():
		return llm.Errorf(llm.CodeInvalid, "a download runs: pause it, and move the models then")
	}
	out := &lineStream{w: w}
	err := s.deps.Shop.Library.Move(r.Context(), req.To, out.progress("moving"), s.deps.Shop.Moved)
	if fault, ok := errors.AsType[*fs.PathError](err); ok && strings.HasPrefix(fault.Path, req.To) && !disk.Full(err) {
		err = llm.Errorf(llm.CodeInvalid, "models cannot be moved to %s: %w", req.To, fault.Err) // not a fault of ours
	}
	if err != nil {
		return out.end(r.Context(), err)
	}
	s.modelsChanged()
	return out.end(r.Context(), out.send(ollama.StatusFrame("success")))
}

// progress is told bytes, and tells now and then.
func (l *lineStream) progress(status string) func(done, total int64) {
	last := time.Time{}
	return func(done, total int64) {
		if done == total || time.Since(last) >= 100*time.Millisecond {
			last = time.Now()
			_ = l.send(ollama.FileFrame(status, "", total, done)) // when nobody reads, the context ends it
		}
	}
}

func onThisComputer(path string) bool {
	return filepath.IsAbs(path) && !strings.HasPrefix(path, `\\`) && !strings.HasPrefix(path, "//")
}

// importModel adds a folder of this computer: lines of progress, then the name.
func (s *Server) importModel(w *response, r *http.Request) error {
	var req struct {
		Path      string `json:"path"`
		Name      string `json:"name"`
		Reference bool   `json:"reference"`
	}
	if err := decode(w, r, &req); err != nil {
		return err
	}
	if !onThisComputer(req.Path) {
		return llm.Errorf(llm.CodeInvalid, "path must be the full path of a folder on this computer")
	}
	out := &lineStream{w: w}
	name, err := s.deps.Shop.Library.Import(r.Context(), req.Path, req.Name, req.Reference, out.progress("copying"))
	if err != nil {
		return out.end(r.Context(), err)
	}
	s.modelsChanged()
	return out.end(r.Context(), out.send([]byte(fmt.Sprintf(`{"status":"success","model":%q}`, name))))
}
