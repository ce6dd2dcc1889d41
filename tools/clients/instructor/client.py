"""Drives a server of a language model with the unmodified instructor package."""
import enum
from importlib.metadata import version
import sys

import instructor
import openai
import pydantic

from checks import check, report

url, key = sys.argv[1:3]
messages = [{"role": "user", "content": "Describe a car."}]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Car(pydantic.BaseModel):
    """A car."""
    colour: Colour
    fast: bool


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):  # JSON asks for any object, which the demo model never ends
    client = instructor.from_openai(openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0), mode=mode)
    car = client.chat.completions.create(model="lm", messages=messages, response_model=Car, max_tokens=60, temperature=0, max_retries=0)
    check(mode.value, isinstance(car, Car), car)

report(f"instructor {version('instructor')}")
