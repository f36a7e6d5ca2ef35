package openvino

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// pagedRelease is the release whose C++ class PageAttention was written for.
const pagedRelease = "2026.4."

// PageAttention rewrites the model's attention to read and write a key-value cache that the caller owns, in blocks, in place of states
// inside infer requests. It gains the inputs past_lens, subsequence_begins, block_indices, block_indices_begins, max_context_len,
// and key_cache.N and value_cache.N for each layer; input_ids and position_ids become lists of tokens, [n].
//
// It is ov::pass::SDPAToPagedAttention, which OpenVINO GenAI uses too. The C API does not reach it, so the exported C++ class is
// called as openvino/pass/sdpa_to_paged_attention.hpp declares it: an ov_model_t is a std::shared_ptr<ov::Model>, and nothing else that
// the call touches is ours. Releases it was not written for are refused.
//
// What the pass cannot rewrite it throws out of, and nothing in C catches that: the process ends. Look at the model first.
func (m *Model) PageAttention() error {
	if err := m.lib.CanPageAttention(); err != nil {
		return err
	}
	fn := &m.lib.fn
	p, err := m.handle.Acquire()
	if err != nil {
		return err
	}
	defer m.handle.Release()
	object := make([]uintptr, passWords)
	var pinner runtime.Pinner
	pinner.Pin(&object[0])
	defer pinner.Unpin()
	this := uintptr(unsafe.Pointer(&object[0]))
	// explicit SDPAToPagedAttention(bool use_per_layer_block_indices_inputs = false, ... six more, all false)
	m.lib.callVoid(fn.passCreate, this, 0, 0, 0, 0, 0, 0, 0)
	// bool run_on_model(const std::shared_ptr<ov::Model>& model)
	m.lib.callVoid(fn.passRun, this, p)
	m.lib.callVoid(fn.passDestroy(this), this)
	return nil
}

// CanPageAttention tells why PageAttention cannot be called in this runtime; nil: it can be.
func (l *Library) CanPageAttention() error {
	if !strings.HasPrefix(l.version, pagedRelease) {
		return fmt.Errorf("page the attention: found OpenVINO %s, this was written for %sx", l.version, pagedRelease)
	}
	if l.fn.passCreate == 0 || l.fn.passRun == 0 {
		return errors.New("page the attention: this OpenVINO does not export the pass")
	}
	return nil
}

// passWords is room for the pass, some two hundred bytes, and to spare.
const passWords = 128
