"""Drives a prefillonly server with the unmodified openai package: answers parsed into pydantic models, and tools."""
import json
import sys
from typing import Literal

import jsonschema
import openai
import pydantic

from checks import check, refused, report

base_url, key = sys.argv[1:3]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=600)
model = client.models.list().data[0].id
messages = [{"role": "user", "content": "Describe a person."}]


class Address(pydantic.BaseModel):
    street: Literal["Main Street", "Side Street"]
    number: int = pydantic.Field(ge=1, le=99)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(pattern="^[A-Z][a-z]{2,8}$")
    age: int = pydantic.Field(ge=0, le=120)
    kind: Literal["adult", "child"]
    addresses: list[Address] = pydantic.Field(max_length=2)


for seed in range(5):
    r = client.chat.completions.parse(model=model, messages=messages, response_format=Person, seed=seed, temperature=1.5, max_tokens=300)
    person = r.choices[0].message.parsed
    check(f"parse {seed}", isinstance(person, Person) and r.choices[0].finish_reason == "stop", r)

with client.chat.completions.stream(model=model, messages=messages, response_format=Person, seed=1, max_tokens=300) as stream:
    check("stream.parse", isinstance(stream.get_final_completion().choices[0].message.parsed, Person), None)

r = client.chat.completions.create(model=model, messages=messages, max_tokens=40, temperature=0, response_format={"type": "json_object"})
check("json_object", r.choices[0].finish_reason == "length" or isinstance(json.loads(r.choices[0].message.content), dict), r)


class Move(pydantic.BaseModel):
    """Moves a piece."""
    to: Literal["left", "right"]
    steps: int = pydantic.Field(ge=1, le=9)


tools = [openai.pydantic_function_tool(Move), openai.pydantic_function_tool(Address)]
for choice in ["required", {"type": "function", "function": {"name": "Move"}}]:
    r = client.chat.completions.parse(model=model, messages=messages, tools=tools, tool_choice=choice, seed=3, max_tokens=100)
    call = r.choices[0].message.tool_calls[0]
    check(f"tool_choice {choice}", isinstance(call.function.parsed_arguments, (Move, Address)) and r.choices[0].finish_reason == "tool_calls", r)
    with client.chat.completions.stream(model=model, messages=messages, tools=tools, tool_choice=choice, seed=3, max_tokens=100) as stream:
        again = stream.get_final_completion().choices[0].message.tool_calls[0]
    check(f"streamed {choice}", (again.function.name, again.function.arguments) == (call.function.name, call.function.arguments), (again, call))

schema = {"type": "array", "items": {"type": ["integer", "null"], "minimum": -3, "maximum": 3}, "minItems": 1, "maxItems": 4}
for seed in range(5):
    r = client.completions.create(model=model, prompt="Numbers:", max_tokens=60, seed=seed, temperature=2, extra_body={"structured_outputs": {"json": schema}})
    check(f"jsonschema {seed}", jsonschema.Draft202012Validator(schema).is_valid(json.loads(r.choices[0].text)), r)

r = client.completions.create(model=model, prompt="Will the user like it? ", max_tokens=5, temperature=0, logprobs=2, extra_body={"guided_choice": ["Yes", "No"]})
check("guided_choice", r.choices[0].text in ("Yes", "No") and len(r.choices[0].logprobs.top_logprobs[0]) == 2, r)

error = refused("bad schema", openai.BadRequestError, lambda: client.completions.create(model=model, prompt="x", extra_body={"guided_json": {"type": "objekt"}}))
check("bad schema", error.param == "guided_json" and "objekt" in error.message, error)

report(f"openai {openai.__version__}, structured answers")
