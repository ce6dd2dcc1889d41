"""Compares a server's embeddings, scores and rankings with sentence-transformers' on checkpoints of random weights.

Usage: scoring_parity.py BINARY SCORERS OUT, with SCORERS as tools/clients/lib/make_scorers.py writes them. Needs sentence-transformers.
"""
import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

binary, scorers, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
port = 8391
words = "the a cat sat mat on stock fell monday feline rested over bridge river quick brown fox [SEP] query : .".split()
texts = ["the cat sat on the mat .", "a feline rested .", "stock fell on monday .", "the quick brown fox [SEP] over the river", "bridge"]
torch.manual_seed(3)


def bert(name, kind, **changes):
    """A small BERT, as transformers saves one, with a tokenizer whose pairs have types."""
    folder = out / name
    vocabulary = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [w for w in words if w != "[SEP]"])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", model_max_length=128,
                            model_input_names=["input_ids", "token_type_ids", "attention_mask"]).save_pretrained(folder)
    config = BertConfig(vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128,
                        max_position_embeddings=128, initializer_range=0.1, **changes)
    kind(config).eval().save_pretrained(folder)
    return folder


checkpoints = {"embedder": scorers / "embedder", "ranker": scorers / "ranker", "bert-embedder": bert("bert-embedder", BertModel),
               "bert-ranker": bert("bert-ranker", BertForSequenceClassification, num_labels=1)}
out.joinpath("parity.yaml").write_text("models:\n" + "".join(f"- {{path: {p.resolve()}, name: {n}, keep: always}}\n" for n, p in checkpoints.items()))


def post(path, **body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        return json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as error:
        sys.exit(f"{path}: {error.read().decode()}")


server = subprocess.Popen([binary, "serve", "--config", str(out / "parity.yaml"), "--port", str(port), "--no-access-log", "--log-level", "warn"])
try:
    for _ in range(200):
        time.sleep(0.3)
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").status == 200:
                break
        except OSError:
            pass
    wrong = []
    for name in ("embedder", "bert-embedder"):
        reference = SentenceTransformer(str(checkpoints[name]), device="cpu").float()
        for prompt in ([None, "query"] if name == "embedder" else [None]):
            want = reference.encode(texts, prompt_name=prompt, normalize_embeddings=True)
            got = np.array([d["embedding"] for d in post("/v1/embeddings", model=name, input=texts, prompt_name=prompt)["data"]])
            off = float(1 - (want * got).sum(axis=1).min())
            print(f"{name}, prompt {prompt}: the cosine is at most {off:.2g} off")
            if off > 1e-3:
                wrong.append(name)
    for name in ("ranker", "bert-ranker"):
        reference = CrossEncoder(str(checkpoints[name]), device="cpu")
        reference.model.float()
        for query in (texts[0], texts[3]):
            want = reference.predict([(query, t) for t in texts])
            logits = reference.predict([(query, t) for t in texts], activation_fn=torch.nn.Identity())
            got = np.array([d["score"] for d in post("/score", model=name, text_1=query, text_2=texts)["data"]])
            raw = np.array([d["score"] for d in post("/score", model=name, text_1=query, text_2=texts, use_activation=False)["data"]])
            order = [r["index"] for r in post("/rerank", model=name, query=query, documents=texts)["results"]]
            best = list(np.argsort(-logits, kind="stable"))
            off, far = float(abs(want - got).max()), float(abs(logits - raw).max())
            print(f"{name}: scores are at most {off:.2g} off, logits {far:.2g}, order equal: {order == best}; logits span {np.ptp(logits):.2g}")
            if off > 0.03 or far > 0.03 or order != best:
                wrong.append(name)
finally:
    server.terminate()
    server.wait()
sys.exit(f"too far off: {wrong}" if wrong else 0)
