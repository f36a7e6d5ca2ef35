package pipe

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"sync"

	"signalbox/internal/version"
)

// Build identifies the program: parent and child compare it, since an update may replace the file while the parent runs.
var Build = sync.OnceValue(func() string {
	id := version.Version
	if info, ok := debug.ReadBuildInfo(); ok {
		sum := sha256.Sum256([]byte(info.String()))
		id += "+" + hex.EncodeToString(sum[:6])
	}
	return id
})
