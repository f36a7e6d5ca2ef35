package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/backend/llm"
	"signalbox/internal/generate/ir"
)

// facts are what a model folder's JSON files say about the model. Missing files and fields leave zeros.
type facts struct {
	Positions int     // most tokens of prompt and answer
	Sliding   bool    // attention looks back over a window only
	Ends      []int32 // tokens that end an answer
}

// numbers is one whole number or a list of them.
type numbers []int32

func (n *numbers) UnmarshalJSON(text []byte) error {
	var one int32
	if json.Unmarshal(text, &one) == nil {
		*n = numbers{one}
		return nil
	}
	var many []int32
	if json.Unmarshal(text, &many) == nil {
		*n = many
	}
	return nil // null and everything else: none
}

type config struct {
	Positions  int             `json:"max_position_embeddings"`
	Sequence   int             `json:"n_positions"`
	Sliding    json.RawMessage `json:"sliding_window"`
	UseSliding *bool           `json:"use_sliding_window"`
	Ends       numbers         `json:"eos_token_id"`
	Text       *config         `json:"text_config"`
}

// readFacts reads config.json and generation_config.json.
func readFacts(dir string) (facts, error) {
	var model, generation config
	if err := readJSON(dir, "config.json", &model); err != nil {
		return facts{}, err
	}
	if err := readJSON(dir, "generation_config.json", &generation); err != nil {
		return facts{}, err
	}
	f := facts{Ends: append(generation.Ends, model.Ends...)}
	for _, c := range []*config{&model, model.Text} {
		if c == nil {
			continue
		}
		f.Positions = max(f.Positions, c.Positions, c.Sequence)
		f.Sliding = f.Sliding || len(c.Sliding) > 0 && string(c.Sliding) != "null" && (c.UseSliding == nil || *c.UseSliding)
		f.Ends = append(f.Ends, c.Ends...)
	}
	return f, nil
}

// maxJSON bounds the JSON files of a model folder that are read here.
const maxJSON = 4 << 20

// readJSON reads a file of the folder into v. A missing file leaves v as it is.
func readJSON(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() > maxJSON {
		return fmt.Errorf("%s: larger than %d MB", path, maxJSON>>20)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// fileSize is the size of a file of the folder, 0 when there is none.
func fileSize(dir, name string) int64 {
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// checkXML refuses a file that is not what its name says: OpenVINO picks its reader by content.
func checkXML(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	if !ir.IsXML(head[:n]) {
		return fmt.Errorf("%s is not an OpenVINO model", path)
	}
	return nil
}

// openGraph reads a model's XML and opens its weights file. The caller closes the file.
func openGraph(dir, name string) (*ir.Graph, *os.File, ir.Weights, error) {
	g, err := ir.Read(filepath.Join(dir, name+".xml"))
	if err != nil {
		return nil, nil, ir.Weights{}, err
	}
	f, weights, err := openWeights(filepath.Join(dir, name+".bin"))
	return g, f, weights, err
}

// openWeights opens a weights file. The caller closes it.
func openWeights(path string) (*os.File, ir.Weights, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, ir.Weights{}, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, ir.Weights{}, err
	}
	return f, ir.Weights{ReaderAt: f, Size: info.Size()}, nil
}

// checkFolder says which file of a model is missing before OpenVINO says it in its own way.
func checkFolder(ref llm.ModelRef, names ...string) error {
	if ref.Name == "" || ref.Dir == "" {
		return llm.Errorf(llm.CodeInvalid, "the request names no model")
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(ref.Dir, name)); err != nil {
			return llm.Errorf(llm.CodeEngine, "load %s: the model folder is incomplete: %w", ref.Name, err).
				WithHint("remove the model and pull it again")
		}
	}
	return nil
}
