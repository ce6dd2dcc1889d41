"""lm-eval's tasks of three kinds by its local-completions model and by its hf model, in float32, on the same checkpoint.
Usage: backends.py CHECKPOINT URL WORK

The tasks are made of the licence's text: its sentences are continued, and told from others; its paragraphs are scored whole.
"""
import json
import math
import pathlib
import re
import sys

import lm_eval
from lm_eval.tasks import TaskManager

from checks import check, report

checkpoint, url, work = sys.argv[1:]
CLOSE = 0.03  # in a log-probability of a token
COUNT = 40


def write_tasks(folder):
    paragraphs = [" ".join(p.split()) for p in pathlib.Path("LICENSE").read_text().split("\n\n")]
    paragraphs = [p for p in paragraphs if len(p) > 200][:COUNT]
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.;:]) ", p) if len(s.split()) > 8][:COUNT]
    tails = [" ".join(s.split()[5:9]) for s in sentences]
    rows = [{"text": s, "start": " ".join(s.split()[:5]), "tail": tails[i], "gold": i % 4,
             "choices": [tails[(i + k - i % 4) % len(tails)] for k in range(4)]} for i, s in enumerate(sentences)]
    write = lambda name, rows: (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    write("rows.jsonl", rows)
    write("paragraphs.jsonl", [{"text": p} for p in paragraphs])
    common = {"dataset_path": "json", "test_split": "test", "num_fewshot": 0, "metadata": {"version": 1}}
    rows_of = lambda name: {"dataset_kwargs": {"data_files": {"test": str(folder / name)}}}
    for task in (
            {"task": "choices", "output_type": "multiple_choice", **rows_of("rows.jsonl"), "doc_to_text": "{{start}}", "doc_to_choice": "{{choices}}",
             "doc_to_target": "{{gold}}", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
            {"task": "continued", "output_type": "loglikelihood", **rows_of("rows.jsonl"), "doc_to_text": "{{start}}", "doc_to_target": "{{tail}}",
             "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}]},
            {"task": "whole", "output_type": "loglikelihood_rolling", **rows_of("paragraphs.jsonl"), "doc_to_text": "", "doc_to_target": "{{text}}",
             "metric_list": [{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}]}):
        (folder / f"{task['task']}.yaml").write_text(json.dumps({**common, **task}))  # JSON is YAML


def evaluate(backend, **arguments):
    return lm_eval.simple_evaluate(model=backend, model_args=arguments, tasks=list(TASKS), task_manager=TaskManager(include_path=work, include_defaults=False),
                                   batch_size=1, device="cpu", bootstrap_iters=0, log_samples=True)


def answers(found, task):
    """What the model said of each document: numbers, and whether a continuation is the greedy one."""
    return [[part for response in sample["filtered_resps"] for part in (response if isinstance(response, (list, tuple)) else [response])]
            for sample in sorted(found["samples"][task], key=lambda s: s["doc_id"])]


TASKS = {"choices": 4 * 16, "continued": 16, "whole": 400}  # with the most tokens that a number of each is a sum over
write_tasks(pathlib.Path(work))
served = evaluate("local-completions", model="lm", base_url=url, tokenizer_backend="huggingface", tokenizer=checkpoint, tokenized_requests=True, max_length=2048, num_concurrent=4)
own = evaluate("hf", pretrained=checkpoint, dtype="float32", max_length=2048, add_bos_token=False)  # as local-completions has it
for task, tokens in TASKS.items():
    pairs = [(a, b) for x, y in zip(answers(served, task), answers(own, task), strict=True) for a, b in zip(x, y, strict=True)]
    numbers = [(float(a), float(b)) for a, b in pairs if not isinstance(b, bool)]
    off = max(abs(a - b) for a, b in numbers)
    check(f"{task}: log-probabilities", len(numbers) >= 18 and off <= CLOSE * tokens and off <= 0.01 * max(abs(b) for _, b in numbers), off)
    greedy = [(a, b) for a, b in pairs if isinstance(b, bool)]
    check(f"{task}: greedy", all(a == b for a, b in greedy), greedy)
    print(f"{task}: {len(numbers)} log-probabilities of {min(b for _, b in numbers):.1f} to {max(b for _, b in numbers):.1f}, at most {off:.2g} apart")
    for name, want in own["results"][task].items():
        if isinstance(want, float) and "stderr" not in name:
            got = served["results"][task][name]
            a, b = (math.log(got), math.log(want)) if "perplexity" in name else (got, want)
            check(f"{task}: {name}", abs(a - b) <= (1e-9 if name.startswith("acc") else 1e-3 * abs(b)), f"served {got}, hf {want}")
            print(f"{task}, {name}: served {got:.5g}, hf {want:.5g}")
report(f"lm-eval {lm_eval.__version__}")
