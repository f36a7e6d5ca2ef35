"""Clients that cannot be installed here, as their sources show them: what they send, and what they would break on."""
import http.client
import json
import urllib.request

from common import *


def call(method, path, body=None, headers=None):
    c = http.client.HTTPConnection("127.0.0.1", 11434, timeout=60)
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"} | (headers or {}))
    r = c.getresponse()
    return r, r.read().decode()


def get(path, headers=None):
    r, text = call("GET", path, None, headers)
    assert r.status == 200, (path, r.status, text)
    return json.loads(text)


def post(path, body, headers=None):
    r, text = call("POST", path, body, headers)
    assert r.status == 200, (path, r.status, text)
    return text


def copilot():
    """VS Code Copilot Chat: version, tags, show, and then chat completions with a bearer that is empty."""
    agent = {"User-Agent": "GitHubCopilotChat/0.38.0", "Authorization": "Bearer "}
    assert tuple(map(int, get("/api/version", agent)["version"].split("."))) >= (0, 6, 4)
    names = [m["model"] for m in get("/api/tags", agent)["models"]]
    for name in names:
        shown = json.loads(post("/api/show", {"model": name}, agent))
        info, family = shown["model_info"], shown["model_info"]["general.architecture"]
        assert isinstance(shown["capabilities"], list) and info["general.basename"] == name and info[family + ".context_length"] > 0, shown
    body = {"model": MODEL, "messages": HI, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 16}
    events = [json.loads(l[6:]) for l in post("/v1/chat/completions", body, agent).splitlines() if l.startswith("data: {")]
    assert events[-1]["usage"]["completion_tokens"] > 0 and events[-2]["choices"][0]["finish_reason"] in ("stop", "length")
    return names


def continued():
    """Continue: show by its old name; fill-in-the-middle only where the template says .Suffix; else raw autocomplete."""
    shown = json.loads(post("/api/show", {"name": MODEL}))
    assert isinstance(shown["parameters"], str) and isinstance(shown["template"], str)
    assert (".Suffix" in shown["template"]) == ("insert" in shown["capabilities"])
    body = {"model": MODEL, "prompt": "def f(", "raw": True, "keep_alive": 1800, "options": {"num_predict": 8, "num_ctx": 2048, "stop": ["\n\n"]}}
    lines = [json.loads(l) for l in post("/api/generate", body).splitlines()]
    assert lines[-1]["done"] and not any("error" in l for l in lines)
    if ".Suffix" not in shown["template"]:
        r, text = call("POST", "/api/generate", {"model": MODEL, "prompt": "def f(", "suffix": "return", "stream": False})
        assert r.status == 400 and "insert" in text, (r.status, text)
    return shown["capabilities"]


def zed():
    """Zed decodes without defaults: a missing field ends it."""
    for m in get("/api/tags")["models"]:
        details = m["details"]
        assert all(isinstance(m[k], str) for k in ("name", "modified_at", "digest")) and m["size"] >= 0 and len(m["digest"]) == 64, m
        assert all(isinstance(details[k], str) for k in ("format", "family", "parameter_size", "quantization_level")), m
    body = {"model": MODEL, "messages": HI, "stream": True, "keep_alive": -1, "options": {"num_ctx": 4096, "stop": [], "num_predict": 8}, "think": False, "tools": []}
    for line in post("/api/chat", body).splitlines():
        l = json.loads(line)
        assert isinstance(l["model"], str) and isinstance(l["created_at"], str) and isinstance(l["done"], bool), l
        assert l["message"]["role"] == "assistant" and isinstance(l["message"]["content"], str), l
    return True


def preflight(origin, headers="content-type,authorization,x-stainless-os"):
    r, _ = call("OPTIONS", "/api/chat", None, {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers})
    return r.status, r.headers.get("Access-Control-Allow-Origin")


def preflights():
    for origin in ["app://obsidian.md", "vscode-webview://abc", "chrome-extension://abc", "http://localhost:3000"]:
        assert preflight(origin) == (204, origin), origin
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"]:
        assert preflight(origin) == (403, None), origin
    r, _ = call("OPTIONS", "/v1/messages", None, {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,anthropic-version"})
    allowed = r.headers["Access-Control-Allow-Headers"].lower()
    return "x-api-key" in allowed and "anthropic-version" in allowed


def wrong_urls():
    for path, right in {"/v1/v1/messages": "/v1/messages", "/chat/completions": "/v1/chat/completions", "/models": "/v1/models"}.items():
        r, text = call("POST", path, {})
        assert r.status == 404 and URL + right in text, (path, text)
    return True


step("Copilot's handshake", copilot)
step("Continue's fill-in-the-middle", continued)
step("Zed's strict decoding", zed)
step("browser preflights", preflights)
step("wrong URLs", wrong_urls)
step("Claude Code's HEAD", lambda: call("HEAD", "/")[0].status == 200)
