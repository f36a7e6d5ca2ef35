package generate

import (
	"errors"
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
	block   int   // tokens in a block
	bytes   int64 // of a block, in all layers

	ids, places input[int64] // [n]
	wanted      input[int64] // [1, 1]; only with a sliced head
	past        input[int32] // [1], tokens before these
	ends        input[int32] // [2], where the sequence begins and ends in ids
	context     input[int32] // [], tokens with these
	blocks      input[int32] // [k], the sequence's, in order
	blockEnds   input[int32] // [2], where its list begins and ends in blocks
	logits      logits

	newTensor func(openvino.ElementType, ...int64) (*openvino.Tensor, error) // of a layer; only tests set another

	mu    sync.Mutex
	users []int32             // of each block; guarded by mu
	open  map[*paged]struct{} // conversations that have blocks; guarded by mu
}

// layer is the keys or the values of one attention layer.
type layer struct {
	openvino.Port
	tensor *openvino.Tensor
	memory []byte // of tensor
	block  int    // bytes of a block
}

// firstBlocks is how many blocks there are from the beginning.
const firstBlocks = 32

func newPages(c *chat, ports []openvino.Port) (*pages, error) {
	p := &pages{lib: c.lib, newTensor: c.lib.NewTensor, open: map[*paged]struct{}{}}
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
	if err := p.resize(firstBlocks); err != nil {
		p.close()
		return nil, err
	}
	for i := range p.layers {
		l := &p.layers[i]
		l.block = len(l.memory) / firstBlocks
		p.bytes += int64(l.block)
	}
	return p, nil
}

// resize makes the cache hold total blocks; those beyond must be unused. It must not run beside an inference. When it fails, the cache
// holds no more and no less than before, or what it was to shrink to. One layer follows the other, so that never more than one is there
// twice.
func (p *pages) resize(total int) error {
	p.mu.Lock()
	had := len(p.users)
	p.users = p.users[:min(had, total)]
	p.mu.Unlock()
	for i := range p.layers {
		if err := p.layers[i].resize(p, total); err != nil {
			err = fmt.Errorf("make the KV cache hold %d tokens: %w", total*p.block, err)
			return errors.Join(err, p.level(min(had, total)))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users = append(p.users, make([]int32, total-len(p.users))...)
	return nil
}

func (l *layer) resize(p *pages, total int) error {
	tensor, err := p.newTensor(l.Type, l.dims(total)...)
	if err != nil {
		return err
	}
	memory, err := tensor.Bytes()
	if err == nil {
		copy(memory, l.memory)
		err = p.request.SetTensor(l.Name, tensor)
	}
	if err != nil {
		tensor.Close()
		return err
	}
	if l.tensor != nil {
		l.tensor.Close()
	}
	l.tensor, l.memory = tensor, memory
	return nil
}

// dims is the shape of total blocks.
func (l *layer) dims(total int) []int64 {
	dims := slices.Clone(l.Dims)
	dims[0] = int64(total)
	return dims
}

// level makes all layers hold total blocks again, where some hold more: the runtime wants them alike. It needs no memory.
func (p *pages) level(total int) error {
	if total == 0 {
		return nil // there was no cache yet
	}
	var failed error
	for i := range p.layers {
		l := &p.layers[i]
		l.memory = l.memory[:total*l.block]
		failed = errors.Join(failed, l.tensor.Reshape(l.dims(total)...))
	}
	return failed
}

// take gives n more blocks, the first that are free: so the last ones become free, and can be given back.
func (p *pages) take(n int) ([]int32, error) {
	p.mu.Lock()
	total := len(p.users)
	missing := n - (total - p.used())
	p.mu.Unlock()
	if missing > 0 {
		err := p.resize(max(total+missing, total*3/2))
		if err != nil {
			err = p.resize(total + missing)
		}
		if err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	blocks := make([]int32, 0, n)
	for b := 0; len(blocks) < n; b++ {
		if p.users[b] == 0 {
			p.users[b] = 1
			blocks = append(blocks, int32(b))
		}
	}
	return blocks, nil
}

// used is how many blocks are. p.mu is held.
func (p *pages) used() (n int) {
	for _, users := range p.users {
		if users > 0 {
			n++
		}
	}
	return n
}

// spare tells how many blocks are enough, when fewer than half of them are used.
func (p *pages) spare() (enough int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.used()
	enough = max(firstBlocks, used*3/2)
	return enough, 2*used < len(p.users) && enough < len(p.users)
}

// shrink gives memory back, if there is more than is of use. It must not run beside an inference.
func (p *pages) shrink() error {
	total, ok := p.spare()
	if !ok {
		return nil
	}
	p.moveBelow(total)
	if err := p.resize(total); err != nil {
		return err
	}
	openvino.Trim()
	return nil
}

// moveBelow moves what is used of the blocks from total on into free ones below.
func (p *pages) moveBelow(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := map[int32]int32{}
	free := 0
	for b := total; b < len(p.users); b++ {
		if p.users[b] == 0 {
			continue
		}
		for p.users[free] > 0 {
			free++
		}
		for _, l := range p.layers {
			copy(l.memory[free*l.block:(free+1)*l.block], l.memory[b*l.block:])
		}
		p.users[free], p.users[b] = p.users[b], 0
		moved[int32(b)] = int32(free)
	}
	for s := range p.open {
		for i, b := range s.blocks {
			if to, ok := moved[b]; ok {
				s.blocks[i] = to
			}
		}
	}
}

// size is what the whole cache takes, whether it is used or not.
func (p *pages) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.users)) * p.bytes
}

// memory is what the caches of these conversations take; what they share counts once.
func (p *pages) memory(slots []*slot) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[int32]bool{}
	for _, s := range slots {
		for _, b := range s.cache.(*paged).blocks {
			seen[b] = true
		}
	}
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
	blocks []int32 // written to with pages.mu held, for a shrinking cache moves them; by feed also with the device's turn
	seen   int
	row    []float32 // its last logits: those in the request are overwritten by the next conversation's
}

func (s *paged) entries() int { return s.seen }

func (s *paged) feed(_ *chat, tokens []int32) ([]float32, error) {
	if missing := (s.seen+len(tokens)+s.pages.block-1)/s.pages.block - len(s.blocks); missing > 0 {
		if err := s.grow(missing); err != nil {
			return nil, err
		}
	}
	row, err := s.pages.run(s.blocks, s.seen, tokens)
	if err != nil {
		return nil, err
	}
	s.seen += len(tokens)
	s.row = append(s.row[:0], row...)
	return s.row, nil
}

func (s *paged) grow(n int) error {
	more, err := s.pages.take(n)
	if err != nil {
		return err
	}
	s.pages.mu.Lock()
	defer s.pages.mu.Unlock()
	s.blocks = append(s.blocks, more...)
	s.pages.open[s] = struct{}{}
	return nil
}

// reuse shares whole blocks: one that is filled further by each of two conversations cannot be. The conversation itself stays as it
// is, unless it is the same that goes on.
func (s *paged) reuse(n int) (cache, int) {
	if n == s.seen {
		return s, n
	}
	p := s.pages
	p.mu.Lock()
	defer p.mu.Unlock()
	other := &paged{pages: p, blocks: slices.Clone(s.blocks[:n/p.block])}
	for _, b := range other.blocks {
		p.users[b]++
	}
	p.open[other] = struct{}{}
	other.seen = len(other.blocks) * p.block
	return other, other.seen
}

func (s *paged) forget() { s.close() }

func (s *paged) close() {
	p := s.pages
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range s.blocks {
		p.users[b]--
	}
	delete(p.open, s)
	s.blocks, s.seen = nil, 0
}
