"""Attacks on adapters (LoRA): folders that lie, and a server of two whose processes are struck."""

import array
import contextlib
import json
import pathlib
import random
import tempfile

from encoders import refused, strike, words
from files import DEMO
from server import Server

CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], "bias": "none", "task_type": "CAUSAL_LM"}


def pairs(seed=1, rank=4, layers=None):
    """The tensors of an adapter of the demo model: shape and elements by name."""
    model, rng = json.loads((DEMO / "config.json").read_text()), random.Random(seed)
    hidden, inner = model["hidden_size"], model["intermediate_size"]
    queries = model["num_attention_heads"] * model.get("head_dim", hidden // model["num_attention_heads"])
    made = {}
    for i in range(layers or model["num_hidden_layers"]):
        for name, outputs, inputs in ((f"{i}.self_attn.q_proj", queries, hidden), (f"{i}.mlp.down_proj", hidden, inner)):
            for part, shape in (("lora_A", [rank, inputs]), ("lora_B", [outputs, rank])):
                made[f"base_model.model.model.layers.{name}.{part}.weight"] = (shape, [rng.gauss(0, 0.1) for _ in range(shape[0] * shape[1])])
    return made


def safetensors(tensors):
    header, body = {}, b""
    for name, (shape, elements) in tensors.items():
        data = array.array("f", elements).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@contextlib.contextmanager
def adapter(config=None, weights=None, **changed):
    """What a server of the demo model with one adapter is called with; changed are keys of its adapter_config.json."""
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        text = config if config is not None else json.dumps({**CONFIG, **changed})
        pathlib.Path(directory, "adapter_config.json").write_text(text)
        pathlib.Path(directory, "adapter_model.safetensors").write_bytes(safetensors(pairs()) if weights is None else weights)
        yield [str(DEMO), "--lora-modules", f"a={directory}"]


def lying_adapters(binary):
    """Adapters whose adapter_config.json lies (ranks of 0, 10^6 and 2^62, scales that are no numbers, other methods than LoRA, parts that would have to be served beside, patterns, types), whose tensors have no partner, another shape, no place in the model, or elements that are no numbers, or whose file is cut. Wanted: an error that names the key or the tensor, within 20 s and 1 GiB"""
    sound = pairs()
    first = next(iter(sound))
    second = first.replace("lora_A", "lora_B")

    def altered(**by):
        return {"weights": safetensors({k: v for k, v in {**sound, **by}.items() if v})}

    whole = safetensors(sound)
    cases = {f"{key} {str(value)[:20]}": ({key: value}, rf"adapter_config\.json|{key}|lora_[AB]") for key, values in {
        "r": (0, -1, 3, 10**6, 1 << 62, "4", None), "lora_alpha": (10**300, "8"), "use_dora": (True,), "use_rslora": ("yes",),
        "modules_to_save": (["lm_head"],), "bias": ("all",), "peft_type": ("IA3", 7, ""), "target_modules": (7, [], ["k_proj"], ["x" * 10**6]),
        "rank_pattern": (7, {"q_proj": 10**6}, {"(a+)+$": 2}), "alpha_pattern": ({"q_proj": "x"},), "init_lora_weights": ("pissa",), "fan_in_fan_out": (True,), "layer_replication": ([[0, 1]],),
    }.items() for value in values}
    cases |= {
        "config is a list": ({"config": "[]"}, "adapter_config"), "config nested": ({"config": "[" * 10**6}, "adapter_config"), "config empty": ({"config": ""}, "adapter_config"),
        "no partner": (altered(**{second: None}), "lora_"), "another shape": (altered(**{first: ([4, 3], [0.1] * 12)}), "lora_A"),
        "a vector": (altered(**{first: ([12], [0.1] * 12)}), "lora_A"), "not a number": (altered(**{first: (sound[first][0], [float("nan")] * len(sound[first][1]))}), "lora_A"),
        "infinite": (altered(**{second: (sound[second][0], [float("inf")] * len(sound[second][1]))}), "lora_B"),
        "a layer more": ({"weights": safetensors(pairs(layers=99))}, "layers"), "of no model": (altered(**{"base_model.model.x.lora_A.weight": ([1, 1], [1.0])}), "x"),
        "cut": ({"weights": whole[:-100]}, "adapter_model"), "empty": ({"weights": b""}, "adapter_model"), "header of 2^62": ({"weights": (1 << 62).to_bytes(8, "little") + whole[8:]}, "adapter_model"),
    }
    return refused(binary, adapter, cases, ["rank_pattern {'(a+)+$': 2}"])  # a pattern that matches nothing, in linear time


def questions():
    """What Mixed asks: of the base and of two adapters, prompts that have a beginning in common."""
    shared = words(3, 300)
    asked = {}
    for model in ("prefillonly-demo", "a", "b"):
        asked[f"{model}, completion"] = ("/v1/completions", {"model": model, "prompt": shared + " one", "max_tokens": 1, "temperature": 0, "logprobs": 5})
        asked[f"{model}, echo"] = ("/v1/completions", {"model": model, "prompt": shared + " two", "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1})
        asked[f"{model}, vector"] = ("/v1/embeddings", {"model": model, "input": shared})
    return asked


@contextlib.contextmanager
def two_adapters(binary, *args):
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        listed = []
        for seed, name in enumerate("ab"):
            pathlib.Path(directory, name).mkdir()
            pathlib.Path(directory, name, "adapter_config.json").write_text(json.dumps(CONFIG))
            pathlib.Path(directory, name, "adapter_model.safetensors").write_bytes(safetensors(pairs(seed)))
            listed.append(f"{name}={directory}/{name}")
        with Server(binary, f"prefillonly-demo={DEMO}", "--lora-modules", ",".join(listed), *args) as server:
            yield server


def strike_adapters(binary):
    """SIGKILL, SEGV, ABRT, STOP to the executor under 16 clients that ask the base and two adapters: completions, echo with logprobs, vectors. Wanted: each answer equals the one before to the last digit, or is refused with a reason; all are served again, no job is left"""
    return strike(binary, "executor", two_adapters, questions())


ATTACKS = [lying_adapters, strike_adapters]
