"""Drives a server of a language model, an embedder and a ranker with unmodified packages that stand on OpenAI's: litellm,
langchain-openai and instructor."""
import enum
import math
import sys

import instructor
import litellm
import openai
import pydantic
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

url, key, model = sys.argv[1:4]
litellm.suppress_debug_info = True
done = []


def check(name, condition, got=None):
    if not condition:
        sys.exit(f"FAIL {name}: {got}")
    done.append(name)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Car(pydantic.BaseModel):
    """A car."""
    colour: Colour
    fast: bool


messages = [{"role": "user", "content": "Describe a car."}]
hosted = dict(api_base=url + "/v1", api_key=key)

r = litellm.completion(model="hosted_vllm/" + model, messages=messages, max_tokens=1, logprobs=True, top_logprobs=3, **hosted)
check("litellm completion", len(r.choices[0].logprobs.content[0].top_logprobs) == 3 and r.usage.completion_tokens == 1, r)
r = litellm.completion(model="hosted_vllm/" + model, messages=messages, response_format=Car, max_tokens=60, **hosted)
check("litellm response_format", Car.model_validate_json(r.choices[0].message.content), r)
r = litellm.embedding(model="hosted_vllm/embedder", input=["one", "two"], **hosted)
check("litellm embedding", [d["index"] for d in r.data] == [0, 1] and abs(math.hypot(*r.data[0]["embedding"]) - 1) < 1e-4, r)
r = litellm.rerank(model="hosted_vllm/ranker", query="a cat", documents=["a feline", "stocks fell", "a dog"], top_n=2, api_base=url, api_key=key)
scores = [x["relevance_score"] for x in r.results]
check("litellm rerank", len(scores) == 2 and scores == sorted(scores, reverse=True) and all(0 <= s <= 1 for s in scores), r)
try:
    litellm.embedding(model="hosted_vllm/nobody", input=["one"], **hosted)
    sys.exit("FAIL litellm: an unknown model was not refused")
except litellm.NotFoundError as error:
    check("litellm unknown model", "nobody" in str(error), error)

chat = ChatOpenAI(model=model, base_url=url + "/v1", api_key=key, temperature=0, max_tokens=60, max_retries=0)
check("langchain invoke", isinstance(chat.invoke("Hello").content, str))
for method in ("json_schema", "function_calling"):
    car = chat.with_structured_output(Car, method=method).invoke("Describe a car.")
    check("langchain " + method, isinstance(car, Car), car)
check("langchain json_mode", isinstance(chat.with_structured_output(None, method="json_mode").invoke("Describe a car as JSON."), dict))
e = OpenAIEmbeddings(model="embedder", base_url=url + "/v1", api_key=key, check_embedding_ctx_length=False)
vectors = e.embed_documents(["one", "two", "three"])
check("langchain embeddings", len(vectors) == 3 and vectors[0] != vectors[1] and e.embed_query("one") == vectors[0], len(vectors))

for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):  # JSON asks for any object, which the demo model never ends
    client = instructor.from_openai(openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0), mode=mode)
    car = client.chat.completions.create(model=model, messages=messages, response_model=Car, max_tokens=60, temperature=0, max_retries=0)
    check(f"instructor {mode.value}", isinstance(car, Car), car)

print(f"litellm, langchain-openai, instructor: {len(done)} checks passed: {', '.join(done)}")
