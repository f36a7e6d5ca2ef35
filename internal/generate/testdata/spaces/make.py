"""Make the tiny Llama-style tokenizer (space marks, byte fallback, BOS) that the tests of internal/generate use."""
import sys
import openvino as ov
from openvino_tokenizers import convert_tokenizer
from tokenizers import Tokenizer, models, normalizers, decoders, processors
from transformers import PreTrainedTokenizerFast

vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
for b in range(256):
    vocab[f"<0x{b:02X}>"] = len(vocab)
for t in ["▁"] + list("abcdefghijklmnopqrstuvwxyz<>/|") + ["he", "ll", "llo", "hello", "▁hello", "wo", "rl", "rld", "world", "▁world", "é"]:
    vocab[t] = len(vocab)
merges = [("h", "e"), ("l", "l"), ("ll", "o"), ("he", "llo"), ("▁", "hello"), ("w", "o"), ("r", "l"), ("rl", "d"), ("wo", "rld"), ("▁", "world")]
tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
tok.add_special_tokens(["<unk>", "<s>", "</s>"])
hf = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
print(hf("hello world 🙂")["input_ids"], repr(hf.decode(hf("hello world 🙂")["input_ids"], skip_special_tokens=True)))
t, d = convert_tokenizer(hf, with_detokenizer=True)
ov.save_model(t, sys.argv[1] + "/openvino_tokenizer.xml")
ov.save_model(d, sys.argv[1] + "/openvino_detokenizer.xml")
