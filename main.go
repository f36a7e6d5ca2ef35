// Signalbox runs language models on this laptop's NPU, GPU and CPU, shows which one answers and why, and serves the Ollama
// and OpenAI APIs on localhost. Commands and flags are in internal/cli; README.md says how the parts fit together.
package main

import (
	"embed"
	"io/fs"
	"os"

	"signalbox/internal/cli"
)

//go:embed all:frontend/dist
var frontend embed.FS

func main() {
	page, err := fs.Sub(frontend, "frontend/dist")
	if err != nil {
		panic(err) // the folder is in the program
	}
	os.Exit(cli.Program{Assets: page}.Main(os.Args[1:]))
}
