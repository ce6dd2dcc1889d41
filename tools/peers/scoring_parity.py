"""Compares a server's vectors, scores, rankings and classes with transformers' and sentence-transformers' in float32, on small
checkpoints of random weights of each kind, over HTTP, and writes a table of how far they are apart.

Usage: scoring_parity.py BINARY OUT [NAME ...]. Needs torch, transformers and sentence-transformers. It fails beyond a cosine of
1e-3 or 0.03 in scores, beyond 0.03 in logits unless transformers' own bfloat16 is further, where the order of documents differs that
are more than 0.03 apart, or a bit between inputs alone and side by side.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer

import scoring_checkpoints as made
from scoring_checkpoints import LONG, TEXTS

transformers.utils.logging.disable_progress_bar()
binary, out, only = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
documents = [*TEXTS, "The CAT sat", LONG]
rows, wrong = [], []
checkpoints = {}  # name: what is compared of it
settings = {}  # name: further keys of the model's configuration


def post(path, **body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        return json.load(urllib.request.urlopen(request, timeout=120))
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{path} {str(body)[:200]}: {error.read().decode()}") from error


def row(name, kind, path, what, off, bar, order=None, span=None, half=None):
    """half is how far transformers' own bfloat16 is: where that is further than the bar, the bar is."""
    ok = off <= max(bar, half or 0) and order != "**other**"
    rows.append((kind, path, what, off, order, span, half))
    print(f"{name:28} {path:16} {what:12} {off:9.2g} {'' if half is None else f'transformers in bf16 {half:.2g}'} {'' if span is None else f'span {span:.2g}'} {'' if order is None else 'order ' + str(order)} {'' if ok else 'TOO FAR'}", flush=True)
    if not ok:
        wrong.append(f"{name} {path}")


def same_bits(name, together, alone):
    if together != alone:
        wrong.append(f"{name}: other bits alone than side by side")


def angle(a, b):
    """How far from 1 the cosines of vectors are, at the most."""
    return max(0, 1 - ((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


def compare_vectors(name, kind, path, want, ask, half=None):
    """ask(texts) gives the vectors of texts."""
    got = ask(documents)
    same_bits(name, got, [ask([d])[0] for d in documents])
    a, b = np.asarray(want, dtype=np.float64), np.asarray(got, dtype=np.float64)
    length = abs(np.linalg.norm(b, axis=1) / np.linalg.norm(a, axis=1) - 1).max()
    row(name, kind, path, "cosine", angle(a, b), 1e-3, half=half)
    if length > 1e-2:
        wrong.append(f"{name} {path}: lengths are {length:.2g} off")


def embeddings(name, **more):
    return lambda texts: [d["embedding"] for d in post("/v1/embeddings", model=name, input=texts, **more)["data"]]


def embedder(name, kind, folder, prompts=(None,)):
    def compare():
        reference = SentenceTransformer(str(folder), device="cpu").float()
        short = SentenceTransformer(str(folder), device="cpu").bfloat16()
        for prompt in prompts:
            want = [reference.encode([d], prompt_name=prompt)[0] for d in documents]
            about = f", prompt {prompt}" if prompt else ""
            named = {"prompt_name": prompt} if prompt else {}
            compare_vectors(name, kind + about, "/v1/embeddings", want, embeddings(name, truncate_prompt_tokens=-1, **named),
                            angle(np.array(want, dtype=np.float64), np.array([short.encode([d], prompt_name=prompt)[0] for d in documents], dtype=np.float64)))
            unit = reference.encode(documents, prompt_name=prompt, normalize_embeddings=True)
            compare_vectors(name, kind + about, "/embed", unit, lambda texts: post("/embed", model=name, inputs=texts, truncate=True, **named))
    checkpoints[name] = (folder, compare)


def pairs_of(tokenizer, query, documents):
    return [tokenizer(query, d, return_tensors="pt", truncation="longest_first", max_length=made.LENGTH) for d in documents]


def compare_ranks(name, kind, want, half, documents=documents, query=TEXTS[0], **more):
    """want are logits of which scores are sigmoids, half those in bfloat16."""
    want = np.asarray(want, dtype=np.float64)
    probability = 1 / (1 + np.exp(-want))
    ask = lambda list, **how: [d["score"] for d in post("/score", model=name, text_1=query, text_2=list, **{"truncate_prompt_tokens": -1, **more, **how})["data"]]
    raw = ask(documents, use_activation=False)
    same_bits(name, raw, [ask([d], use_activation=False)[0] for d in documents])
    best = [int(i) for i in np.argsort(-want, kind="stable")]
    far = np.subtract.outer(want, want) > 0.03  # of others, the order may be chance

    def ordered(order):
        """Whether the order is that of want: equal, equal but for those that are close together, or other."""
        place = np.argsort(order)
        return "equal" if order == best else "equal beyond 0.03" if not (far & np.greater.outer(place, place)).any() else "**other**"

    row(name, kind, "/score, raw", "logit", abs(want - raw).max(), 0.03, span=np.ptp(want), half=abs(want - half).max())
    row(name, kind, "/score", "score", abs(probability - ask(documents)).max(), 0.03)
    ranked = post("/rerank", model=name, query=query, documents=documents, **{"truncate_prompt_tokens": -1, **more})["results"]
    order = [r["index"] for r in ranked]
    scores = np.array([r["relevance_score"] for r in ranked])
    row(name, kind, "/rerank", "score", abs(probability[order] - scores).max(), 0.03, ordered(order))
    if not more:
        tei = post("/rerank", model=name, query=query, texts=documents, truncate=True)
        row(name, kind, "/rerank, TEI's", "score", max(abs(probability[r["index"]] - r["score"]) for r in tei), 0.03, ordered([r["index"] for r in tei]))


def ranker(name, kind, folder, answers=0):
    def compare():
        logits = []
        for dtype in (torch.float32, torch.bfloat16):
            reference = CrossEncoder(str(folder), device="cpu").to(dtype)
            reference.max_length = made.LENGTH - answers
            logits.append([float(reference.predict([(TEXTS[0], d)], activation_fn=torch.nn.Identity(), convert_to_tensor=True)[0]) for d in documents])
        compare_ranks(name, kind, *logits)
    checkpoints[name] = (folder, compare)


def published(folder, query, documents, instruction=made.INSTRUCTION, max_length=made.LENGTH - 1):  # the context holds the answer, too
    """The logits of yes against no, as the model card of Qwen3-Reranker computes them: in float32, and in bfloat16."""
    return [published_in(dtype, folder, query, documents, instruction, max_length) for dtype in (torch.float32, torch.bfloat16)]


def published_in(dtype, folder, query, documents, instruction, max_length):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    before, after = (tokenizer.encode(t, add_special_tokens=False) for t in (made.QWEN3_BEFORE, made.QWEN3_AFTER))
    yes, no = tokenizer.convert_tokens_to_ids("yes"), tokenizer.convert_tokens_to_ids("no")
    logits = []
    for d in documents:
        text = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {d}"
        ids = tokenizer([text], padding=False, truncation="longest_first", return_attention_mask=False, max_length=max_length - len(before) - len(after))["input_ids"][0]
        with torch.no_grad():
            last = model(torch.tensor([before + ids + after])).logits[0, -1].float()
        score = torch.nn.functional.log_softmax(torch.stack([last[no], last[yes]]), dim=0)
        logits.append(float(score[1] - score[0]))
    return logits


def qwen3_reranker(name, kind, folder):
    def compare():
        compare_ranks(name, kind, *published(folder, TEXTS[0], documents))
        compare_ranks(name, kind + ", an instruction, cut to 128 tokens", *published(folder, TEXTS[0], documents, "Find animals", 128), instruction="Find animals", truncate_prompt_tokens=128)
    checkpoints[name] = (folder, compare)


def logits_of(folder, texts, pair=None, dtype=torch.float32):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype).eval()
    with torch.no_grad():
        return np.array([model(**tokenizer(*([t] if pair is None else [t, pair]), return_tensors="pt", truncation=True)).logits[0].float().numpy() for t in texts])


def compare_classes(name, kind, logits, half, per_label=False):
    ask = lambda texts, **how: [d["probs"] for d in post("/classify", model=name, input=texts, truncate_prompt_tokens=-1, **how)["data"]]
    raw = ask(documents, use_activation=False)
    same_bits(name, raw, [ask([d], use_activation=False)[0] for d in documents])
    row(name, kind, "/classify, raw", "logit", abs(logits - raw).max(), 0.03, span=np.ptp(logits), half=abs(logits - half).max())
    tensor = torch.tensor(logits)
    want = (torch.sigmoid(tensor) if per_label else torch.softmax(tensor, -1)).numpy()
    row(name, kind, "/classify", "probability", abs(want - ask(documents)).max(), 0.03)
    pooled = [d["data"] for d in post("/pooling", model=name, input=documents, truncate_prompt_tokens=-1)["data"]]
    row(name, kind, "/pooling", "probability", abs(want - pooled).max(), 0.03)
    tei = post("/predict", model=name, inputs=[[d] for d in documents], truncate=True)
    labels = [f"LABEL_{i}" for i in range(logits.shape[1])]
    row(name, kind, "/predict", "probability", max(abs(want[i][labels.index(c["label"])] - c["score"]) for i, list in enumerate(tei) for c in list), 0.03)


def classifier(name, kind, folder, per_label=False):
    checkpoints[name] = (folder, lambda: compare_classes(name, kind, logits_of(folder, documents), logits_of(folder, documents, dtype=torch.bfloat16), per_label))


def wide(name, kind, folder):
    """Weights so wide that bfloat16 errs, over many texts."""
    def compare():
        words = np.array(" ".join(TEXTS).split())
        texts = [" ".join(np.random.default_rng(i).choice(words, 5 + i)) for i in range(60)]
        want, half = logits_of(folder, texts), logits_of(folder, texts, dtype=torch.bfloat16)
        got = np.array([d["probs"] for d in post("/classify", model=name, input=texts, use_activation=False)["data"]])
        row(name, kind + ", mean of 60 texts", "/classify, raw", "logit", abs(want - got).mean(), 0.03, half=abs(want - half).mean())
        row(name, kind, "/classify, raw", "logit", abs(want - got).max(), 0.03, span=np.ptp(want), half=abs(want - half).max())
    checkpoints[name] = (folder, compare)


def pairs_classifier(name, kind, folder):
    """Classes of pairs, whose second text's tokens are of another type."""
    def compare():
        want = torch.softmax(torch.tensor(logits_of(folder, TEXTS, TEXTS[0])), -1).numpy()
        got = post("/predict", model=name, inputs=[[t, TEXTS[0]] for t in TEXTS])
        row(name, kind, "/predict", "probability", max(abs(want[i][int(c["label"][6:])] - c["score"]) for i, list in enumerate(got) for c in list), 0.03)
    checkpoints[name] = (folder, compare)


def reward(name, kind, folder):
    """A reward model of Qwen's class: its head is not transformers', so it is applied here."""
    def compare():
        from safetensors.torch import load_file
        head = {k: v.float() for k, v in load_file(folder / "model.safetensors").items() if k.startswith("score.")}
        trunk = transformers.Qwen2Model.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        want = []
        for d in documents:
            with torch.no_grad():
                last = trunk(**tokenizer(d, return_tensors="pt", truncation=True)).last_hidden_state[0, -1]
            want.append(float(head["score.2.weight"] @ torch.relu(head["score.0.weight"] @ last + head["score.0.bias"]) + head["score.2.bias"]))
        for path, ask in {
            "/classify": lambda texts: [d["probs"][0] for d in post("/classify", model=name, input=texts, truncate_prompt_tokens=-1)["data"]],
            "/pooling": lambda texts: [d["data"][0] for d in post("/pooling", model=name, input=texts, truncate_prompt_tokens=-1)["data"]],
        }.items():
            got = ask(documents)
            same_bits(name, got, [ask([d])[0] for d in documents])
            row(name, kind, path, "reward", abs(np.array(want) - got).max(), 0.03, span=np.ptp(want))
    checkpoints[name] = (folder, compare)


def build():
    make, sentence = made.make, made.sentence
    f = lambda name: out / name
    for family, pool in (("bert", "mean_tokens"), ("bert", "cls_token"), ("modernbert", "mean_tokens"), ("modernbert", "cls_token"), ("xlm-roberta", "cls_token"), ("llama", "mean_tokens")):
        name = f"{family}-{pool.split('_')[0]}"
        embedder(name, f"embedder, {family}, {pool.split('_')[0]}", sentence(make(f(name), family, "Model", 1), pool))
    prompts = {"query": "Instruct: retrieve passages\nQuery:", "document": ""}
    embedder("Qwen3-Embedding", "Qwen3-Embedding: last token, its instruction", sentence(make(f("Qwen3-Embedding"), "qwen3", "Model", 2, tokenizer={"ends": True}), "lasttoken", prompts=prompts), (None, "query", "document"))

    embedder("bert-dense", "embedder, bert, cls, Dense with Tanh, Normalize (LaBSE's modules)", made.layered(f("bert-dense"), make(f("dense-source"), "bert", "Model", 10), "cls", [(128, torch.nn.Tanh())]))
    embedder("bert-two-dense", "embedder, bert, mean, two Dense without function (EmbeddingGemma's modules)", made.layered(
        f("bert-two-dense"), f("dense-source"), "mean", [(384, None), (96, None)], prompts={"query": "query : ", "document": "passages : "}, default_prompt_name="document"), (None, "query"))
    embedder("embeddinggemma", "EmbeddingGemma: mean, two Dense, its prompts", made.layered(
        f("embeddinggemma"), make(f("gemma-source"), "embeddinggemma", "Model", 13), "mean", [(512, None), (128, None)], prompts={"query": "task: search result | query: ", "document": "title: none | text: "}), (None, "query", "document"))
    embedder("bert-unprompted", "embedder, bert, mean without the prompt's tokens", sentence(
        make(f("bert-unprompted"), "bert", "Model", 11), "mean_tokens", prompts={"query": "retrieve passages : "}, include_prompt=False), (None, "query"))
    embedder("bert-lower", "embedder, bert, do_lower_case, max_seq_length 16", sentence(make(f("bert-lower"), "bert", "Model", 12), "max_tokens", normalize=False, max_seq_length=16, do_lower_case=True))

    source = qwen = make(f("Qwen3-Reranker-tiny"), "qwen3", "ForCausalLM", 3)
    qwen3_reranker("Qwen3-Reranker-tiny", "Qwen3-Reranker, by its name", qwen)
    plain = make(f("yes-or-no"), "qwen3", "ForCausalLM", 3)
    settings["yes-or-no"] = 'hf_overrides: {"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}'
    qwen3_reranker("yes-or-no", "Qwen3-Reranker, by hf-overrides", plain)
    converted = made.as_classifier(source, f("Qwen3-Reranker-tiny-seq-cls"))
    checkpoints["Qwen3-Reranker-tiny-seq-cls"] = (converted, lambda: compare_ranks("Qwen3-Reranker-tiny-seq-cls", "Qwen3-Reranker made a classifier, by its name", *published(source, TEXTS[0], documents, max_length=made.LENGTH)))
    ranker("st-reranker", "Qwen3-Reranker as sentence-transformers 6 saves it (LogitScore, prompt)", made.as_sentence_reranker(source, f("st-reranker")), answers=1)

    for family in ("bert", "xlm-roberta", "modernbert", "qwen2", "qwen3", "llama", "mistral"):
        more = {"classifier_pooling": "mean"} if family == "modernbert" else {}
        ranker(f"{family}-ranker", f"cross-encoder, {family}", make(f(f"{family}-ranker"), family, "ForSequenceClassification", 4, num_labels=1, **more))
        classifier(f"{family}-classes", f"classifier, {family}", make(f(f"{family}-classes"), family, "ForSequenceClassification", 5, num_labels=3))
    classifier("bert-labels", "classifier of several labels, bert", make(f("bert-labels"), "bert", "ForSequenceClassification", 6, num_labels=3, problem_type="multi_label_classification"), per_label=True)
    pairs_classifier("bert-pairs", "classes of pairs with token types, bert", make(f("bert-pairs"), "bert", "ForSequenceClassification", 7, num_labels=3))
    for times in (2, 3):
        name = f"bert-{times}-times"
        wide(name, f"classifier, bert, weights {times} times as wide", make(f(name), "bert", "ForSequenceClassification", 9, num_labels=3, wide=times))
    reward("qwen2-reward", "reward model, Qwen2ForRewardModel", made.reward(f("qwen2-reward"), 8))


def serve():
    listed = [n for n in checkpoints if not only or n in only]
    text = "".join(f"- {{path: {checkpoints[n][0].resolve()}, name: {n}, keep: always, {settings[n] if n in settings else ''}}}\n" for n in listed).replace(", }", "}")
    (out / "parity.yaml").write_text("models:\n" + text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFILLONLY_")}
    server = subprocess.Popen([binary, "serve", "--config", str(out / "parity.yaml"), "--port", str(port), "--no-access-log", "--log-level", "warn"], env=environment)
    try:
        for _ in range(300):
            time.sleep(0.3)
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").status == 200:
                    break
            except OSError:
                pass
        for name in listed:
            try:
                checkpoints[name][1]()
            except RuntimeError as error:
                wrong.append(f"{name}: {error}")
    finally:
        server.terminate()
        server.wait()


def figure(value):
    return "" if value is None else f"{value:.2g}"


def table():
    """The figures as Markdown: a row for each kind, with the largest difference of its vectors, logits or rewards, and that of scores
    and probabilities, over all paths that give them."""
    lines = ["| kind | vectors (1 - cosine), logits | the same, transformers in bf16 | scores, probabilities | logits lie within | order | paths |", "|---|---|---|---|---|---|---|"]
    for kind in dict.fromkeys(r[0] for r in rows):
        mine = [r for r in rows if r[0] == kind]
        most = lambda at, wanted: max((r[at] for r in mine if wanted(r) and r[at] is not None), default=None)
        first = ("cosine", "logit", "reward")
        paths = dict.fromkeys(r[1].split(",")[0] for r in mine)
        lines.append(f"| {kind} | {figure(most(3, lambda r: r[2] in first))} | {figure(most(6, lambda r: True))} | {figure(most(3, lambda r: r[2] not in first))} | "
                     f"{figure(most(5, lambda r: True))} | {max((r[4] for r in mine if r[4]), key=len, default='')} | {', '.join(f'`{p}`' for p in paths)} |")
    (out / "table.md").write_text("\n".join(lines) + "\n")


build()
serve()
table()
sys.exit("too far off:\n" + "\n".join(wrong) if wrong else 0)
