"""Writes what transformers makes of chat templates and texts, for the tests of engine/tokenizer.

    python tools/golden/golden_tokenizer.py [--templates DIR]

Needs transformers, tokenizers and jinja2. --templates takes another directory of *.jinja files, to
compare more of them than the repository holds.
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parents[2] / "engine/tokenizer/testdata"
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get <the> weather & more é", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "City"}, "n": {"type": "integer", "default": 1.5}},
        "required": ["city"]}}}]
USER = {"role": "user", "content": "Is this post interesting? Answer Yes or No. é <b> \"q\" 'a'"}
CALL = {"type": "function", "id": "call00001", "function": {"name": "get_weather", "arguments": {"city": "Paris", "n": 3, "x": 0.5, "ok": True, "no": None}}}
CASES = {
    "user": dict(messages=[USER]),
    "system": dict(messages=[{"role": "system", "content": "  You are a ranker. "}, USER]),
    "several": dict(messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "A\n"},
                              {"role": "assistant", "content": " B "}, {"role": "user", "content": "C"}]),
    "no generation prompt": dict(messages=[USER, {"role": "assistant", "content": "Yes"}], add_generation_prompt=False),
    "thinking": dict(messages=[{"role": "user", "content": "A"}, {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nB"},
                               {"role": "user", "content": "C"}], enable_thinking=False),
    "tools": dict(messages=[{"role": "user", "content": "A"}], tools=TOOLS),
    "tool call": dict(messages=[{"role": "user", "content": "A"}, {"role": "assistant", "content": "", "tool_calls": [CALL]},
                                {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"t\": 21.5}"}], tools=TOOLS),
    "parts": dict(messages=[{"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}]),
    "continued": dict(messages=[USER, {"role": "assistant", "content": "  The answer is "}], continue_final_message=True),
    "continued without space": dict(messages=[USER, {"role": "assistant", "content": "The answer: \"é\""}], continue_final_message=True),
    "continued empty": dict(messages=[USER, {"role": "assistant", "content": ""}], continue_final_message=True),
    "continued user": dict(messages=[{"role": "user", "content": "Answer\nYes\n"}], continue_final_message=True),
    "continued parts": dict(messages=[{"role": "user", "content": [{"type": "text", "text": "A"}]},
                                      {"role": "assistant", "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "C "}]}],
                            continue_final_message=True),
    "wrong order": dict(messages=[{"role": "assistant", "content": "B"}, {"role": "assistant", "content": "C"}]),
}
TEXTS = [
    "", " ", "Hello world", "  leading and trailing  ", "a\nb\r\n\r\n c\t\td", "It's we'll I'D 12345 6,789.00", "naïve café — “quotes”…",
    "中文分词。测试，一下！", "日本語のテキスト", "🦀🚀👩‍👩‍👧‍👦 emoji", "e\u0301 combining \u1e9b\u0323", "def f(x):\n    return x ** 2  # comment\n",
    "a\x00b\x01", "\ufeffBOM \ufffd \uffff", "<|end|>", "x<s>y</s> <|end|> z", "ÀÉ\u00a0nbsp\u3000wide", "᚛᚛ᚉ᚜ ⁿ²½ ٣٤", "word " * 40,
]


def render(templates):
    out = []
    for path in sorted(templates.glob("*.jinja")):
        for name, case in CASES.items():
            if name in ("parts", "continued parts") and "gemma3" not in path.name:
                continue
            variables = {"add_generation_prompt": "continue_final_message" not in case, "bos_token": "<BOS>", "eos_token": "<EOS>", "date_string": "26 Jul 2024", **case}
            record = {"template": path.name, "case": name, "variables": variables}
            arguments = dict(variables)
            messages, tools = arguments.pop("messages"), arguments.pop("tools", None)
            try:
                rendered, _ = render_jinja_template([messages], tools=tools, chat_template=path.read_text(), **arguments)
                record["text"] = rendered[0]
            except Exception as e:
                record["error"] = str(e).split("! ")[0]
            out.append(record)
    return out


def llama3_pattern(digits):
    return (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits +
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def small_tokenizers():
    """Tokenizers of the shapes that the supported models have, with some hundred merges."""
    corpus = TEXTS * 3 + [pathlib.Path(__file__).read_text()]

    def byte_level(pre, normalizer=None):
        t = Tokenizer(models.BPE(ignore_merges=True))
        t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
        if normalizer:
            t.normalizer = normalizer
        t.train_from_iterator(corpus, trainers.BpeTrainer(
            vocab_size=600, show_progress=False, special_tokens=["<s>", "</s>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        return t

    def split(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def sentence_piece(modern):
        spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        trained = Tokenizer(models.BPE())
        trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")  # no merges over spaces
        specials = ["<unk>", "<s>", "</s>", "<|end|>"] + [f"<0x{b:02X}>" for b in range(256)]
        trained.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=800, show_progress=False, special_tokens=specials[:260]))
        model = json.loads(trained.to_str())["model"]
        t = Tokenizer(models.BPE(model["vocab"], [tuple(m) for m in model["merges"]], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        if modern:
            t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        else:
            t.normalizer = spaces
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in specials[:4]])
        return t

    made = {
        "gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "qwen2": byte_level(split(llama3_pattern("")), normalizers.NFC()),
        "llama3": byte_level(split(llama3_pattern("{1,3}"))),
        "tekken": byte_level(split(TEKKEN)),
        "llama2": sentence_piece(False),
        "mistral": sentence_piece(True),
    }
    for name, t in made.items():
        bos = t.token_to_id("<s>")
        if name != "qwen2":
            t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bos)])
    return made


def random_ids(t, n):
    rng = random.Random(1)
    return [[rng.randrange(t.get_vocab_size()) for _ in range(rng.randint(1, 12))] for _ in range(n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=pathlib.Path, default=HERE / "templates")
    args = parser.parse_args()
    with open(HERE / "chat.json", "w") as f:
        json.dump(render(args.templates), f, ensure_ascii=False, indent=1)
    for name, t in small_tokenizers().items():
        folder = HERE / "tokenizers" / name
        folder.mkdir(parents=True, exist_ok=True)
        t.save(str(folder / "tokenizer.json"), pretty=False)
        golden = {
            "encode": [{"text": text, "ids": t.encode(text).ids, "bare": t.encode(text, add_special_tokens=False).ids} for text in TEXTS],
            "decode": [{"ids": ids, "text": t.decode(ids, skip_special_tokens=False), "skipped": t.decode(ids)} for ids in random_ids(t, 30)],
        }
        (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
