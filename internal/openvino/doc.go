// Package openvino calls OpenVINO's C API from Go, without cgo.
//
// Begin with Load, which opens the libraries below a runtime folder, and NewCore:
//
//	lib, err := openvino.Load(runtimeDir)
//	core, err := lib.NewCore()
//	model, err := core.ReadModel("openvino_model.xml", "")
//	compiled, err := core.Compile(model, "CPU", openvino.Properties{"PERFORMANCE_HINT": "LATENCY"})
//	request, err := compiled.NewRequest()
//	err = request.SetTensor("input_ids", ids)
//	err = request.Infer()
//	logits, err := request.Tensor("logits")
//
// Every object is safe for use by several goroutines; Close waits for calls that are running and may be called twice.
// Objects keep what they need from each other alive, so they may be closed in any order. Only one Infer at a time runs in
// one Request. A running Infer cannot be interrupted: ov_infer_request_cancel can damage the compiled model, so it is not here.
//
// A fault in a native library (not an error it reports) ends the process: callers that must survive it use a child process.
package openvino
