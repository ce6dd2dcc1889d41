"""Drives a server of a language model, an embedder and a ranker with the unmodified litellm package, as hosted_vllm."""
import enum
from importlib.metadata import version
import math
import sys

import litellm
import pydantic

from checks import check, refused, report

url, key = sys.argv[1:3]
litellm.suppress_debug_info = True
messages = [{"role": "user", "content": "Describe a car."}]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Car(pydantic.BaseModel):
    """A car."""
    colour: Colour
    fast: bool


hosted = dict(api_base=url + "/v1", api_key=key)

r = litellm.completion(model="hosted_vllm/lm", messages=messages, max_tokens=1, logprobs=True, top_logprobs=3, **hosted)
check("completion", len(r.choices[0].logprobs.content[0].top_logprobs) == 3 and r.usage.completion_tokens == 1, r)
r = litellm.completion(model="hosted_vllm/lm", messages=messages, response_format=Car, max_tokens=60, **hosted)
check("response_format", Car.model_validate_json(r.choices[0].message.content), r)
r = litellm.embedding(model="hosted_vllm/embedder", input=["one", "two"], **hosted)
check("embedding", [d["index"] for d in r.data] == [0, 1] and abs(math.hypot(*r.data[0]["embedding"]) - 1) < 1e-4, r)
r = litellm.rerank(model="hosted_vllm/ranker", query="a cat", documents=["a feline", "stocks fell", "a dog"], top_n=2, api_base=url, api_key=key)
scores = [x["relevance_score"] for x in r.results]
check("rerank", len(scores) == 2 and scores == sorted(scores, reverse=True) and all(0 <= s <= 1 for s in scores), r)
error = refused("unknown model", litellm.NotFoundError, lambda: litellm.embedding(model="hosted_vllm/nobody", input=["one"], **hosted))
check("unknown model", "nobody" in str(error), error)

report(f"litellm {version('litellm')}")
