package main

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pulled is how many bytes of weights a model of this measurement has.
const pulled = 512 << 20

// pulls measures a whole pull from a hub on loopback against curl that writes the same bytes while they are hashed, in turns.
// A pull does more: it asks the hub, checks what it was promised, and has the bytes on the disk, not in its cache, before the
// model counts. What that last step costs is beside it: curl's file, synced.
func pulls() (figure, error) {
	hub := newBenchHub()
	defer hub.server.Close()
	ours, err := startWith([]string{"HF_ENDPOINT=" + hub.server.URL, "HF_TOKEN="})
	if err != nil {
		return figure{}, err
	}
	defer ours.stop()
	var mine, curls, synced []float64
	for round := -1; round < *rounds; round++ { // round -1 warms up
		a, err := ours.pull(fmt.Sprintf("bench/model-%d-ov", round+1))
		if err != nil {
			return figure{}, err
		}
		b, c, err := curl(hub.server.URL+"/bench/model-0-ov/resolve/main/openvino_model.bin", filepath.Join(ours.home, "curl.bin"))
		if err != nil {
			return figure{}, err
		}
		if round >= 0 {
			mine, curls, synced = append(mine, a), append(curls, b), append(synced, c)
		}
	}
	rate := func(seconds []float64) float64 { return pulled / median(seconds) / 1e6 }
	ratio := rate(mine) / rate(curls)
	return figure{
		Name: "pull, x curl | tee | sha256sum", Value: ratio, Goal: ">= 0.8", Met: ratio >= 0.8,
		Details: map[string]any{
			"signalbox_megabytes_per_second": rate(mine), "curl_megabytes_per_second": rate(curls), "curl_synced_megabytes_per_second": rate(synced),
		},
	}, nil
}

// pull fetches a model, and makes room again.
func (s *signalbox) pull(model string) (seconds float64, err error) {
	began := time.Now()
	resp, err := http.Post(s.url+"/api/pull", "application/json", strings.NewReader(fmt.Sprintf(`{"model":%q,"stream":false}`, model)))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	seconds = time.Since(began).Seconds()
	if err != nil || !bytes.Contains(text, []byte(`"success"`)) {
		return 0, fmt.Errorf("pull %s: %s %w", model, text, err)
	}
	files, err := filepath.Glob(filepath.Join(s.home, "models", "*", "openvino_model.bin"))
	if err != nil || len(files) != 1 {
		return 0, fmt.Errorf("pull %s: it left %d models: %w", model, len(files), err)
	}
	return seconds, os.RemoveAll(filepath.Dir(files[0]))
}

// curl writes and hashes the file, and then waits until it is on the disk.
func curl(url, to string) (seconds, synced float64, err error) {
	began := time.Now()
	cmd := exec.Command("sh", "-c", `curl -sf "$1" | tee "$2" | sha256sum >/dev/null`, "sh", url, to)
	cmd.Env = append(os.Environ(), "no_proxy=*")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("curl: %s %w", out, err)
	}
	seconds = time.Since(began).Seconds()
	info, err := os.Stat(to)
	if err != nil || info.Size() != pulled {
		return 0, 0, fmt.Errorf("curl wrote another file: %w", err)
	}
	if out, err := exec.Command("sync", to).CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("sync: %s %w", out, err)
	}
	synced = time.Since(began).Seconds()
	return seconds, synced, os.Remove(to)
}

// benchHub answers as the hub does, with one model under every name.
type benchHub struct {
	server *httptest.Server
	files  map[string][]byte
	sums   map[string]string // of the weights alone: the others are plain files of a repository
}

const benchCommit = "0123456789abcdef0123456789abcdef01234567"

func newBenchHub() *benchHub {
	weights := make([]byte, pulled)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(weights) // always all of it, and no error
	h := &benchHub{files: map[string][]byte{
		"openvino_model.xml": []byte(`<?xml version="1.0"?><net name="m" version="11"><layers><layer id="0" name="beam_idx" type="Parameter"/>` +
			`<layer id="1" name="w" type="Const"><data element_type="i4" shape="8, 16" offset="0" size="64"/></layer></layers></net>`),
		"openvino_model.bin": weights, "openvino_tokenizer.xml": []byte(`<net name="t" version="11"><layers/></net>`),
		"openvino_tokenizer.bin": []byte("tokens"),
	}}
	h.sums = map[string]string{"openvino_model.bin": fmt.Sprintf("%x", sha256.Sum256(weights))}
	h.server = httptest.NewServer(h)
	return h
}

func (h *benchHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case strings.Contains(path, "/revision/"):
		fmt.Fprintf(w, `{"sha":%q}`, benchCommit)
	case strings.Contains(path, "/tree/"):
		var list []any
		for name, content := range h.files {
			entry := map[string]any{"type": "file", "path": name, "size": len(content), "oid": benchCommit}
			if sum, ok := h.sums[name]; ok {
				entry["lfs"] = map[string]any{"oid": sum, "size": len(content)}
			} else {
				entry["oid"] = fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...)))
			}
			list = append(list, entry)
		}
		_ = json.NewEncoder(w).Encode(list) // a client that has gone
	default:
		content, ok := h.files[filepath.Base(path)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}
