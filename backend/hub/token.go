package hub

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zalando/go-keyring"
)

// Tokens keeps one token for each hub, so that none goes to a mirror: in the system's keyring, or where there is none in a
// file that only this user can read. HF_TOKEN comes first, and counts for the hub that the environment means.
type Tokens struct {
	File   string              // where there is no keyring
	Getenv func(string) string // os.Getenv

	mu    sync.Mutex
	known map[string]string // by origin, what the keyring said; guarded by mu
}

const keyringService = "signalbox-hub"

// Get returns the token for an origin such as "https://huggingface.co"; "" when there is none.
func (t *Tokens) Get(origin string) string {
	meant := DefaultEndpoint
	if e := t.Getenv("HF_ENDPOINT"); e != "" {
		meant = e
	}
	if token := t.Getenv("HF_TOKEN"); token != "" && sameHub(meant, origin) {
		return token
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if token, ok := t.known[origin]; ok {
		return token
	}
	token, err := t.fromKeyring(origin)
	if err != nil {
		token = t.read()[origin]
	}
	t.remember(origin, token)
	return token
}

func (t *Tokens) remember(origin, token string) {
	if t.known == nil {
		t.known = map[string]string{}
	}
	t.known[origin] = token
}

// fromKeyring does not wait for a keyring that asks its user something or hangs.
func (t *Tokens) fromKeyring(origin string) (string, error) {
	type answer struct {
		token string
		err   error
	}
	said := make(chan answer, 1)
	go func() {
		token, err := keyring.Get(keyringService, origin)
		said <- answer{token, err}
	}()
	select {
	case a := <-said:
		return a.token, a.err
	case <-time.After(3 * time.Second):
		return "", errors.New("the keyring does not answer")
	}
}

// Set keeps a token; "" forgets it.
func (t *Tokens) Set(origin, token string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remember(origin, token)
	file := t.read()
	var err error
	if token == "" {
		err = keyring.Delete(keyringService, origin)
	} else if err = keyring.Set(keyringService, origin, token); err != nil {
		file[origin] = token
		return t.write(file)
	}
	if _, there := file[origin]; there {
		delete(file, origin)
		return t.write(file)
	}
	if errors.Is(err, keyring.ErrNotFound) || token == "" {
		return nil
	}
	return err
}

func (t *Tokens) read() map[string]string {
	tokens := map[string]string{}
	text, err := os.ReadFile(t.File)
	if err != nil || json.Unmarshal(text, &tokens) != nil || tokens == nil {
		return map[string]string{}
	}
	return tokens
}

func (t *Tokens) write(tokens map[string]string) error {
	text, err := json.Marshal(tokens)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(t.File), ".tokens-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when the rename worked
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), t.File)
}
