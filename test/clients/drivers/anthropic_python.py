"""anthropic-python: messages, streams, count_tokens, models."""
import anthropic
from common import *

c = anthropic.Anthropic(base_url=URL, api_key="signalbox", max_retries=0)
MOST = 99 if FAKE else 12
TOOL = {"name": "get_weather", "description": "the weather", "input_schema": PARAMETERS}


def create():
    r = c.messages.create(model=MODEL, max_tokens=MOST, messages=HI, system="be brief")
    assert r.stop_reason in ("end_turn", "max_tokens") and r.usage.output_tokens > 0
    return text(r.content[0].text)


def stream():
    with c.messages.stream(model=MODEL, max_tokens=MOST, messages=HI) as s:
        events = [e.type for e in s]
        m = s.get_final_message()
    assert events[0] == "message_start" and events[-1] == "message_stop", events
    return text(m.content[0].text)


def count():
    n = c.messages.count_tokens(model=MODEL, messages=HI, system="be brief").input_tokens
    used = c.messages.create(model=MODEL, max_tokens=2, messages=HI, system="be brief").usage.input_tokens
    assert n == used, (n, used)
    return n


def loop():
    with c.messages.stream(model=MODEL, max_tokens=200, messages=ASK, tools=[TOOL]) as s:
        m = s.get_final_message()
    call = m.content[-1]
    assert m.stop_reason == "tool_use" and call.type == "tool_use" and call.input == {"city": "Oslo"}, m
    history = ASK + [{"role": "assistant", "content": m.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}]
    return text(c.messages.create(model=MODEL, max_tokens=99, messages=history, tools=[TOOL]).content[0].text)


def unknown():
    try:
        c.messages.create(model="nobody", max_tokens=8, messages=HI)
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error" and error.request_id.startswith("req_"), error.body
        return error.body["error"]["message"]
    return False


def broken():
    try:
        for _ in c.messages.create(model=MODEL, max_tokens=99, messages=[{"role": "user", "content": "[[error-after 3]]"}], stream=True):
            pass
    except anthropic.APIStatusError as error:
        return error.body["error"]["message"]
    return False


step("models", lambda: MODEL in [m.id for m in c.models.list()])
step("model", lambda: c.models.retrieve(MODEL).display_name == MODEL)
step("create", create)
step("stream", stream)
step("count_tokens", count)
step("unknown model", unknown)
if FAKE:
    step("tool loop", loop)
    step("error in a stream", broken)
