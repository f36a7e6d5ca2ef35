package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSettingsWithSomethingBehindThemChangeNothing(t *testing.T) {
	r := newRig(t)
	before := r.deps.Settings()
	for _, body := range []string{`{"port":0}x`, `{"port":0}{"theme":"dark"}`, `{"port":0}]`} {
		resp, text := do(t, "PUT", r.ui.URL+"/ui/settings", body, "Authorization", "Bearer "+token)
		assert.Equal(t, 400, resp.StatusCode, body)
		assert.Contains(t, text, "goes on after its JSON object", body)
	}
	assert.Equal(t, before, r.deps.Settings())
}
