package xgrammar

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"signalbox/internal/native"
)

// Library is xgrammar, loaded into this process. It is never unloaded: it keeps registries of its own.
type Library struct {
	dir string
	fn  functions

	newArray                              uintptr // ffi.Array(...): an array of its arguments
	tokenizer, compiler, grammar, matcher methods
}

// methods are the functions of a class by name.
type methods map[string]uintptr

var libraries native.Libraries[Library]

// Load opens the libraries below dir, the folder that holds tvm_ffi/lib and xgrammar. Loading the same folder again gives
// the same Library. The error says what is missing and where it was looked for.
func Load(dir string) (*Library, error) {
	lib, err := libraries.Get(dir, func(dir string) (*Library, error) {
		lib := &Library{dir: dir}
		return lib, lib.load()
	})
	if err != nil {
		return nil, fmt.Errorf("load xgrammar from %s: %w", dir, err)
	}
	return lib, nil
}

// Dir is the folder the library was loaded from.
func (l *Library) Dir() string { return l.dir }

func (l *Library) load() error {
	ffi, err := openIn(filepath.Join(l.dir, "tvm_ffi", "lib"), ffiLibrary)
	if err != nil {
		return err
	}
	if err := native.Bind(ffi, l.fn.names()); err != nil {
		return fmt.Errorf("%s: %w", ffiLibrary, err)
	}
	if _, err := openIn(filepath.Join(l.dir, "xgrammar"), grammarLibrary); err != nil {
		return err
	}
	if err := l.reflect(); err != nil {
		return fmt.Errorf("%s: %w", grammarLibrary, err)
	}
	return nil
}

func openIn(dir, name string) (uintptr, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("the native runtime is missing: %w", err)
	}
	handle, err := native.Open(path)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", name, err)
	}
	return handle, nil
}

// functions are the addresses of the C functions of TVM FFI that this package calls.
type functions struct {
	call, global, typeIndex, typeInfo, raised, decRef uintptr
}

func (f *functions) names() map[string]*uintptr {
	return map[string]*uintptr{
		"TVMFFIFunctionCall": &f.call, "TVMFFIFunctionGetGlobal": &f.global, "TVMFFITypeKeyToIndex": &f.typeIndex,
		"TVMFFIGetTypeInfo": &f.typeInfo, "TVMFFIErrorMoveFromRaised": &f.raised, "TVMFFIObjectDecRef": &f.decRef,
	}
}

// construct is the method that makes an object of a class.
const construct = "__ffi_init__"

// reflect finds the classes' methods and names all that are missing in one error.
func (l *Library) reflect() error {
	var err error
	if l.newArray, err = l.globalFunction("ffi.Array"); err != nil {
		return err
	}
	var missing []string
	for _, class := range []struct {
		name  string
		into  *methods
		needs []string
	}{
		{"TokenizerInfo", &l.tokenizer, []string{construct}},
		{"GrammarCompiler", &l.compiler, []string{construct, "compile_json_schema", "compile_builtin_json_grammar",
			"compile_structural_tag", "compile_regex", "compile_grammar_from_strings", "get_cache_size_bytes"}},
		{"CompiledGrammar", &l.grammar, []string{"memory_size_bytes"}},
		{"GrammarMatcher", &l.matcher, []string{construct, "accept_token", "accept_string", "fill_next_token_bitmask",
			"find_jump_forward_string", "rollback", "fork", "is_terminated", "is_completed", "reset"}},
	} {
		found, err := l.methodsOf("xgrammar.tvm_ffi_binding." + class.name)
		if err != nil {
			return err
		}
		*class.into = found
		for _, name := range class.needs {
			if found[name] == 0 {
				missing = append(missing, class.name+"."+name)
			}
		}
	}
	return native.Lacks(missing)
}

// int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out)
func (l *Library) globalFunction(name string) (uintptr, error) {
	var lent texts
	defer lent.release()
	out := new(uintptr)
	err := l.native("find "+name, l.fn.global, uintptr(lent.bytes([]byte(name)).bits), uintptr(unsafe.Pointer(out)))
	if err == nil && *out == 0 {
		err = native.Lacks([]string{name})
	}
	return *out, err
}

// methodInfo is a TVMFFIMethodInfo.
type methodInfo struct {
	name, doc, metadata byteArray
	flags               int64
	method              value
}

// typeInfo is a TVMFFITypeInfo.
type typeInfo struct {
	index, depth    int32
	key             byteArray
	ancestors       uintptr
	keyHash         uint64
	fields, methods int32
	field           uintptr
	method          *methodInfo
	metadata        uintptr
}

// int TVMFFITypeKeyToIndex(const TVMFFIByteArray* type_key, int32_t* out_tindex)
// const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index)
func (l *Library) methodsOf(class string) (methods, error) {
	var lent texts
	defer lent.release()
	index := new(int32)
	err := l.native("find "+class, l.fn.typeIndex, uintptr(lent.bytes([]byte(class)).bits), uintptr(unsafe.Pointer(index)))
	if err != nil {
		return nil, err
	}
	info := (*typeInfo)(l.pointer(l.fn.typeInfo, uintptr(*index)))
	if info == nil || info.key.String() != class {
		return nil, native.Lacks([]string{class})
	}
	found := methods{}
	for i := range unsafe.Slice(info.method, info.methods) {
		m := (*methodInfo)(unsafe.Add(unsafe.Pointer(info.method), uintptr(i)*unsafe.Sizeof(methodInfo{})))
		found[m.name.String()] = uintptr(m.method.bits)
	}
	return found, nil
}
