"""Reads the head of a GGUF file (version 2 or 3): what a model says about itself. Weights are left alone."""
import struct

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


def head(path):
    """Returns (metadata, shapes): the key-value pairs, and the shape of each tensor by name."""
    with open(path, "rb") as file:
        magic, version, tensors, pairs = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"{path}: not a GGUF file of version 2 or 3")
        metadata = {_string(file): _value(file, _number(file, "I")) for _ in range(pairs)}
        return metadata, dict(_tensor(file) for _ in range(tensors))


def _tensor(file):
    name = _string(file)
    shape = [_number(file, "Q") for _ in range(_number(file, "I"))]
    file.read(12)  # its type and where its weights begin
    return name, shape


def _number(file, code):
    return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]


def _string(file):
    return file.read(_number(file, "Q")).decode("utf-8")


def _value(file, kind):
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        of = _number(file, "I")
        return [_value(file, of) for _ in range(_number(file, "Q"))]
    return _number(file, _SCALARS[kind])
