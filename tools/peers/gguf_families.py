"""Compares a server of GGUF files of every architecture that it reads with transformers, and with llama.cpp: small models of random weights, which are
converted here as llama.cpp's own converter does (names by the package gguf, rows of queries and keys in pairs, Gemma's norms from one), and
tokenizers of SentencePiece and of byte-level BPE for every tokenizer.ggml.pre.

Usage: gguf_families.py BINARY [NAME ...]    needs gguf, torch, transformers, sentencepiece, tokenizers, xllamacpp
"""
import json
import math
import pathlib
import sys
import tempfile
import unicodedata

import gguf
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from gguf_parity import llama_cpp, odd_strings
from served import ask, check, post, served, wrong

CLOSE = 0.05  # of the ten highest log-probabilities of the next token
TEXT = pathlib.Path(__file__).parents[2] / "docs"
VOCABULARY = 1000
SIZES = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=512, vocab_size=VOCABULARY)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=128)
FAMILIES = {
    "llama": dict(arch="llama"),
    "llama with scaled positions": dict(arch="llama", rope_parameters=LLAMA3),
    "llama, positions linear": dict(arch="llama", rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "qwen2": dict(arch="qwen2", tie_word_embeddings=True),
    "qwen3": dict(arch="qwen3", head_dim=64),
    "gemma": dict(arch="gemma", head_dim=64),
    "gemma2": dict(arch="gemma2", head_dim=64, query_pre_attn_scalar=64, sliding_window=32, attn_logit_softcapping=20.0, final_logit_softcapping=15.0, attn_implementation="eager"),  # sdpa has no caps
    "gemma3": dict(arch="gemma3", head_dim=64, query_pre_attn_scalar=64, sliding_window=32, num_hidden_layers=7),
    "phi3": dict(arch="phi3", pad_token_id=0, num_key_value_heads=8),
    "granite": dict(arch="granite", embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.05, logits_scaling=8.0),
    "ernie4_5": dict(arch="ernie4_5", head_dim=32),
    "smollm3": dict(arch="smollm3", pad_token_id=0),
}
PRES = ["llama-bpe", "llama3", "llama-v3", "falcon3", "smaug-bpe", "dbrx", "qwen2", "deepseek-r1-qwen", "tekken", "gpt-4o", "gpt-2", "smollm", "refact", "starcoder"]


def sentence_pieces(work):
    prefix = work / "spm"
    sentencepiece.SentencePieceTrainer.train(input=",".join(str(p) for p in sorted(TEXT.glob("*.md"))[:6]), model_prefix=str(prefix), model_type="bpe", vocab_size=VOCABULARY, byte_fallback=True,
                                             normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, user_defined_symbols=["<|mark|>"], minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def add_pieces(writer, pieces):
    """The metadata of SentencePiece's vocabulary."""
    n = pieces.get_piece_size()
    kinds = [3 if pieces.is_control(i) else 2 if pieces.is_unknown(i) else 6 if pieces.is_byte(i) else 4 if pieces.id_to_piece(i) == "<|mark|>" else 1 for i in range(n)]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([pieces.id_to_piece(i) for i in range(n)])
    writer.add_token_scores([pieces.get_score(i) for i in range(n)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def random_model(options):
    kind, gemma = {"gemma3": "gemma3_text"}.get(options["arch"], options["arch"]), options["arch"].startswith("gemma")
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, "tie_word_embeddings": gemma, **{k: v for k, v in options.items() if k != "arch"}})
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.normal_(0, 0.3 if "embed" in name else 1.5 / math.sqrt(p.shape[1]))
                raw = gguf.quants.quantize(p.numpy(), gguf.GGMLQuantizationType.Q8_0)
                p.copy_(torch.from_numpy(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.Q8_0)))
            elif "norm" in name:
                p.normal_(0 if gemma else 1, 0.2)
            else:
                p.normal_(0, 0.3)
    return config, model


def in_pairs(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def convert(path, arch, config, model, add_tokenizer):
    writer = gguf.GGUFWriter(path, arch)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(head)
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    if arch in ("qwen3", "gemma", "gemma2", "gemma3", "ernie4_5"):
        writer.add_key_length(head)
        writer.add_value_length(head)
    if arch in ("gemma2", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch == "phi3":
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        writer.add_sliding_window(512)
    if arch == "granite":
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if rope.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "llama3":
        usual = 1 / rope["rope_theta"] ** (torch.arange(0, head, 2).float() / head)
        scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
        writer.add_tensor("rope_freqs.weight", (usual / scaled).numpy().astype(np.float32))
    add_tokenizer(writer)
    names = gguf.get_tensor_name_map(next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == arch), config.num_hidden_layers)
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        w = p.numpy()
        if arch in ("llama", "granite", "smollm3") and (".q_proj." in name or ".k_proj." in name):
            w = in_pairs(w, config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            w = w + 1
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if p.dim() == 2:
            writer.add_tensor(new, gguf.quants.quantize(np.ascontiguousarray(w), gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(new, w.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_family(work, name, options, pieces):
    config, model = random_model(options)
    file = work / "model.gguf"
    convert(file, options["arch"], config, model, lambda writer: add_pieces(writer, pieces))
    rng = np.random.default_rng(1)
    prompts = [[1] + rng.integers(300, VOCABULARY, n).tolist() for n in (1, 7, 40, 200)]
    peer = llama_cpp(file)
    worst = worst_peer = worst_bf16 = 0.0
    half = model.__class__(config).to(torch.bfloat16).eval()
    half.load_state_dict(model.state_dict())
    with served(sys.argv[1], file):
        for ids in prompts:
            with torch.no_grad():
                want = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
                rounded = half(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
            top = want.topk(10).indices.tolist()
            answer = post("/v1/completions", prompt=ids, max_tokens=1, temperature=0, logprobs=20, return_tokens_as_token_ids=True)["choices"][0]["logprobs"]["top_logprobs"][0]
            got = {int(k.split(":")[1]): v for k, v in answer.items()}
            worst = max(worst, *(abs(got.get(t, -99) - want[t].item()) for t in top))
            worst_bf16 = max(worst_bf16, *(abs(rounded[t] - want[t]).item() for t in top))
            if peer:
                probs = ask(f"{peer.listening_address}/completion", prompt=ids, n_predict=1, n_probs=20, temperature=0, cache_prompt=False).get("completion_probabilities")
                if not probs:  # the next token ends the text
                    continue
                other = {p["id"]: p["logprob"] for p in probs[0]["top_logprobs"]}
                worst_peer = max(worst_peer, *(abs(other.get(t, -99) - want[t].item()) for t in top))
        check(name, worst < max(CLOSE, worst_bf16), f"top ten at most {worst:.3f} off; transformers' bfloat16 {worst_bf16:.3f}, llama.cpp {worst_peer:.3f}")


def check_pieces(work, pieces, texts):
    """SentencePiece's own ids judge those texts in which no special token is spelt out; llama.cpp all."""
    config, model = random_model(FAMILIES["llama"])
    file = work / "model.gguf"
    convert(file, "llama", config, model, lambda writer: add_pieces(writer, pieces))
    with served(sys.argv[1], file):
        got = [post("/tokenize", prompt=t)["tokens"] for t in texts]
        plain = [i for i, t in enumerate(texts) if "<" not in t and "\0" not in t and t]
        differ = [texts[i] for i in plain if got[i] != [1] + pieces.encode(texts[i])]
        check("tokens as SentencePiece's", not differ, f"{len(plain) - len(differ)} of {len(plain)} alike {differ[:3]}")
        peer = llama_cpp(file)
        if peer:
            want = [ask(f"{peer.listening_address}/tokenize", content=t, add_special=True, parse_special=True)["tokens"] for t in texts]
            differ = [t for t, g, w in zip(texts, got, want) if g != w]
            check("tokens as llama.cpp's", not differ, f"{len(texts) - len(differ)} of {len(texts)} alike {differ[:3]}")


def check_pre(work, pre, texts):
    learnt = tokenizers.Tokenizer(tokenizers.models.BPE())
    learnt.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    learnt.train([str(p) for p in sorted(TEXT.glob("*.md"))[:6]], tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY - 2, special_tokens=["<|endoftext|>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    merges = json.loads(learnt.to_str())["model"]["merges"]
    vocabulary = sorted(learnt.get_vocab(), key=learnt.get_vocab().get)
    vocabulary += [f"<|unused{i}|>" for i in range(VOCABULARY - len(vocabulary))]

    config, model = random_model({**FAMILIES["llama"], "num_hidden_layers": 1})
    file = work / "model.gguf"

    def add_bytes(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(vocabulary)
        writer.add_token_types([3 if t.startswith("<|") else 1 for t in vocabulary])
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(0)

    convert(file, "llama", config, model, add_bytes)
    with served(sys.argv[1], file):
        got = [post("/tokenize", prompt=t)["tokens"] for t in texts]
    peer = llama_cpp(file)
    if peer:
        read = [unicodedata.normalize("NFC", t) if pre == "qwen2" else t for t in texts]  # as Qwen2's own tokenizer.json does, and llama.cpp does not
        want = [ask(f"{peer.listening_address}/tokenize", content=t, add_special=True, parse_special=True)["tokens"] for t in read]
        differ = [t for t, g, w in zip(texts, got, want) if g != w]
        known = [t for t in differ if pre in ("gpt-4o", "tekken") and any(unicodedata.category(c)[0] == "M" for c in t)]
        check(f"tokens of {pre} as llama.cpp's", differ == known, f"{len(texts) - len(differ)} of {len(texts)} alike{', others have marks, which llama.cpp takes for no part of a word' * bool(known)} {[t for t in differ if t not in known][:3]}")


def main():
    chosen = sys.argv[2:] or [*FAMILIES, "pieces", *(f"pre {name}" for name in PRES)]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        pieces = sentence_pieces(work)
        for name in chosen:
            if name in FAMILIES:
                check_family(work, name, FAMILIES[name], pieces)
            elif name == "pieces":
                check_pieces(work, pieces, odd_strings())
            else:
                check_pre(work, name.removeprefix("pre "), odd_strings()[::5])
    sys.exit(f"wrong: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
