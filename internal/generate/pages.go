package generate

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/generate/ir"
	"signalbox/internal/openvino"
)

// pages is the KV cache of all conversations with a model whose attention is paged: blocks of some tokens (32 on the CPU), of which each
// conversation has a list. So conversations that begin alike share blocks, and tokens on top of a cache cost what those of a new
// prompt cost.
//
// The inputs are those of ov::op::PagedAttentionExtension, with one sequence in each inference. There is one infer request: a device
// runs one inference at a time, and the cache is ours.
type pages struct {
	lib     *openvino.Library
	request *openvino.Request
	layers  []layer
	block   int // tokens in a block

	ids, places input[int64] // [n]
	wanted      input[int64] // [1, 1]; only with a sliced head
	past        input[int32] // [1], tokens before these
	ends        input[int32] // [2], where the sequence begins and ends in ids
	context     input[int32] // [], tokens with these
	blocks      input[int32] // [k], the sequence's, in order
	blockEnds   input[int32] // [2], where its list begins and ends in blocks
	logits      logits

	mu    sync.Mutex
	bytes int64   // of a block, in all layers; guarded by mu
	users []int32 // of each block; guarded by mu
	free  []int32 // blocks that nobody uses; guarded by mu
}

// layer is the keys or the values of one attention layer.
type layer struct {
	openvino.Port
	tensor *openvino.Tensor
}

// firstBlocks is how many blocks there are from the beginning.
const firstBlocks = 32

func newPages(c *chat, ports []openvino.Port) (*pages, error) {
	p := &pages{lib: c.lib}
	for _, port := range ports {
		if !strings.HasPrefix(port.Name, "key_cache.") && !strings.HasPrefix(port.Name, "value_cache.") {
			continue
		}
		if len(port.Dims) != 4 || slices.Contains(port.Dims[1:], -1) {
			return nil, fmt.Errorf("the cache %s has the shape %v", port.Name, port.Dims)
		}
		p.layers = append(p.layers, layer{Port: port})
		p.block = int(port.Dims[2])
	}
	var err error
	if p.request, err = c.model.NewRequest(); err != nil {
		return nil, err
	}
	p.ids.name, p.places.name, p.past.name, p.ends.name = "input_ids", "position_ids", "past_lens", "subsequence_begins"
	p.context.name, p.blocks.name, p.blockEnds.name = "max_context_len", "block_indices", "block_indices_begins"
	if c.inputs[ir.Positions] {
		p.wanted.name = ir.Positions
	}
	if err := p.grow(firstBlocks); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// grow makes the cache hold total blocks. It must not run beside an inference.
func (p *pages) grow(total int) error {
	bytes := int64(0)
	for i := range p.layers {
		n, err := p.layers[i].grow(p.lib, p.request, total)
		if err != nil {
			return fmt.Errorf("make the KV cache hold %d tokens: %w", total*p.block, err)
		}
		bytes += n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.users); i < total; i++ {
		p.users = append(p.users, 0)
		p.free = append(p.free, int32(i))
	}
	p.bytes = bytes / int64(total)
	return nil
}

func (l *layer) grow(lib *openvino.Library, request *openvino.Request, total int) (bytes int64, err error) {
	dims := slices.Clone(l.Dims)
	dims[0] = int64(total)
	bigger, err := lib.NewTensor(l.Type, dims...)
	if err != nil {
		return 0, err
	}
	memory, err := bigger.Bytes()
	if err == nil && l.tensor != nil {
		var old []byte
		old, err = l.tensor.Bytes()
		copy(memory, old)
	}
	if err == nil {
		err = request.SetTensor(l.Name, bigger)
	}
	if err != nil {
		bigger.Close()
		return 0, err
	}
	if l.tensor != nil {
		l.tensor.Close()
	}
	l.tensor = bigger
	return int64(len(memory)), nil
}

// take gives n more blocks.
func (p *pages) take(n int) ([]int32, error) {
	p.mu.Lock()
	total, missing := len(p.users), n-len(p.free)
	p.mu.Unlock()
	if missing > 0 {
		err := p.grow(max(total+missing, total*3/2))
		if err != nil {
			err = p.grow(total + missing)
		}
		if err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := len(p.free) - n
	blocks := slices.Clone(p.free[at:])
	p.free = p.free[:at]
	for _, b := range blocks {
		p.users[b] = 1
	}
	return blocks, nil
}

// share makes one more conversation a user of blocks.
func (p *pages) share(blocks []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range blocks {
		p.users[b]++
	}
}

// give takes blocks back from one of their users.
func (p *pages) give(blocks []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range blocks {
		if p.users[b]--; p.users[b] == 0 {
			p.free = append(p.free, b)
		}
	}
}

// memory is what the caches of these conversations take; what they share counts once.
func (p *pages) memory(slots []*slot) int64 {
	seen := map[int32]bool{}
	for _, s := range slots {
		for _, b := range s.cache.(*paged).blocks {
			seen[b] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(seen)) * p.bytes
}

// run computes tokens as those that follow the first past ones in blocks. What it returns is valid until the next run.
func (p *pages) run(blocks []int32, past int, tokens []int32) ([]float32, error) {
	n := len(tokens)
	ids, err := p.ids.resize(p.lib, p.request, int64(n))
	if err != nil {
		return nil, err
	}
	places, err := p.places.resize(p.lib, p.request, int64(n))
	if err != nil {
		return nil, err
	}
	for i, id := range tokens {
		ids[i], places[i] = int64(id), int64(past+i)
	}
	list, err := p.blocks.resize(p.lib, p.request, int64(len(blocks)))
	if err != nil {
		return nil, err
	}
	copy(list, blocks)
	for _, set := range []struct {
		in     *input[int32]
		values []int32
		dims   []int64
	}{
		{&p.past, []int32{int32(past)}, []int64{1}}, {&p.ends, []int32{0, int32(n)}, []int64{2}},
		{&p.context, []int32{int32(past + n)}, nil}, {&p.blockEnds, []int32{0, int32(len(blocks))}, []int64{2}},
	} {
		data, err := set.in.resize(p.lib, p.request, set.dims...)
		if err != nil {
			return nil, err
		}
		copy(data, set.values)
	}
	if p.wanted.name != "" {
		wanted, err := p.wanted.resize(p.lib, p.request, 1, 1)
		if err != nil {
			return nil, err
		}
		wanted[0] = int64(n - 1)
	}
	if err := p.request.Infer(); err != nil {
		return nil, err
	}
	return p.logits.last(p.request)
}

func (p *pages) close() {
	p.logits.close()
	p.request.Close()
	for _, l := range p.layers {
		if l.tensor != nil {
			l.tensor.Close()
		}
	}
	for _, in := range []interface{ close() }{&p.ids, &p.places, &p.wanted, &p.past, &p.ends, &p.context, &p.blocks, &p.blockEnds} {
		in.close()
	}
}

// paged is one conversation's part of pages.
type paged struct {
	pages  *pages
	blocks []int32
	seen   int
	row    []float32 // its last logits: those in the request are overwritten by the next conversation's
}

func (s *paged) entries() int { return s.seen }

func (s *paged) feed(_ *chat, tokens []int32) ([]float32, error) {
	if missing := (s.seen+len(tokens)+s.pages.block-1)/s.pages.block - len(s.blocks); missing > 0 {
		more, err := s.pages.take(missing)
		if err != nil {
			return nil, err
		}
		s.blocks = append(s.blocks, more...)
	}
	row, err := s.pages.run(s.blocks, s.seen, tokens)
	if err != nil {
		return nil, err
	}
	s.seen += len(tokens)
	s.row = append(s.row[:0], row...)
	return s.row, nil
}

// reuse shares whole blocks: one that is filled further by each of two conversations cannot be. The conversation itself stays as it
// is, unless it is the same that goes on.
func (s *paged) reuse(n int) (cache, int) {
	if n == s.seen {
		return s, n
	}
	blocks := slices.Clone(s.blocks[:n/s.pages.block])
	s.pages.share(blocks)
	kept := len(blocks) * s.pages.block
	return &paged{pages: s.pages, blocks: blocks, seen: kept}, kept
}

func (s *paged) forget() { s.close() }

func (s *paged) close() {
	s.pages.give(s.blocks)
	s.blocks, s.seen = nil, 0
}
