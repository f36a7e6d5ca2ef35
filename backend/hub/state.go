package hub

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
)

const stateSuffix = ".state"

// state is which bytes of an incomplete file are there. It lies beside the file: a line of JSON, padded, then one number for
// each chunk. A number is written after its bytes, with every write, so that a killed process has lost nothing. After a
// power cut it may promise more than is there: the hash finds that.
type state struct {
	stateHead
	at  []int64 // bytes there of each chunk, from its beginning
	out *os.File
}

type stateHead struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Blob   string `json:"blob"`
	Chunk  int64  `json:"chunk"`
	ETag   string `json:"etag"`
}

const headSize = 1024

// openState reads the state of the file, or begins one. What belongs to another file, or cannot be right, begins anew.
func openState(path string, f File, chunk int64, data *os.File) (*state, bool, error) {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	s := &state{out: out}
	if s.read(f, data) {
		return s, slices.ContainsFunc(s.at, func(n int64) bool { return n > 0 }), nil
	}
	s.stateHead = stateHead{Size: f.Size, SHA256: f.SHA256, Blob: f.Blob, Chunk: chunk}
	s.at = make([]int64, (f.Size+chunk-1)/chunk)
	err = errors.Join(data.Truncate(0), out.Truncate(0), s.writeHead())
	if err == nil {
		_, err = out.WriteAt(make([]byte, 8*len(s.at)), headSize)
	}
	if err != nil {
		return nil, false, errors.Join(err, out.Close())
	}
	return s, false, nil
}

func (s *state) read(f File, data *os.File) bool {
	head := make([]byte, headSize)
	if _, err := s.out.ReadAt(head, 0); err != nil || json.Unmarshal(head, &s.stateHead) != nil {
		return false
	}
	if s.Size != f.Size || s.SHA256 != f.SHA256 || s.Blob != f.Blob || s.Chunk < 1<<10 {
		return false
	}
	info, err := data.Stat()
	if err != nil {
		return false
	}
	chunks := (f.Size + s.Chunk - 1) / s.Chunk
	text := make([]byte, 8*chunks)
	if _, err := s.out.ReadAt(text, headSize); err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	s.at = make([]int64, chunks)
	for i := range s.at {
		n := int64(binary.LittleEndian.Uint64(text[8*i:]))
		start := int64(i) * s.Chunk
		// Bytes that the file does not have were not written.
		s.at[i] = max(0, min(n, s.Chunk, f.Size-start, info.Size()-start))
	}
	return true
}

func (s *state) writeHead() error {
	text, err := json.Marshal(s.stateHead)
	if err != nil {
		return err
	}
	head := make([]byte, headSize)
	for i := copy(head, text); i < len(head); i++ {
		head[i] = ' '
	}
	_, err = s.out.WriteAt(head, 0)
	return err
}

func (s *state) setETag(etag string) error {
	s.ETag = etag
	return s.writeHead()
}

func (s *state) record(i int) error {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], uint64(s.at[i]))
	_, err := s.out.WriteAt(number[:], headSize+8*int64(i))
	return err
}

// prefix is how many bytes are there from the first on.
func (s *state) prefix(size int64) (n int64) {
	for i, at := range s.at {
		n += at
		if at < min(s.Chunk, size-int64(i)*s.Chunk) {
			break
		}
	}
	return n
}

func (s *state) close() error { return s.out.Close() }

// PartialSuffix ends the name of a file that is not complete.
const PartialSuffix = ".partial"

// Kept is how many bytes of a file lie at path from an earlier download, complete or with PartialSuffix. Nothing is checked.
func Kept(f File, path string) int64 {
	if info, err := os.Stat(path); err == nil && info.Size() == f.Size {
		return f.Size
	}
	data, err := os.Open(path + PartialSuffix)
	if err != nil {
		return 0
	}
	defer data.Close()
	out, err := os.Open(path + PartialSuffix + stateSuffix)
	if err != nil {
		return 0
	}
	defer out.Close()
	s := &state{out: out}
	if !s.read(f, data) {
		return 0
	}
	var sum int64
	for _, n := range s.at {
		sum += n
	}
	return sum
}
