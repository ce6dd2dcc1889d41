"""Drives a server of a language model with the unmodified dspy package: Literals that its adapters parse, over its own engine and over
litellm, and decisions that its client of System One asks for."""
import asyncio
from importlib.metadata import version
import sys
from typing import Literal

import dspy
from dspy.experimental import Choice, Noul, Score, TypeSafe
from dspy.lm15 import AccessPolicy, ModelSupport, OpenAIChatCompat, ProviderDefinition, register_provider
import pydantic

from checks import check, report

url, key = sys.argv[1:3]
connection = dict(api_base=url + "/v1", api_key=key, cache=False, max_tokens=300, num_retries=0)


class Mood(dspy.Signature):
    """Say what the text feels."""
    text: str = dspy.InputField()
    mood: Literal["happy", "sad", "neither of the two"] = dspy.OutputField()
    sure: bool = dspy.OutputField()


class Place(pydantic.BaseModel):
    kind: Literal["city", "village"]
    number: int = pydantic.Field(ge=1, le=9)
    ways: list[Literal["left", "right"]] = pydantic.Field(max_length=3)


class Where(dspy.Signature):
    text: str = dspy.InputField()
    near: Literal[1, 2] = dspy.OutputField()
    place: Place = dspy.OutputField()


def right(got):
    return got.mood in ("happy", "sad", "neither of the two") and isinstance(got.sure, bool)


# A server whose answers keep to schemas is declared as one. JSONAdapter asks for the signature's, and ChatAdapter goes over to it where
# an answer has not its form.
register_provider(ProviderDefinition.chat(AccessPolicy(provider="prefillonly", env_keys=("PREFILLONLY_KEY",), base_url=url + "/v1"), compat=OpenAIChatCompat()),
                  supports=ModelSupport(response_schema=True, function_calling=False, reasoning=False))
for engine in ("lm15", "litellm"):
    lm = dspy.LM("prefillonly/lm", engine=engine, temperature=1.5, **connection)
    check(f"{engine} schema", lm.supports_response_schema)
    for adapter in (dspy.ChatAdapter(), dspy.JSONAdapter()):
        with dspy.context(lm=lm, adapter=adapter):
            name = f"{engine} {type(adapter).__name__}"
            for text in ("I won.", "I lost.", ""):
                got = dspy.Predict(Mood)(text=text)
                check(name, right(got), got)
            got = dspy.Predict(Where)(text="Paris, on the left.")
            check(name + " nested", got.near in (1, 2) and set(got.place.ways) <= {"left", "right"} and got.place.kind in ("city", "village") and 1 <= got.place.number <= 9, got)
            got = asyncio.run(dspy.Predict(Mood).acall(text="I won."))
            check(name + " async", right(got), got)

# Through litellm's models of vLLM nothing is known of schemas, so a grammar in the request's body holds the answer to ChatAdapter's form.
form = r"\[\[ ## mood ## \]\]\n(happy|sad|neither of the two)\n\n\[\[ ## sure ## \]\]\n(True|False)\n\n\[\[ ## completed ## \]\]"
for model in ("hosted_vllm/lm", "openai/lm"):
    lm = dspy.LM(model, engine="litellm", temperature=1.0, extra_body={"structured_outputs": {"regex": form}}, **connection)
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        for text in ("I won.", "I lost."):
            got = dspy.Predict(Mood)(text=text)
            check(f"{model} ChatAdapter", right(got), got)
        check(f"{model} usage", lm.history[-1]["usage"]["completion_tokens"] > 10, lm.history[-1]["usage"])

# Decisions: one question each, read from the probabilities of one pass.
class Review(dspy.Signature):
    """Judge the review."""
    review: str = dspy.InputField()
    good: Noul = dspy.OutputField(desc="It praises the product.")
    about: Choice[("price", "What it costs"), ("quality", "How it is made")] = dspy.OutputField(desc="What it is about.")
    stars: Score["bad", "fair", "good"] = dspy.OutputField(desc="How good the product is.")


with dspy.context(lm=TypeSafe("lm", api_key=key, base_url=url, cache=False, timeout=600)):
    got = dspy.Predict(Review)(review="Cheap and well made.")
    check("noul", got.good.value in (True, False) and 0 <= got.good.probability <= 1, got)
    check("choice", got.about.value in ("price", "quality") and abs(sum(got.about.probabilities.values()) - 1) < 1e-4, got)
    check("score", 0 <= got.stars.value <= 2 and abs(got.stars.value - sum(i * p for i, p in got.stars.probabilities.items())) < 1e-4, got)
report(f"dspy {version('dspy')}, litellm {version('litellm')}, typesafe-sdk {version('typesafe-sdk')}")
