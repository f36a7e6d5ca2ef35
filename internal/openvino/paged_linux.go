package openvino

import (
	"unsafe"

	"signalbox/internal/native"
)

// The pass in the C++ ABI of GCC.
const (
	passCreateSymbol = "_ZN2ov4pass20SDPAToPagedAttentionC1Ebbbbbbb"
	passRunSymbol    = "_ZN2ov4pass20SDPAToPagedAttention12run_on_modelERKSt10shared_ptrINS_5ModelEE"
)

// bindPass looks the pass up: what the C library depends on is found through it.
func (f *functions) bindPass(library uintptr, _ string) {
	f.passCreate, _ = native.Symbol(library, passCreateSymbol)
	f.passRun, _ = native.Symbol(library, passRunSymbol)
}

// passDestroy is the destructor, the first entry of the virtual table.
func (f *functions) passDestroy(this uintptr) uintptr {
	return **(**uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&this)))
}
