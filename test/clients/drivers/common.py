"""What the Python drivers share: a step prints OK or ERR, and the driver's exit code says whether all were OK."""
import atexit
import os
import sys

MODEL = "smollm2:135m"
EMBED = "all-minilm"
URL = "http://127.0.0.1:11434"
FAKE = os.environ.get("ENGINE") == "fake"
CANNED = "This is a canned answer from the fake engine. No model ran."
HI = [{"role": "user", "content": "hi"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
# A form that an answer of some tokens always completes: a small model may have much to say.
FORM = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "the weather", "parameters": PARAMETERS}}
# The fake engine calls the tool, and gives its canned answer when it has the result.
CALL = '[[tool get_weather {"city": "Oslo"}]]'
ASK = [{"role": "user", "content": CALL}]
failed = []


def step(name, run):
    """Run a step. It returns what to print, and raises or returns False where something is wrong."""
    try:
        result = run()
        if result is False:
            raise AssertionError("not as expected")
        print("OK ", name, str(result).replace("\n", " ")[:130])
    except Exception as error:  # a driver goes on: the next step may tell more
        failed.append(name)
        print("ERR", name, type(error).__name__, str(error).replace("\n", " ")[:400])


def text(said):
    """An answer in words: with the fake engine these."""
    assert said == CANNED if FAKE else said.strip(), said
    return said


@atexit.register
def end():
    sys.stdout.flush()
    os._exit(1 if failed else 0)
