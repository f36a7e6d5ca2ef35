package brief_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"signalbox/internal/brief"
)

func TestTextIsShortAndWhole(t *testing.T) {
	assert.Equal(t, "smollm2:135m", brief.Text("smollm2:135m"))
	assert.Equal(t, strings.Repeat("x", 60), brief.Text(strings.Repeat("x", 60)))
	assert.Equal(t, strings.Repeat("x", 60)+"...", brief.Text(strings.Repeat("x", 1<<20)))
	cut := brief.Text("x" + strings.Repeat("é", 60)) // the limit lies within a character
	assert.True(t, utf8.ValidString(cut))
	assert.Equal(t, "x"+strings.Repeat("é", 29)+"...", cut)
}
