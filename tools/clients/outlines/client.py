"""Drives a server of a language model with the unmodified outlines package: its OpenAI and its vLLM models."""
import asyncio
import datetime
import enum
from importlib.metadata import version
import json
import re
import sys
from typing import Literal, Union

import lark
import openai
import outlines
from outlines.exceptions import AuthenticationError, BadRequestError, NotFoundError
from outlines.inputs import Chat
from outlines.types import CFG, JsonSchema, Regex, ipv4
import pydantic

from checks import check, refused, report

base_url, key = sys.argv[1:3]
connection = dict(base_url=base_url, api_key=key, max_retries=0, timeout=600)
client = openai.OpenAI(**connection)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Car(pydantic.BaseModel):
    colour: Colour
    kind: Literal["fast", "slow"]
    doors: int = pydantic.Field(ge=1, le=5)
    plate: str = pydantic.Field(pattern=r"^[A-Z]{2}\d{3}$")
    owner: Union[str, None] = pydantic.Field(max_length=5)


schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"], "additionalProperties": False}
brackets = """
?start: sum
?sum: number ("+" number)? | "(" number ")"
number: DIGITS
DIGITS: /[0-9]{1,2}/
"""


def said(model, kind, **more):
    return model("What is it?", kind, **{"max_tokens": 100, "temperature": 1.5, **more})


# Of OpenAI's it asks for JSON alone.
model = outlines.from_openai(client, "lm")
check("openai text", isinstance(model("Once", max_tokens=4), str))
check("openai chat", isinstance(model(Chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]), max_tokens=4), str))
check("openai pydantic", Car.model_validate_json(said(model, Car)))
check("openai schema", json.loads(outlines.Generator(model, JsonSchema(schema))("A car", max_tokens=60))["b"] in "xy")
check("openai stream", Car.model_validate_json("".join(model.stream("A car", Car, max_tokens=100))))
check("openai n", [Car.model_validate_json(text) for text in said(model, Car, n=2)])

# Of vLLM's, for texts of any type: in its words schemas, regular expressions and grammars.
model = outlines.from_vllm(client, "lm")
foods = ("pizza", 'burger "XL"', "fish & chips", "näsi (goreng)")
for seed in range(3):
    for name, kind, right in (
            ("Literal", Literal[foods], lambda text: text in foods),
            ("Enum", Colour, Colour),
            ("bool", bool, lambda text: text in ("True", "False")),
            ("date", datetime.date, datetime.date.fromisoformat),
            ("time", datetime.time, datetime.time.fromisoformat),
            ("regex", Regex(r"[A-Z]{2}-\d{3}(ab)?\w"), lambda text: re.fullmatch(r"[A-Z]{2}-\d{3}(ab)?\w", text, re.ASCII)),
            ("ipv4", ipv4, lambda text: len([part for part in text.split(".") if int(part) < 256]) == 4),
            ("tuple", tuple[bool, Literal["a", "b"]], lambda text: re.fullmatch(r'\((True|False), "[ab]"\)', text)),
            ("pydantic", Car, Car.model_validate_json),
            ("schema", JsonSchema(schema), lambda text: json.loads(text)["b"] in "xy"),
            ("grammar", CFG(brackets), lark.Lark(brackets).parse)):
        text = said(model, kind, seed=seed)
        check("vllm " + name, right(text), text)
text = "".join(model.stream("What?", Literal[foods]))
check("vllm stream", text in foods, text)
text = said(model, CFG(outlines.grammars.arithmetic), max_tokens=30)
check("vllm arithmetic", text and re.fullmatch(r"[-0-9.eE+*/() \t]+", text), text)


async def together():
    asked = outlines.from_vllm(openai.AsyncOpenAI(**connection), "lm")
    return await asyncio.gather(*(asked("Which?", Literal["one", "two"], seed=i, temperature=2.0) for i in range(8)))

check("vllm async", set(asyncio.run(together())) <= {"one", "two"})

# Refusals come in outlines' own words.
error = refused("bad regex", BadRequestError, lambda: model("x", Regex("[a")))
check("bad regex", error.status_code == 400 and error.original_exception.param == "structured_outputs.regex" and error.request_id, error)
error = refused("bad grammar", BadRequestError, lambda: model("x", CFG("start: nothing")))
check("bad grammar", error.original_exception.param == "structured_outputs.grammar" and "nothing" in str(error), error)
refused("unknown model", NotFoundError, lambda: outlines.from_vllm(client, "nobody")("x"))
refused("wrong key", AuthenticationError, lambda: outlines.from_openai(openai.OpenAI(**{**connection, "api_key": "wrong"}), "lm")("x"))
report(f"outlines {version('outlines')}")
