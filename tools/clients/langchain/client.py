"""Drives a server of a language model and an embedder with the unmodified langchain-openai package."""
import enum
from importlib.metadata import version
import sys

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
import pydantic

from checks import check, report

url, key = sys.argv[1:3]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Car(pydantic.BaseModel):
    """A car."""
    colour: Colour
    fast: bool


chat = ChatOpenAI(model="lm", base_url=url + "/v1", api_key=key, temperature=0, max_tokens=60, max_retries=0)
check("invoke", isinstance(chat.invoke("Hello").content, str))
for method in ("json_schema", "function_calling"):
    car = chat.with_structured_output(Car, method=method).invoke("Describe a car.")
    check(method, isinstance(car, Car), car)
check("json_mode", isinstance(chat.with_structured_output(None, method="json_mode").invoke("Describe a car as JSON."), dict))
e = OpenAIEmbeddings(model="embedder", base_url=url + "/v1", api_key=key, check_embedding_ctx_length=False)
vectors = e.embed_documents(["one", "two", "three"])
check("embeddings", len(vectors) == 3 and vectors[0] != vectors[1] and e.embed_query("one") == vectors[0], len(vectors))

report(f"langchain-openai {version('langchain-openai')}")
