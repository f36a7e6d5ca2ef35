package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/zalando/go-keyring"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
)

// Tokens keeps one token for each hub, so that none goes to a mirror: in the system's keyring, or where there is none in a
// file that only this user can read. HF_TOKEN comes first, and counts for the hub that the environment means.
type Tokens struct {
	File   string              // where there is no keyring
	Getenv func(string) string // os.Getenv

	mu    sync.Mutex
	known map[string]kept // by origin, what was found; guarded by mu
}

const keyringService = "signalbox-hub"

// Get returns the token for an origin such as "https://huggingface.co"; "" when there is none.
func (t *Tokens) Get(origin string) string {
	token, _ := t.Find(origin)
	return token
}

// Where a token was found.
const (
	InEnvironment = "environment"
	InKeyring     = "keyring"
	InFile        = "file" // that only this user can read
)

// Find is Get, and says where the token was.
func (t *Tokens) Find(origin string) (token, where string) {
	meant := DefaultEndpoint
	if e := t.Getenv("HF_ENDPOINT"); e != "" {
		meant = e
	}
	if token := t.Getenv("HF_TOKEN"); token != "" && sameHub(meant, origin) {
		return token, InEnvironment
	}
	if u, err := url.Parse(origin); err == nil && isModelScope(u) && t.Getenv("MODELSCOPE_API_TOKEN") != "" {
		return t.Getenv("MODELSCOPE_API_TOKEN"), InEnvironment
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.known[origin]
	if !ok {
		k = kept{where: InKeyring}
		var err error
		if k.token, err = t.fromKeyring(origin); err != nil {
			k = kept{t.read()[origin], InFile}
		}
		t.remember(origin, k)
	}
	if k.token == "" {
		return "", ""
	}
	return k.token, k.where
}

type kept struct{ token, where string }

// Account asks the hub whose the client's token is. The error has CodeForbidden where the hub does not know it; account is ""
// where the hub has no such question.
func (c *Client) Account(ctx context.Context) (account string, err error) {
	if c.scope {
		return "", nil
	}
	within, done := c.patient(ctx)
	var said struct {
		Name string `json:"name"`
	}
	_, err = c.json(within, c.url(nil, "api", "whoami-v2"), "its accounts", &said)
	if err = done(err); llm.CodeOf(err) == llm.CodeModelNotFound { // a mirror without accounts
		return "", nil
	}
	return said.Name, err
}

func (t *Tokens) remember(origin string, k kept) {
	if t.known == nil {
		t.known = map[string]kept{}
	}
	t.known[origin] = k
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
	t.remember(origin, kept{token, InKeyring})
	file := t.read()
	var err error
	if token == "" {
		err = keyring.Delete(keyringService, origin)
	} else if err = keyring.Set(keyringService, origin, token); err != nil {
		file[origin] = token
		t.remember(origin, kept{token, InFile})
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
	return disk.Write(t.File, text)
}
