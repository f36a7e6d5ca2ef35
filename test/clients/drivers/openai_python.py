"""openai-python: chat, completions, responses, embeddings."""
import openai
from common import *
from pydantic import BaseModel, Field

c = openai.OpenAI(base_url=URL + "/v1", api_key="signalbox", max_retries=0)
FEW = {} if FAKE else {"max_tokens": 12, "temperature": 0, "seed": 1}
FEWOUT = {} if FAKE else {"max_output_tokens": 16, "temperature": 0}
RTOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}


class City(BaseModel):
    city: str = Field(max_length=12)


def chat():
    r = c.chat.completions.create(model=MODEL, messages=HI, **FEW)
    assert r.choices[0].finish_reason in ("stop", "length") and r.usage.total_tokens > 0
    return text(r.choices[0].message.content)


def stream():
    chunks = list(c.chat.completions.create(model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}, **FEW))
    assert chunks[-1].usage.total_tokens > 0 and not chunks[-1].choices
    return text("".join(x.choices[0].delta.content or "" for x in chunks if x.choices))


def helper():
    with c.chat.completions.stream(model=MODEL, messages=ASK, tools=[WEATHER]) as s:
        for _ in s:
            pass
        r = s.get_final_completion()
    assert r.choices[0].finish_reason == "tool_calls" and r.choices[0].message.tool_calls[0].id, r
    return r.choices[0].message.tool_calls[0].function.arguments


def responses():
    events = list(c.responses.create(model=MODEL, input="hi", stream=True, **FEWOUT))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[-1].type in ("response.completed", "response.incomplete"), events[-1].type
    return text(events[-1].response.output_text)


def responses_helper():
    with c.responses.stream(model=MODEL, input="hi") as s:
        for _ in s:
            pass
        return text(s.get_final_response().output_text)


def responses_loop():
    r = c.responses.create(model=MODEL, input=CALL, tools=[RTOOL, {"type": "web_search"}])
    call = r.output[-1]
    assert call.type == "function_call" and call.arguments, r.output
    history = [{"role": "user", "content": CALL}, call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    return text(c.responses.create(model=MODEL, input=history, tools=[RTOOL]).output_text)


def fails(kind, words, run):
    try:
        run()
    except kind as error:
        assert words in str(error.body["message"]), error.body
        return error.body["message"]
    return False


step("models", lambda: MODEL in [m.id for m in c.models.list()])
step("model", lambda: c.models.retrieve(MODEL).id == MODEL)
step("chat", chat)
step("chat stream", stream)
step("completions", lambda: c.completions.create(model=MODEL, prompt="def f(", max_tokens=8).choices[0].text)
step("completions list", lambda: [x.index for x in c.completions.create(model=MODEL, prompt=["a", "b"], max_tokens=4, echo=True).choices] == [0, 1])
step("completions stream", lambda: "".join(x.choices[0].text for x in c.completions.create(model=MODEL, prompt="x", stream=True, max_tokens=8)))
step("embeddings (base64)", lambda: len(c.embeddings.create(model=EMBED, input=["a", "b"]).data[1].embedding))
step("embeddings (float)", lambda: len(c.embeddings.create(model=EMBED, input="a", encoding_format="float").data[0].embedding))
step("responses", lambda: text(c.responses.create(model=MODEL, input="hi", **FEWOUT).output_text))
step("responses stream", responses)
step("n refused", lambda: fails(openai.BadRequestError, "n > 1", lambda: c.chat.completions.create(model=MODEL, messages=HI, n=2)))
step("previous_response_id refused", lambda: fails(openai.BadRequestError, "previous_response_id", lambda: c.responses.create(model=MODEL, input="x", previous_response_id="resp_1")))
step("unknown model", lambda: fails(openai.NotFoundError, "not found", lambda: c.chat.completions.create(model="nobody", messages=HI)))
step("unknown route", lambda: fails(openai.NotFoundError, "unknown request URL", lambda: c.get("/nope", cast_to=object)))
if FAKE:
    step("responses helper", responses_helper)
    step("tools", lambda: c.chat.completions.create(model=MODEL, messages=ASK, tools=[WEATHER]).choices[0].message.tool_calls[0].function.name == "get_weather")
    step("tools stream helper", helper)
    step("responses tool loop", responses_loop)
else:
    step("json_schema", lambda: c.chat.completions.parse(model=MODEL, messages=HI, response_format=City, max_tokens=200).choices[0].message.parsed.city is not None)
