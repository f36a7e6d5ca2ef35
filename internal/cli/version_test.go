//go:build unix

package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/version"
)

func TestTheVersionIsAFlagToo(t *testing.T) {
	var out bytes.Buffer
	root := Program{}.root()
	root.SetArgs([]string{"--version"})
	root.SetOut(&out)
	require.NoError(t, root.Execute())
	assert.Equal(t, "signalbox version is "+version.Version+"\n", out.String())
}

func TestAFolderThatIsNotThereIsNamed(t *testing.T) {
	root := Program{}.root()
	root.SetArgs([]string{"import", "/there is none"})
	assert.EqualError(t, root.Execute(), "import /there is none: no such file or directory")
}
