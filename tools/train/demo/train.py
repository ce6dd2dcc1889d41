"""Trains the demo model and writes engine/demo/files and engine/demo/testdata.

    python tools/train/demo/train.py

Needs torch, transformers, tokenizers and safetensors. One run takes about a quarter of an hour on
two cores. Seeded; the order of sums in other versions or thread counts changes the last digits.
"""

import argparse
import copy
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
DEMO = pathlib.Path(__file__).parents[3] / "engine/demo"


def conversation(rng, task, chat, long, unseen):
    """One profile with several questions about it, each to be answered by itself: the text of the
    profile, and (question, answer) of each. People whose interests or finances are in unseen are
    left out."""
    person = data.TASKS[task](rng, long)
    while person.key in unseen:
        person = data.TASKS[task](rng, long)
    head, tail = BOS, ""
    if chat:
        if rng.random() < 0.3:
            head += f"{SYSTEM}\n{rng.choice(SYSTEM_PROMPTS)}{END}\n"
        head, tail = head + f"{USER}\n", f"{END}\n{ASSISTANT}\n"
    questions = []
    for _ in range(rng.randint(10, 18)):
        fact, question = person.question()
        yes = person.answer(fact)
        answer = ("" if chat else " ") + ("Yes" if yes else "No") + (END if chat else "")
        questions.append((question + person.ask + tail, answer))
    return head + person.profile + "\n", questions


def train_tokenizer(rng):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    corpus = []
    for _ in range(3000):
        head, questions = conversation(rng, rng.choice(list(data.TASKS)), False, rng.random() < 0.2, ())
        corpus += [head] + [q + a for q, a in questions]
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


class Example:
    """Token ids of a profile and its questions. Each question sees the profile and itself alone, at
    the positions it would have if it were the only one; so every profile is used many times over."""

    def __init__(self, rng, tokenizer, long, unseen):
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
        head, questions = conversation(rng, rng.choice(list(data.TASKS)), rng.random() < 0.4, long, unseen)
        self.ids = encode(head)
        prefix = len(self.ids)
        self.positions, self.part = list(range(prefix)), [0] * prefix  # part 0 is the profile
        self.answers = [False] * prefix
        self.yes = [-1] * prefix  # 1 and 0 on the tokens of a question
        for number, (question, answer) in enumerate(questions, 1):
            q, a = encode(question), encode(answer)
            self.ids += q + a
            self.positions += range(prefix, prefix + len(q) + len(a))
            self.part += [number] * (len(q) + len(a))
            self.answers += [False] * len(q) + [True] + [False] * (len(a) - 1)
            self.yes += [int("Yes" in answer)] * len(q) + [-1] * len(a)


def collate(examples):
    """A batch as tensors, filled up on the right."""
    width = max(len(e.ids) for e in examples)
    fill = lambda name, value: torch.tensor([getattr(e, name) + [value] * (width - len(e.ids)) for e in examples])
    part = fill("part", -1)
    seen = (part[:, None, :] == 0) | (part[:, None, :] == part[:, :, None])
    mask = seen & torch.ones(width, width, dtype=torch.bool).tril()
    return {"ids": fill("ids", 0), "positions": fill("positions", 0), "part": part, "mask": mask[:, None],
            "answers": fill("answers", False), "yes": fill("yes", -1)}


def batches(rng, tokenizer, tokens, unseen):
    """Batches of about so many tokens each, of examples of similar length, for ever."""
    while True:
        long = rng.random() < 0.1
        pool = sorted((Example(rng, tokenizer, long, unseen) for _ in range(24 if long else 96)), key=lambda e: len(e.ids))
        made = []
        while pool:
            batch = [pool.pop()]
            while pool and (len(batch) + 1) * len(batch[0].ids) <= tokens:
                batch.append(pool.pop())
            made.append(collate(batch))
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
    with torch.no_grad():
        start_from_matches(model, tokenizer)
    return model


def start_from_matches(model, tokenizer):
    """Both tasks begin by finding a word of the question in the profile, or by comparing numbers.
    Left to random weights, that takes most of the training; so the model starts half-way there."""
    config, table = model.config, model.model.embed_tokens.weight
    # Attention looks for tokens like the own one, at the frequencies that turn little over a prompt
    # (Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", 2023).
    for layer in model.model.layers:
        q, k = layer.self_attn.q_proj.weight.view(-1, 64, 256), layer.self_attn.k_proj.weight.view(-1, 64, 256)
        for head in range(config.num_attention_heads):
            slow = k[head // 2].clone()
            slow[:10], slow[32:42] = 0, 0
            q[head] += slow
        q *= 1.5
        k *= 1.5
    # A word and its capitalised form differ in one direction, which all words share.
    vocabulary = tokenizer.get_vocab()
    capital, number = torch.randn(2, 256) * 0.03
    for word, index in vocabulary.items():
        capitalised = vocabulary.get("\u0120" + word[1:].capitalize())
        if word[:1] == "\u0120" and word[1:].islower() and capitalised is not None:
            table[capitalised] = table[index] + capital
        if word.isdecimal():
            table[index] = 0.5 * table[index] + min(int(word) / 50 - 1, 2) * number


def loss_of(model, judge, batch):
    """The sum of three losses, and what to report: the answers; the text, which teaches what goes
    together; and what judge, a linear map, reads of the answer from the question's tokens, which
    teaches early layers what the answer rests on. judge is dropped after training."""
    hidden = model.model(batch["ids"], attention_mask=batch["mask"], position_ids=batch["positions"]).last_hidden_state
    # The token before the first of a question is the profile's last one: nothing is learned there.
    same = (batch["part"][:, 1:] == batch["part"][:, :-1])
    targets, before = batch["ids"][:, 1:], hidden[:, :-1]
    on_answers = batch["answers"][:, 1:]
    entropy = torch.nn.functional.cross_entropy
    logits = model.lm_head(before[on_answers]).float()
    answers = entropy(logits, targets[on_answers])
    others = same & (batch["part"][:, 1:] >= 0) & ~on_answers & (torch.rand(targets.shape) < 0.15)
    text = entropy(model.lm_head(before[others]).float(), targets[others])
    judged = batch["yes"] >= 0
    early = torch.nn.functional.binary_cross_entropy_with_logits(
        judge(hidden[judged]).float().squeeze(-1), batch["yes"][judged].float())
    hits = (logits.argmax(-1) == targets[on_answers]).float().mean()
    return answers + 0.2 * text + 0.5 * early, answers.item(), text.item(), early.item(), hits.item()


def train(model, tokenizer, examples, unseen, args):
    rng = random.Random(args.seed + 1)
    judge = torch.nn.Linear(model.config.hidden_size, 1)
    optimiser = torch.optim.AdamW([*model.parameters(), *judge.parameters()], lr=args.rate, betas=(0.9, 0.95), weight_decay=0.05)
    start, mean = time.time(), None
    for step, batch in zip(range(args.steps), batches(rng, tokenizer, args.batch, unseen)):
        for group in optimiser.param_groups:
            group["lr"] = args.rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))
        with torch.autocast("cpu", torch.bfloat16):
            loss, *figures = loss_of(model, judge, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        mean = figures if mean is None else [0.95 * m + 0.05 * f for m, f in zip(mean, figures)]
        if step % 150 == 149:
            print(report(model, tokenizer, examples), flush=True)
            save(model, tokenizer, args.out)
        if step % 25 == 24:
            print("step %d, %.0f s: answer loss %.3f, text loss %.3f, early loss %.3f, answers right %.3f" % (
                step + 1, time.time() - start, *mean), flush=True)


def held_out(seed, pairs):
    """Pairs of examples with one question and two profiles, of which one is answered Yes; and the
    keys of all these people."""
    rng, examples, unseen = random.Random(seed), [], set()
    for task, person in data.TASKS.items():
        made = 0
        while made < pairs:
            first, second = person(rng), person(rng)
            fact, question = first.question()
            if {first.answer(fact), second.answer(fact)} == {True, False}:
                made += 1
                unseen |= {first.key, second.key}
                examples += [{"task": task, "prompt": p.profile + "\n" + question + p.ask, "yes": p.answer(fact)}
                             for p in (first, second)]
    return examples, unseen


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
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
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
    parser.add_argument("--steps", type=int, default=1100)
    parser.add_argument("--batch", type=int, default=2048, help="tokens of one step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    tokenizer = train_tokenizer(random.Random(args.seed))
    model = new_model(tokenizer)
    print("%.2f M parameters, %d tokens in the vocabulary" % (
        sum(p.numel() for p in model.parameters()) / 1e6, tokenizer.get_vocab_size()), flush=True)
    examples, unseen = held_out(args.seed + 2, 80)
    train(model, tokenizer, examples, unseen, args)
    save(model, tokenizer, args.out)
    args.held_out.parent.mkdir(parents=True, exist_ok=True)
    args.held_out.write_text("".join(json.dumps(e) + "\n" for e in examples))


if __name__ == "__main__":
    main()
