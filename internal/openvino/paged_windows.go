package openvino

import (
	"path/filepath"

	"signalbox/internal/native"
)

// The pass in the C++ ABI of Visual C++.
const (
	passCreateSymbol  = "??0SDPAToPagedAttention@pass@ov@@QEAA@_N000000@Z"
	passRunSymbol     = "?run_on_model@SDPAToPagedAttention@pass@ov@@UEAA_NAEBV?$shared_ptr@VModel@ov@@@std@@@Z"
	passDestroySymbol = "??1SDPAToPagedAttention@pass@ov@@UEAA@XZ"
)

// bindPass looks the pass up in the library that the C library, at path, depends on: it is loaded already.
func (f *functions) bindPass(_ uintptr, path string) {
	library, err := native.Open(filepath.Join(filepath.Dir(path), "openvino.dll"))
	if err != nil {
		return
	}
	create, _ := native.Symbol(library, passCreateSymbol)
	run, _ := native.Symbol(library, passRunSymbol)
	if f.destroy, _ = native.Symbol(library, passDestroySymbol); f.destroy != 0 {
		f.passCreate, f.passRun = create, run
	}
}

func (f *functions) passDestroy(uintptr) uintptr { return f.destroy }
