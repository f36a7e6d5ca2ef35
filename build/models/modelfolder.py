"""Writes a model folder so that it is either whole or not there."""
import contextlib
import json
import os
import pathlib
import shutil


@contextlib.contextmanager
def replace(out):
    """Gives an empty folder beside out to write to; it takes out's place when the block ends without an error."""
    out = pathlib.Path(out)
    fresh, old = (out.with_name(f".{out.name}.{word}") for word in ("new", "old"))
    for left in (fresh, old):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        if out.exists():
            os.replace(out, old)
        os.replace(fresh, out)
    finally:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
