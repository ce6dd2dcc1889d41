"""MTEB's figures of a retrieval task, by a served model and by sentence-transformers. Usage: retrieval.py CHECKPOINT URL KEY

The task is made of Python's own manual: a query is the first line of a function's or class's docstring, and its document is the rest.
"""
import ast
import logging
import pathlib
import sys
import sysconfig

import datasets
import mteb
import numpy as np
import openai
import torch
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.abs_encoder import AbsEncoder
from sentence_transformers import SentenceTransformer

from checks import check, report

logging.disable(logging.WARNING)
path, url, key = sys.argv[1:]
PAIRS = 1000
POINTS = 0.1  # of 100, that a figure may be off


def docstrings():
    """Pairs of a first line and the rest, none of them twice."""
    seen = set()
    for file in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(errors="replace"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first, _, rest = (ast.get_docstring(node) or "").partition("\n")
                if len(first) > 20 and len(rest.strip()) > 80 and first not in seen:
                    seen.add(first)
                    yield first, rest.strip()


class Manual(AbsTaskRetrieval):
    metadata = TaskMetadata(
        name="PythonManual", description="Finds what a docstring says by its first line.", reference=None, type="Retrieval", category="t2t",
        modalities=["text"], eval_splits=["test"], eval_langs=["eng-Latn"], main_score="ndcg_at_10", dataset={"path": "local", "revision": "1"},
        date=("2026-01-01", "2026-01-01"), domains=["Programming"], task_subtypes=[], license=None,
        annotations_creators="derived", dialect=[], sample_creation="found", bibtex_citation="")

    def load_data(self, *args, **kwargs):
        pairs = [pair for pair, _ in zip(docstrings(), range(PAIRS))]
        self.dataset = {"default": {"test": {
            "corpus": datasets.Dataset.from_list([{"id": f"d{i}", "title": "", "text": rest} for i, (_, rest) in enumerate(pairs)]),
            "queries": datasets.Dataset.from_list([{"id": f"q{i}", "text": first} for i, (first, _) in enumerate(pairs)]),
            "relevant_docs": {f"q{i}": {f"d{i}": 1} for i in range(len(pairs))}, "top_ranked": None}}}
        self.data_loaded = True


class Served(AbsEncoder):
    """The vectors that a server gives through openai's package; of long texts, as sentence-transformers has them, those of their beginning."""

    def __init__(self):
        self.client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
        self.mteb_model_meta = mteb.models.ModelMeta.create_empty(overwrites={"name": "served/minilm", "revision": "1"})
        self.texts = 0

    def encode(self, inputs, **kwargs):
        vectors = []
        for batch in inputs:
            self.texts += len(batch["text"])
            answer = self.client.embeddings.create(model="minilm", input=batch["text"], extra_body={"truncate_prompt_tokens": -1})
            vectors += [d.embedding for d in answer.data]
        return np.array(vectors, dtype=np.float32)


def scores(model):
    result = mteb.evaluate(model, Manual(), cache=None, encode_kwargs={"batch_size": 64}, show_progress_bar=False)
    return result.task_results[0].scores["test"][0]


served = Served()
got = scores(served)
want = scores(SentenceTransformer(path, device="cpu", model_kwargs={"dtype": torch.float32}))
check("texts", served.texts == 2 * PAIRS, served.texts)
for name in ("ndcg_at_10", "map_at_10", "recall_at_1", "recall_at_10", "recall_at_100", "mrr_at_10"):
    check(name, abs(got[name] - want[name]) * 100 <= POINTS + 1e-9 and want[name] > 0.3, f"served {got[name]}, sentence-transformers {want[name]}")
    print(f"{name}: served {100 * got[name]:.2f}, sentence-transformers {100 * want[name]:.2f}")
report(f"mteb {mteb.__version__}")
