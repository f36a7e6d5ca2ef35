package xgrammar

import (
	"runtime"
	"unsafe"
)

// kind is a TVMFFITypeIndex: what a value holds.
type kind int32

const (
	kindNone     kind = 0
	kindInt      kind = 1
	kindBool     kind = 2
	kindTensor   kind = 7  // DLTensor*, borrowed
	kindString   kind = 8  // const char*, borrowed: ends at the first NUL
	kindBytes    kind = 9  // TVMFFIByteArray*, borrowed
	kindSmallStr kind = 11 // up to 7 bytes in the value itself
	kindObject   kind = 64 // this and above: a counted reference
	kindStr      kind = 65 // string object
)

// value is a TVMFFIAny.
type value struct {
	kind kind
	len  uint32 // of a small string; otherwise 0
	bits uint64 // number or address
}

// byteArray is a TVMFFIByteArray.
type byteArray struct {
	data *byte
	size uintptr
}

func (b *byteArray) String() string { return string(unsafe.Slice(b.data, b.size)) }

// tensor is a DLTensor.
type tensor struct {
	data       unsafe.Pointer
	deviceType int32
	deviceID   int32
	dims       int32
	code, bits uint8
	lanes      uint16
	shape      *int64
	strides    *int64
	offset     uint64
}

// Of a DLTensor: device_type, and dtype.code.
const (
	deviceCPU = 1
	codeInt   = 0
)

// headerSize is sizeof(TVMFFIObject): what stands before the content of an object.
const headerSize = 24

func integer(n int64) value { return value{kind: kindInt, bits: uint64(n)} }

func boolean(b bool) value {
	if b {
		return value{kind: kindBool, bits: 1}
	}
	return value{kind: kindBool}
}

func none() value { return value{} }

// object borrows an object for a call. Its kind is in its header, behind the reference count.
func object(p uintptr) value {
	header := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	return value{kind: *(*kind)(unsafe.Add(header, 8)), bits: uint64(p)}
}

// texts lends Go strings to the library until release is called. The zero value is ready.
type texts struct{ pin runtime.Pinner }

// bytes lends any bytes.
func (t *texts) bytes(s []byte) value {
	b := &byteArray{size: uintptr(len(s))}
	if len(s) == 0 {
		s = []byte{0} // the library wants an address
	}
	b.data = &s[0]
	t.pin.Pin(b.data)
	t.pin.Pin(b)
	return value{kind: kindBytes, bits: uint64(uintptr(unsafe.Pointer(b)))}
}

// text lends a string that the library takes as text. It must not contain NUL.
func (t *texts) text(s string) value {
	p := &append([]byte(s), 0)[0]
	t.pin.Pin(p)
	return value{kind: kindString, bits: uint64(uintptr(unsafe.Pointer(p)))}
}

func (t *texts) release() { t.pin.Unpin() }

// address turns the bits of an object value into a pointer to the library's memory.
func (v value) address() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&v.bits)) }

// string copies the text of a string value.
func (v value) string() string {
	switch v.kind {
	case kindSmallStr:
		return string(unsafe.Slice((*byte)(unsafe.Pointer(&v.bits)), v.len))
	case kindStr:
		return (*byteArray)(unsafe.Add(v.address(), headerSize)).String()
	}
	return ""
}
