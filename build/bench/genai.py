"""OpenVINO GenAI on the same model folder, for bench: a request a line in, its times a line out (milliseconds)."""
import json
import sys
import time

import openvino_genai as genai

pipe = genai.LLMPipeline(sys.argv[1], "CPU")


def first_token(text, config):
    """Milliseconds until the first piece of text arrives."""
    began, seen = time.perf_counter(), []

    def stream(_):
        seen.append(time.perf_counter())
        return genai.StreamingStatus.RUNNING

    pipe.generate(text, config, stream)
    return (seen[0] - began) * 1000


print(json.dumps({"ready": f"OpenVINO GenAI {genai.__version__.split('-')[0]}"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    config = genai.GenerationConfig()
    config.max_new_tokens = request["tokens"]
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    if "turns" in request:  # one conversation: the time to the first token of each turn
        config.apply_chat_template = True
        pipe.start_chat()
        print(json.dumps({"turns_ms": [first_token(turn, config) for turn in request["turns"]]}), flush=True)
        pipe.finish_chat()
        continue
    result = pipe.generate([request["prompt"]], config)
    metrics = result.perf_metrics
    print(json.dumps({
        "prompt_tokens": metrics.get_num_input_tokens(),
        "first_ms": metrics.get_ttft().mean,
        "token_ms": metrics.get_tpot().mean,
    }), flush=True)
