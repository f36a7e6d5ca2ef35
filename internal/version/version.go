// Package version says which Signalbox this is.
package version

// Version is Signalbox's own version. Builds may set it with -ldflags "-X signalbox/internal/version.Version=...".
var Version = "0.1.0"

// Ollama is the version of the Ollama API that we speak: what /api/version answers. Clients compare it with their own
// minimum (Copilot 0.6.4, Codex 0.13.4), so it is a plain X.Y.Z.
const Ollama = "0.32.9"
