"""llama.cpp (the xllamacpp wheel) on the GGUF that the starter model was made from, for bench: as genai.py."""
import json
import sys

import xllamacpp as xlc

params = xlc.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 8192
params.n_parallel = 1
params.warmup = True
server = xlc.Server(params)
print(json.dumps({"ready": "llama.cpp (xllamacpp)"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    answer = server.handle_completions({
        "prompt": request["prompt"], "n_predict": request["tokens"], "temperature": 0,
        "ignore_eos": True, "cache_prompt": False,
    })
    if isinstance(answer, str):
        answer = json.loads(answer)
    times = answer["timings"]
    print(json.dumps({
        "prompt_tokens": times["prompt_n"], "first_ms": times["prompt_ms"], "token_ms": times["predicted_per_token_ms"],
    }), flush=True)
