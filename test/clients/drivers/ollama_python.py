"""ollama-python over the native API."""
import json

import ollama
from common import *

c = ollama.Client()


def models():
    names = [m.model for m in c.list().models]
    assert MODEL in names and EMBED in [n.split(":")[0] for n in names], names
    return names


def show():
    r = c.show(MODEL)
    assert "completion" in r.capabilities and r.modelinfo["general.architecture"], r
    return r.capabilities


def last(stream):
    lines = list(stream)
    assert lines[-1].done and lines[-1].done_reason in ("stop", "length") and lines[-1].eval_count > 0, lines[-1]
    return lines


def fails(status, words, run):
    try:
        run()
    except ollama.ResponseError as error:
        assert error.status_code == status and words in error.error, (error.status_code, error.error)
        return error.error
    return False


FEW = {"num_predict": 12, "temperature": 0, "seed": 1, "num_ctx": 2048}
step("list", models)
step("show", show)
step("chat", lambda: text(c.chat(MODEL, HI).message.content if FAKE else c.chat(MODEL, HI, options=FEW).message.content))
step("chat stream", lambda: text("".join(l.message.content for l in last(c.chat(MODEL, HI, stream=True, options={} if FAKE else FEW)))))
step("generate", lambda: text(c.generate(MODEL, "hi", options={} if FAKE else FEW).response))
step("generate raw", lambda: len(last(c.generate(MODEL, "x", raw=True, stream=True, options=FEW))))
step("logprobs", lambda: len(c.chat(MODEL, HI, logprobs=True, top_logprobs=2, options=FEW).logprobs) > 0)
step("think false", lambda: c.chat(MODEL, HI, think=False, keep_alive="5m", options=FEW).done)
step("think true", lambda: fails(400, "does not support thinking", lambda: c.chat(MODEL, HI, think=True)))
step("ps", lambda: c.ps().models[0].model == MODEL)
step("unload", lambda: c.generate(MODEL, keep_alive=0).done_reason == "unload")
step("load", lambda: c.generate(MODEL).done_reason == "load")
step("unknown model", lambda: fails(404, "model 'nobody' not found", lambda: c.chat("nobody", HI)))
step("embed", lambda: [len(v) for v in c.embed(EMBED, ["a", "b"]).embeddings])
step("embed nothing", lambda: list(c.embed(EMBED, "").embeddings) == [])
step("embeddings", lambda: len(c.embeddings(EMBED, "a").embedding) > 0)
step("embed 2000", lambda: len(c.embed(EMBED, [f"text {i}" for i in range(2000)]).embeddings) == 2000)
if FAKE:
    step("tools", lambda: c.chat(MODEL, ASK, tools=[WEATHER]).message.tool_calls[0].function.arguments["city"] == "Oslo")
    step("tools stream", lambda: [t.function.name for l in c.chat(MODEL, ASK, tools=[WEATHER], stream=True) for t in l.message.tool_calls or []] == ["get_weather"])
else:
    step("format", lambda: json.loads(c.chat(MODEL, HI, format=FORM, options=FEW | {"num_predict": 200}).message.content)["city"] is not None)
