"""Trains the demo model and writes engine/demo/files and engine/demo/testdata.

    python tools/demo/train.py

Needs torch, transformers, tokenizers and safetensors. One run takes about a quarter of an hour on
two cores; the same versions, seed and thread count give the same model.
"""

import argparse
import json
import math
import pathlib
import random
import time

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import data

BOS, EOS, PAD, SYSTEM, USER, ASSISTANT, END = SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
# The pattern of Llama 3: contractions, words, numbers of up to three digits, punctuation, space.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('the demo model knows the roles system, user and assistant') }}{% endif %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] | trim + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
SYSTEM_PROMPTS = ["You are a helpful assistant.", "Answer with Yes or No.", "You judge posts and credit requests."]
VOCABULARY = 3072  # at most
DEMO = pathlib.Path(__file__).parent.parent.parent / "engine/demo"


def dialogue(rng, task, chat, long):
    """One profile with several questions: pieces of (text, is_answer)."""
    person = data.TASKS[task](rng, long)
    pieces = [(BOS, False)]
    if chat and rng.random() < 0.3:
        pieces.append((f"{SYSTEM}\n{rng.choice(SYSTEM_PROMPTS)}{END}\n", False))
    for i in range(rng.randint(10, 18)):
        fact, question = person.question()
        # Only the first question is put in full: more answers to learn from in the same time.
        text = person.profile + "\n" + question + person.ask if i == 0 else question + data.TAIL
        answer = "Yes" if person.answer(fact) else "No"
        if chat:
            pieces += [(f"{USER}\n{text}{END}\n{ASSISTANT}\n", False), (answer, True), (END + "\n", False)]
        else:
            pieces += [(text, False), (" " + answer, True), ("\n\n", False)]
    return pieces


def train_tokenizer(rng):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    corpus = ["".join(text for text, _ in dialogue(rng, rng.choice(list(data.TASKS)), False, rng.random() < 0.2))
              for _ in range(3000)]
    corpus += [" " + w for words in data.WORDS.values() for w in words] * 50
    corpus += [w.capitalize() for words in data.WORDS.values() for w in words] * 50
    corpus += [f"{i}" for i in range(1000)] * 20 + ["Yes", "No", " Yes", " No", "Yes No"] * 1000
    t.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, t.token_to_id(BOS))])
    for answer in ["Yes", "No", " Yes", " No"]:
        assert len(t.encode(answer, add_special_tokens=False).ids) == 1, answer
    return t


def example(rng, tokenizer, long):
    """Token ids, and for each position whether it is an answer."""
    pieces = dialogue(rng, rng.choice(list(data.TASKS)), rng.random() < 0.4, long)
    ids, answers = [], []
    for text, is_answer in pieces:
        piece = tokenizer.encode(text, add_special_tokens=False).ids
        ids += piece
        answers += [is_answer] * len(piece)
    return ids, answers


def batches(rng, tokenizer, tokens):
    """Batches of about so many tokens each, of examples of similar length, for ever."""
    while True:
        long = rng.random() < 0.1
        pool = sorted((example(rng, tokenizer, long) for _ in range(24 if long else 128)), key=lambda e: len(e[0]))
        made = []
        while pool:
            width, batch = len(pool[-1][0]), []
            while pool and (len(batch) + 1) * width <= max(tokens, width):
                batch.append(pool.pop())
            ids = torch.zeros(len(batch), width, dtype=torch.long)
            answers = torch.zeros(len(batch), width, dtype=torch.bool)
            real = torch.zeros(len(batch), width, dtype=torch.bool)
            for row, (i, a) in enumerate(batch):
                ids[row, :len(i)], answers[row, :len(a)], real[row, :len(i)] = torch.tensor(i), torch.tensor(a), True
            made.append((ids, answers, real))
        rng.shuffle(made)
        yield from made


def new_model(tokenizer):
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=256, intermediate_size=512, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, head_dim=64, max_position_embeddings=16384,
        rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, initializer_range=0.04,
        bos_token_id=tokenizer.token_to_id(BOS), eos_token_id=tokenizer.token_to_id(EOS),
        pad_token_id=tokenizer.token_to_id(PAD))
    model = LlamaForCausalLM(config)
    # Attention starts out looking for tokens like the own one (Trockman and Kolter, "Mimetic
    # Initialization of Self-Attention Layers", 2023): both tasks begin by finding a match.
    with torch.no_grad():
        for layer in model.model.layers:
            q, k = layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight
            for head in range(config.num_attention_heads):
                kv = head // 2
                q[head * 64:(head + 1) * 64] += k[kv * 64:(kv + 1) * 64]
    return model


def loss_of(model, batch, language_weight):
    ids, answers, real = batch
    hidden = model.model(ids).last_hidden_state[:, :-1]
    targets = ids[:, 1:]
    on_answers = answers[:, 1:]
    logits = model.lm_head(hidden[on_answers]).float()
    loss = torch.nn.functional.cross_entropy(logits, targets[on_answers])
    others = real[:, 1:] & ~on_answers & (torch.rand(targets.shape) < 0.2)
    text = torch.nn.functional.cross_entropy(model.lm_head(hidden[others]).float(), targets[others])
    hits = (logits.argmax(-1) == targets[on_answers]).float().mean()
    return loss + language_weight * text, loss.item(), text.item(), hits.item()


def train(model, tokenizer, examples, args):
    rng = random.Random(args.seed + 1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.05)
    start, mean = time.time(), None
    for step, batch in zip(range(args.steps), batches(rng, tokenizer, args.batch)):
        for group in optimiser.param_groups:
            group["lr"] = args.rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))
        with torch.autocast("cpu", torch.bfloat16):
            loss, *figures = loss_of(model, batch, 0.2)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        mean = figures if mean is None else [0.98 * m + 0.02 * f for m, f in zip(mean, figures)]
        if step % 500 == 499:
            print(report(model, tokenizer, examples), flush=True)
        if step % 50 == 49:
            print("step %d, %.0f s: answer loss %.3f, text loss %.3f, answers right %.3f" % (
                step + 1, time.time() - start, *mean), flush=True)


def held_out(seed, pairs):
    """Pairs of examples with one question and two profiles, of which one is answered Yes."""
    rng, examples = random.Random(seed), []
    for task, person in data.TASKS.items():
        made = 0
        while made < pairs:
            first, second = person(rng), person(rng)
            fact, question = first.question()
            if {first.answer(fact), second.answer(fact)} == {True, False}:
                made += 1
                examples += [{"task": task, "prompt": p.profile + "\n" + question + p.ask, "yes": p.answer(fact)}
                             for p in (first, second)]
    return examples


@torch.no_grad()
def report(model, tokenizer, examples):
    """The area under the ROC curve of P(Yes) against P(No), by task, for plain prompts and chats."""
    figures = []
    for chat in (False, True):
        yes, no = (tokenizer.token_to_id(t) for t in (("Yes", "No") if chat else ("\u0120Yes", "\u0120No")))
        for task in data.TASKS:
            scores = {True: [], False: []}
            for e in examples:
                if e["task"] == task:
                    text = f"{USER}\n{e['prompt']}{END}\n{ASSISTANT}\n" if chat else e["prompt"]
                    logits = model(torch.tensor([tokenizer.encode(text).ids])).logits[0, -1]
                    scores[e["yes"]].append((logits[yes] - logits[no]).item())
            wins = sum((y > n) + (y == n) / 2 for y in scores[True] for n in scores[False])
            figures.append("%s %s %.3f" % (task, "chat" if chat else "plain", wins / len(scores[True]) / len(scores[False])))
    return "AUC " + ", ".join(figures)


def save(model, tokenizer, out):
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    write = lambda name, value: (out / name).write_text(json.dumps(value, indent=2) + "\n")
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": model.config.max_position_embeddings,
        "bos_token": BOS, "eos_token": END, "pad_token": PAD, "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE})
    write("generation_config.json", {
        "bos_token_id": tokenizer.token_to_id(BOS), "pad_token_id": tokenizer.token_to_id(PAD),
        "eos_token_id": [tokenizer.token_to_id(EOS), tokenizer.token_to_id(END)], "do_sample": False})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=DEMO / "files")
    parser.add_argument("--held-out", type=pathlib.Path, default=DEMO / "testdata/held_out.jsonl")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=3072, help="tokens of one step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    tokenizer = train_tokenizer(random.Random(args.seed))
    model = new_model(tokenizer)
    print("%.2f M parameters, %d tokens in the vocabulary" % (
        sum(p.numel() for p in model.parameters()) / 1e6, tokenizer.get_vocab_size()), flush=True)
    examples = held_out(args.seed + 2, 80)
    train(model, tokenizer, examples, args)
    save(model, tokenizer, args.out)
    args.held_out.parent.mkdir(parents=True, exist_ok=True)
    args.held_out.write_text("".join(json.dumps(e) + "\n" for e in examples))


if __name__ == "__main__":
    main()
