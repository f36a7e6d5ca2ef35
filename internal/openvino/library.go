package openvino

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"signalbox/internal/native"
)

// supported is the release line whose C API this package was written for: enumerations have changed between lines before.
const supported = "2026."

// Library is OpenVINO, loaded into this process. It is never unloaded: OpenVINO keeps threads and plugins of its own.
type Library struct {
	dir     string
	version string
	fn      functions
}

var libraries native.Libraries[Library]

// Load opens the libraries below dir, the folder that holds openvino/libs and openvino_tokenizers/lib.
// Loading the same folder again gives the same Library. The error says what is missing and where it was looked for.
func Load(dir string) (*Library, error) {
	lib, err := libraries.Get(dir, load)
	if err != nil {
		return nil, fmt.Errorf("load OpenVINO from %s: %w", dir, err)
	}
	return lib, nil
}

func load(dir string) (*Library, error) {
	path, err := find(filepath.Join(dir, "openvino", "libs"), cLibrary)
	if err != nil {
		return nil, err
	}
	handle, err := native.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Base(path), err)
	}
	lib := &Library{dir: dir}
	if err := native.Bind(handle, lib.fn.names()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	lib.fn.bindPass(handle, path)
	lib.version, err = lib.readVersion()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(lib.version, supported) {
		return nil, fmt.Errorf("found version %s, need %sx", lib.version, supported)
	}
	return lib, nil
}

// find returns the one file in dir that matches pattern; with several, the last by name.
func find(dir, pattern string) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("the native runtime is missing: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("the native runtime is incomplete: no %s in %s", pattern, dir)
	}
	return slices.Max(found), nil
}

// Dir is the folder the library was loaded from.
func (l *Library) Dir() string { return l.dir }

// Version is OpenVINO's release, such as "2026.4.1-22982-e213a147257-releases/2026/4".
func (l *Library) Version() string { return l.version }

// typedef struct { const char* buildNumber; const char* description; } ov_version_t;
type version struct {
	build, description *byte
}

// ov_status_e ov_get_openvino_version(ov_version_t* version)
// void ov_version_free(ov_version_t* version)
func (l *Library) readVersion() (string, error) {
	v := new(version)
	if err := l.call("read the version", l.fn.getVersion, uintptr(unsafe.Pointer(v))); err != nil {
		return "", err
	}
	defer l.callVoid(l.fn.versionFree, uintptr(unsafe.Pointer(v)))
	return goString(v.build), nil
}

// functions are the addresses of the C functions that this package calls.
type functions struct {
	getVersion, versionFree, free, lastError uintptr

	coreCreate, coreFree, addExtension, setProperties, getProperty uintptr
	availableDevices, availableDevicesFree                         uintptr
	readModel, readModelMemory, modelFree                          uintptr
	compile                                                        uintptr

	compiledFree, compiledProperty, createRequest          uintptr
	inputs, inputAt, outputs, outputAt                     uintptr
	portName, portType, portFree                           uintptr
	requestFree, setTensor, setInputAt, getTensor, infer   uintptr
	getOutputAt                                            uintptr
	tensorCreate, tensorStrings, tensorFree, tensorReshape uintptr
	tensorData, tensorType, tensorSize, tensorShape        uintptr
	shapeFree, portShape, partialShapeFree, tensorBytes    uintptr

	passCreate, passRun, destroy uintptr // 0: not exported
}

func (f *functions) names() map[string]*uintptr {
	return map[string]*uintptr{
		"ov_get_openvino_version": &f.getVersion, "ov_version_free": &f.versionFree,
		"ov_free": &f.free, "ov_get_last_err_msg": &f.lastError,
		"ov_core_create": &f.coreCreate, "ov_core_free": &f.coreFree, "ov_core_add_extension": &f.addExtension,
		"ov_core_set_properties": &f.setProperties, "ov_core_get_property": &f.getProperty,
		"ov_core_get_available_devices": &f.availableDevices, "ov_available_devices_free": &f.availableDevicesFree,
		readModelSymbol: &f.readModel, "ov_core_read_model_from_memory_buffer": &f.readModelMemory,
		"ov_model_free": &f.modelFree, "ov_core_compile_model_props": &f.compile,
		"ov_compiled_model_free": &f.compiledFree, "ov_compiled_model_get_property": &f.compiledProperty,
		"ov_compiled_model_create_infer_request": &f.createRequest,
		"ov_compiled_model_inputs_size":          &f.inputs, "ov_compiled_model_input_by_index": &f.inputAt,
		"ov_compiled_model_outputs_size": &f.outputs, "ov_compiled_model_output_by_index": &f.outputAt,
		"ov_port_get_any_name": &f.portName, "ov_port_get_element_type": &f.portType,
		"ov_output_const_port_free": &f.portFree, "ov_infer_request_free": &f.requestFree,
		"ov_infer_request_set_tensor": &f.setTensor, "ov_infer_request_set_input_tensor_by_index": &f.setInputAt,
		"ov_infer_request_get_tensor": &f.getTensor, "ov_infer_request_get_output_tensor_by_index": &f.getOutputAt,
		"ov_infer_request_infer": &f.infer, "ov_tensor_create": &f.tensorCreate,
		"ov_tensor_create_from_string_array": &f.tensorStrings, "ov_tensor_free": &f.tensorFree,
		"ov_tensor_set_shape": &f.tensorReshape, "ov_tensor_data": &f.tensorData,
		"ov_tensor_get_element_type": &f.tensorType, "ov_tensor_get_size": &f.tensorSize,
		"ov_tensor_get_shape": &f.tensorShape, "ov_shape_free": &f.shapeFree,
		"ov_tensor_get_byte_size":   &f.tensorBytes,
		"ov_port_get_partial_shape": &f.portShape, "ov_partial_shape_free": &f.partialShapeFree,
	}
}

// callVoid calls a function that returns nothing, as the _free functions do.
//
//go:uintptrescapes
func (l *Library) callVoid(fn uintptr, args ...uintptr) {
	purego.SyscallN(fn, args...)
}
