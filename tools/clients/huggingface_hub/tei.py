"""Drives servers of one embedder and of one classifier with huggingface_hub's unmodified InferenceClient, as text-embeddings-inference is."""
import math
import sys

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError

from checks import check, report

kind, url, key = sys.argv[1:4]


def client(path):
    return huggingface_hub.InferenceClient(model=url + path, token=key, timeout=600)


def about():
    """What /info tells."""
    return huggingface_hub.InferenceClient(model=url, provider="hf-inference", token=key, timeout=600).get_endpoint_info()


def refused(call):
    """The error body that the call's refusal carries."""
    try:
        call()
    except HfHubHTTPError as error:
        return error.response.status_code, error.response.json()
    sys.exit("FAIL: not refused")


texts = ["The cat sat on the mat.", "A feline rested.", "Stocks fell on Monday."]
if kind == "embedder":
    vector = client("/embed").feature_extraction(texts[0], normalize=True)
    check("embed", vector.shape == (1, 256) and abs(math.hypot(*vector[0]) - 1) < 1e-5, vector.shape)
    prompted = client("/embed").feature_extraction(texts[0], prompt_name="query")
    check("prompt_name", abs(prompted - vector).max() > 1e-4, prompted)
    long = "word " * 20000
    status, body = refused(lambda: client("/embed").feature_extraction(long))
    check("too long", status == 422 and body["error_type"] == "Validation", body)
    cut = client("/embed").feature_extraction(long, truncate=True, truncation_direction="Right")
    check("truncate", cut.shape == (1, 256), cut.shape)
    similar = client("/similarity").sentence_similarity(texts[0], other_sentences=[texts[0], texts[2]])
    told = about()
    check("info", told["model_type"] == {"embedding": {"pooling": "mean"}} and told["max_client_batch_size"] > 1, told)
    check("similarity", abs(similar[0] - 1) < 1e-6 and similar[1] < similar[0], similar)
else:
    likeliest = client("/predict").text_classification(texts[0])  # which is the first of the list
    check("predict", likeliest.label in ("no", "maybe", "yes") and 1 / 3 < likeliest.score < 1, likeliest)
    check("info", list(about()["model_type"]["classifier"]["id2label"].values()) == ["no", "maybe", "yes"])
    status, body = refused(lambda: client("/embed").feature_extraction(texts[0]))
    check("not for it", status == 422 and "classifier of 3 classes" in body["error"], body)
report(f"huggingface_hub {huggingface_hub.__version__}, {kind}")
