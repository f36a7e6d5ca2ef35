#!/usr/bin/env python3
"""Runs real clients against a built Signalbox, headless and offline.

    run.py --binary build/bin/signalbox-headless --cache build/cache/clients [--large] [--only NAME] [--engine fake|openvino]

What the clients are is pinned in requirements.txt and in small/ and large/ (package-lock.json). They are installed into the
cache once. Then everything runs in a network namespace that has nothing but its loopback, with an empty environment and a
home of its own: a client that needs the internet fails here.

With the fake engine, tool loops are scripted: exit code, words and the number of requests must be exact. With the real one (135
million parameters, which call no tools by themselves) the request journal must show that each answer ended well.
"""
import argparse
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL, URL = "smollm2:135m", "http://127.0.0.1:11434"
AIDER = "aider-chat==0.86.2"
CANNED = "This is a canned answer from the fake engine. No model ran."


def call(tool, arguments):
    """A prompt on which the fake engine calls a tool; when it has the result, it gives its canned answer."""
    return "[[tool %s %s]]" % (tool, json.dumps(arguments))


# ---- installing


def install(cache, large):
    cache.mkdir(parents=True, exist_ok=True)
    venv, pinned = cache / "venv", (HERE / "requirements.txt").read_text()
    done = venv / "requirements.installed"
    if not done.exists() or done.read_text() != pinned:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", "--disable-pip-version-check", "-r", HERE / "requirements.txt"], check=True)
        done.write_text(pinned)
    aider = cache / "aider"  # its own, since it pins all that it needs, and other versions
    if large and not (aider / AIDER).exists():
        subprocess.run([sys.executable, "-m", "venv", aider], check=True)
        subprocess.run([aider / "bin/pip", "install", "-q", "--disable-pip-version-check", AIDER], check=True)
        (aider / AIDER).touch()
    for group in ["small"] + ["large"] * large:
        lock = (HERE / group / "package-lock.json").read_text()
        done = cache / group / "package-lock.installed"
        if not done.exists() or done.read_text() != lock:
            shutil.rmtree(cache / group, ignore_errors=True)
            shutil.copytree(HERE / group, cache / group)
            # Not npm ci: it wants the optional packages of other systems in the lock too, and a registry need not have those.
            subprocess.run(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], cwd=cache / group, check=True)
            done.write_text(lock)
    for driver in (HERE / "drivers").iterdir():  # node finds modules next to the script
        shutil.copy(driver, cache / "small" / driver.name)


# ---- the namespace


def enter_namespace():
    """Start this script again where there is no network but loopback."""
    if os.environ.get("IN_NAMESPACE"):
        loopback_up()
        return
    how = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    os.execvpe(how[0], how + [sys.executable, *sys.argv], os.environ | {"IN_NAMESPACE": "1"})


def loopback_up():
    up, running, get, put = 0x1, 0x40, 0x8913, 0x8914  # IFF_UP, IFF_RUNNING, SIOCGIFFLAGS, SIOCSIFFLAGS
    with socket.socket() as s:
        name = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(s, get, name))[1]
        fcntl.ioctl(s, put, struct.pack("16sH14s", b"lo", flags | up | running, b""))


# ---- the server


class Server:
    def __init__(self, binary, engine, work):
        self.engine, self.home = engine, work / ("server-" + engine)
        self.home.mkdir()
        self.log = open(self.home / "stderr", "w+")
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "SIGNALBOX_HOME": str(self.home)}
        self.process = subprocess.Popen([binary, "serve", "--engine", engine], env=env, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if URL not in line:
            self.stop()
            sys.exit(f"the server did not start: {line}\n{(self.home / 'stderr').read_text()}")
        self.since = 0

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def requests(self):
        """The requests since the last call that reached a model, oldest first. A client may leave before the journal has the end."""
        for _ in range(600):
            found = self.list()
            if all(e["state"] == "done" for e in found):
                break
            time.sleep(0.1)
        new = [e for e in found if e["started_at"] > str(self.since)]
        self.since = max([str(self.since)] + [e["started_at"] for e in new])
        return sorted(new, key=lambda e: e["started_at"])

    def list(self):
        owner = json.loads((self.home / "instance.json").read_text())
        request = urllib.request.Request(owner["ui_url"] + "/ui/requests?limit=1000", headers={"Authorization": "Bearer " + owner["token"]})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)["requests"]


# ---- the clients


class Client:
    """One run of a client. requests: how many must reach the engine (fake engine); None: as many as it likes."""

    def __init__(self, name, argv, env=None, files=None, requests=None, route=None, engines=("fake", "openvino"), large=False, says=CANNED, code=0, stdin=""):
        self.name, self.argv, self.env, self.files = name, argv, env or {}, files or {}
        self.requests, self.route, self.engines, self.large, self.says, self.code, self.stdin = requests, route, engines, large, says, code, stdin


def clients(cache):
    python, small, bin = cache / "venv/bin/python", cache / "small", cache / "large/node_modules/.bin"
    list = [
        Client("ollama-python", [python, small / "ollama_python.py"], says=None),
        Client("openai-python", [python, small / "openai_python.py"], says=None),
        Client("anthropic-python", [python, small / "anthropic_python.py"], says=None),
        Client("ollama-js", ["node", small / "ollama.mjs"], says=None),
        Client("openai-js", ["node", small / "openai.mjs"], says=None),
        Client("anthropic-js", ["node", small / "anthropic.mjs"], says=None),
        Client("ai-sdk", ["node", small / "aisdk.mjs"], says=None),
        Client("llm-ollama", [cache / "venv/bin/llm", "-m", "ollama/" + MODEL, "hi", "-o", "num_predict", "40"], requests=1, route="/api/chat"),
        Client("replays", [python, small / "replays.py"], says=None),
        schemathesis(cache),
    ]
    return list + agents(bin) + [aider(cache, name, env) for name, env in {
        "ollama_chat": {"OLLAMA_API_BASE": URL}, "openai": {"OPENAI_API_BASE": URL + "/v1", "OPENAI_API_KEY": "signalbox"}}.items()]


def aider(cache, provider, env):
    """It calls no tools: a turn of text, whose answer changes no file."""
    quiet = ["--yes-always", "--no-check-update", "--no-analytics", "--no-show-model-warnings", "--no-show-release-notes", "--no-git", "--map-tokens", "0", "--no-pretty"]
    return Client("aider " + provider, [cache / "aider/bin/aider", "--model", f"{provider}/{MODEL}", *quiet, "--message", "hi", "note.txt"], env=env, files={"note.txt": "sunny\n"},
                  requests=1, route="/api/chat" if provider == "ollama_chat" else "/v1/chat/completions", large=True, engines=("fake",))


def schemathesis(cache):
    """Requests made from the server's own description: none may be a 5xx, and every answer must be as described. Routes that
    need the internet, or are 501 by design, are left out. One worker: with more its threads trip over each other."""
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    return Client("schemathesis", [cache / "venv/bin/schemathesis", "run", URL + "/openapi.json", "--phases", "examples,coverage,fuzzing", "-n", "8", "--seed", "1",
                                   "--checks", checks, "--warnings", "off", "--continue-on-failure", "--exclude-path", "/api/pull", "--exclude-path", "/api/search", "--exclude-tag", "cloud"],
                  env={"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(cache / "small")}, engines=("fake",), says="No issues found")


def agents(bin):
    """The agents, with prompts cut to what a small model takes. Each runs a text turn; with the fake engine a tool loop too."""
    list = []

    def agent(name, argv, route, tool, hi="hi", **more):
        def client(name, prompt, **more):
            stdin = "" if "PROMPT" in argv else prompt
            list.append(Client(name, [prompt if a == "PROMPT" else a for a in argv], route=route, large=True, stdin=stdin, **more))

        client(name, hi, requests=1, **more)
        client(name + " loop", call(*tool), requests=2, **(more | {"engines": ("fake",)}))

    note = {"note.txt": "sunny\n"}
    for api, route, base in [("openai-completions", "/v1/chat/completions", "/v1"), ("openai-responses", "/v1/responses", "/v1"), ("anthropic-messages", "/v1/messages", "")]:
        settings = {"providers": {"signalbox": {"baseUrl": URL + base, "api": api, "apiKey": "signalbox", "models": [{"id": MODEL, "maxTokens": 48}]}}}
        agent("pi " + api, [bin / "pi", "-p", "--offline", "--no-session", "-ns", "-nc", "-ne", "-np", "--tools", "read", "--system-prompt", "You are a helper.",
                            "--provider", "signalbox", "--model", MODEL, "PROMPT"], route, ("read", {"path": "note.txt"}),
              files=note | {".pi/agent/models.json": json.dumps(settings)})
    for provider, base in [("ollama", ""), ("openai", "/v1")]:
        config = f"name: local\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: signalbox\n    provider: {provider}\n    model: {MODEL}\n    apiBase: {URL}{base}\n    roles: [chat]\n    capabilities: [tool_use]\n    defaultCompletionOptions: {{maxTokens: 48}}\n"
        agent("cn " + provider, [bin / "cn", "-p", "--auto", "--config", "cfg.yaml", "PROMPT"], "/v1/chat/completions", ("Read", {"filepath": "note.txt"}), files=note | {"cfg.yaml": config})
    # It puts quotes around an argument with spaces, and so the prompt comes on standard input.
    agent("opencode", [bin / "opencode", "run"], "/v1/chat/completions", ("read", {"filePath": "note.txt"}), files=note | {"opencode.json": json.dumps({
        "autoupdate": False, "share": "disabled", "model": "local/" + MODEL, "small_model": "local/" + MODEL,
        "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "name": "local", "options": {"baseURL": URL + "/v1"}, "models": {MODEL: {"name": "smollm", "limit": {"context": 8192, "output": 64}}}}},
        "agent": {"build": {"prompt": "You are a helper.", "tools": {"*": False, "read": True}}, "title": {"disable": True}}})},
        env={"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"})
    less = [f"-c{s}" for s in ["model_instructions_file=instr.md", "include_permissions_instructions=false", "include_environment_context=false",
                               "include_collaboration_mode_instructions=false", "include_apps_instructions=false", 'web_search="disabled"',
                               "skills.include_instructions=false", "skills.bundled.enabled=false"]]
    for feature in ["multi_agent", "goals", "apps", "plugins", "view_image"]:
        less += ["--disable", feature]
    agent("codex", [bin / "codex", "exec", "--oss", "--local-provider", "ollama", "-m", MODEL, "--skip-git-repo-check", "-s", "danger-full-access", *less, "PROMPT"],
          "/v1/responses", ("exec_command", {"cmd": "cat note.txt"}), files=note | {"instr.md": "You are a helper.\n"}, engines=("fake",))
    claude = [bin / "claude", "-p", "--model", MODEL, "--output-format", "text", "--tools", "Read", "--system-prompt", "You are a helper.", "--strict-mcp-config", "--setting-sources", ""]
    quiet = {"ANTHROPIC_BASE_URL": URL, "ANTHROPIC_AUTH_TOKEN": "signalbox", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}
    agent("claude", claude + ["PROMPT"], "/v1/messages", ("Read", {"file_path": "HOME/note.txt"}), files=note, env=quiet, engines=("fake",))
    agent("qwen", [bin / "qwen", "--auth-type", "openai", "-y", "--bare", "--core-tools", "read_file", "--system-prompt", "You are a helper.", "-p", "PROMPT"],
          "/v1/chat/completions", ("read_file", {"file_path": "HOME/note.txt"}), files=note, engines=("fake",),
          env={"OPENAI_BASE_URL": URL + "/v1", "OPENAI_API_KEY": "signalbox", "OPENAI_MODEL": MODEL})
    agent("copilot", [bin / "copilot", "-p", "PROMPT", "--allow-all-tools", "--available-tools", "view"], "/v1/chat/completions", ("view", {"path": "HOME/note.txt"}),
          files=note, engines=("fake",), env={"COPILOT_PROVIDER_BASE_URL": URL + "/v1", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_MODEL": MODEL, "COPILOT_OFFLINE": "true"})
    agent("cline", [bin / "cline", "-P", "ollama", "-m", MODEL, "-s", "You are a helper.", "--retries", "1", "PROMPT"], "/api/chat", ("read_files", {"files": [{"path": "HOME/note.txt"}]}),
          hi="say hi", files=note, engines=("fake",))
    list.append(Client("claude as shipped: too long", [bin / "claude", "-p", "--model", MODEL, "hi"], env=quiet, large=True, engines=("fake",), says="Prompt is too long", code=1))
    return list


def run(client, server, work):
    home = Path(tempfile.mkdtemp(dir=work))
    for name, content in client.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", "ENGINE": server.engine, "OLLAMA_HOST": "127.0.0.1:11434"}
    argv = [str(a).replace("HOME/", f"{home}/") for a in client.argv]
    try:
        done = subprocess.run(argv, cwd=home, env=env | client.env, input=client.stdin, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired as expired:
        return [f"it did not end in {expired.timeout} s"], str(expired.stdout)
    requests = server.requests()
    wrong = [] if done.returncode == client.code else [f"exit code {done.returncode}"]
    if client.says and server.engine == "fake" and client.says not in done.stdout:
        wrong.append("not the words it should say")
    if client.says and server.engine == "openvino" and not done.stdout.strip():
        wrong.append("it said nothing")
    if client.requests and len(requests) != client.requests:
        wrong.append(f"{len(requests)} requests instead of {client.requests}")
    for e in requests if client.route else []:
        if e["route"] != client.route or e["outcome"] not in ("completed", "length") or not e["completion_tokens"]:
            wrong.append(f"{e['route']} ended {e['outcome']} {e.get('error', '')}")
    return wrong, "\n".join([done.stdout, done.stderr] + [f"{e['route']} {e['outcome']} {e['client']} {e['user_agent']} {e.get('ignored')} {e.get('error', '')}" for e in requests])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--large", action="store_true", help="the agents too")
    parser.add_argument("--only", default="", help="clients whose name has this")
    parser.add_argument("--engine", choices=["fake", "openvino"], help="one engine: by default both")
    parser.add_argument("--counts", type=Path, help="file that gets a line with what passed, for the sum of all tests")
    parser.add_argument("-v", action="store_true", help="show what clients that went well said")
    args = parser.parse_args()
    args.cache, args.binary = args.cache.resolve(), str(Path(args.binary).resolve())
    if not os.environ.get("IN_NAMESPACE"):
        install(args.cache, args.large)
    enter_namespace()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server and the client end too
    bad = count = 0
    with tempfile.TemporaryDirectory() as work:
        for engine in [args.engine] if args.engine else ["fake", "openvino"]:
            server = Server(args.binary, engine, Path(work))
            try:
                for client in clients(args.cache):
                    if engine not in client.engines or (client.large and not args.large) or args.only not in client.name:
                        continue
                    began = time.monotonic()
                    wrong, said = run(client, server, Path(work))
                    count, bad = count + 1, bad + bool(wrong)
                    print(f"{'FAIL' if wrong else 'ok':4} {engine:8} {client.name:32} {time.monotonic() - began:5.1f} s  {'; '.join(wrong)}", flush=True)
                    if wrong or args.v:
                        print("     " + said.strip().replace("\n", "\n     "))
            finally:
                server.stop()
    print(f"{count} clients, {bad} failed")
    if args.counts:
        with args.counts.open("a") as counts:
            counts.write(f"{count - bad} passed, {bad} failed, 0 skipped\n")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
