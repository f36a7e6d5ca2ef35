//go:build desktop_e2e && linux

package desktop_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/build/test/desktop"
)

func TestChromiumIsDrivenLikeTheWindow(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<!doctype html><input id="a"><button onclick="out.textContent = a.value.toUpperCase()">Go</button><p id="out"></p>`))
	}))
	t.Cleanup(site.Close)
	desk := desktop.Start(t, desktop.Options{})
	page := desk.Chromium(t, site.URL)
	page.Type(t, "#a", "signal")
	page.Click(t, "button")
	assert.Equal(t, "SIGNAL", page.Text(t, "#out"))
	assert.Equal(t, 3.0, page.Eval(t, "return arguments[0] + 1", 2))
	assert.Equal(t, site.URL+"/", page.URL(t))
	picture := filepath.Join(t.TempDir(), "page.png")
	page.Screenshot(t, picture)
	data, err := os.ReadFile(picture)
	require.NoError(t, err)
	assert.Equal(t, "\x89PNG", string(data[:4]))
}
