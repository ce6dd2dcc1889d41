"""Attacks by what the server reads at its start: checkpoints, parameters, endpoints."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from server import Server, free_port

DEMO = pathlib.Path(__file__).parents[2] / "engine/demo/files"


@contextlib.contextmanager
def checkpoint(**changed):
    """A copy of the demo model with files of other contents, by name with _ for the dot."""
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        for f in DEMO.iterdir():
            shutil.copy(f, directory)
        for name, content in changed.items():
            pathlib.Path(directory, name.replace("__", ".")).write_text(content)
        yield directory


def starts(binary, *args, seconds=20, env=None):
    """(exit code or None, seconds, output, peak memory) of a server that should refuse to start."""
    start, most = time.monotonic(), 0
    with Server(binary, *args, env=env) as server:
        while server.process.poll() is None and time.monotonic() - start < seconds:
            most = max(most, server.peak_memory())
            time.sleep(0.02)
        code = server.process.poll()
        server.log.seek(0)
        return code, time.monotonic() - start, server.log.read(), most


TEMPLATES = {
    "batch": "{{ [1,2]|batch(9000000000,0)|list }}",
    "slice": "{{ [1,2]|slice(9000000000,0)|list }}",
    "product": "{{ 'x' * 9000000000 }}",
    "doubling": "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "lists": "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "range": "{{ range(9000000000)|list }}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "center": "{{ 'x'.center(9000000000) }}{{ 'x'|center(9000000000) }}",
    "indent": "{{ ('x\\n' * 100000)|indent(1000000000) }}",
    "format": "{{ '%9000000000d'|format(1) }}",
    "nested": "(" * 100_000 + "1" + ")" * 100_000,
    "nested ifs": "{% if 1 %}" * 100_000 + "{% endif %}" * 100_000,
    "nested list": "{{ " + "[" * 100_000 + "]" * 100_000 + " }}",
    "tojson": "{% for i in range(20000) %}{{ messages|tojson(indent=100000000) }}{% endfor %}",
    "tojson of lists": "{% set ns = namespace(s=[1]) %}{% for i in range(200) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}",
    "recursion": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "replace": "{{ ('x' * 100000)|replace('x', 'y' * 100000) }}",
    "join": "{{ range(99999)|join('x' * 99999) }}",
}


def templates(binary):
    """Chat templates that allocate without end, nest 10^5 deep or never end, one server each. Wanted: an error in 10 s at most, no process over 1 GiB, completions are served on"""
    fell, most, slowest = [], 0, 0
    for name, template in TEMPLATES.items():
        config = json.dumps({**json.loads((DEMO / "tokenizer_config.json").read_text()), "chat_template": template if "{" in template else "{{ " + template + " }}"})
        with checkpoint(tokenizer_config__json=config) as directory, Server(binary, directory) as server:
            if not server.wait_ready(20):
                code = server.process.poll()
                if code is None or code < 0:
                    fell.append(f"{name}: not ready, exit code {code}")
                continue  # refused at its start
            start = time.monotonic()
            try:
                status, raw = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}, timeout=15)
            except OSError as error:
                status, raw = 0, str(error).encode()
            slowest = max(slowest, time.monotonic() - start)
            memory = server.peak_memory()
            most = max(most, memory)
            with contextlib.suppress(OSError):
                alive = server.complete("still there", timeout=10)[0]
            if not 400 <= status < 600 or alive != 200 or memory > 1 << 30:
                fell.append(f"{name}: chat {status} {raw[:60]!r}, then completion {alive}, {memory >> 20} MiB")
    return not fell and slowest < 10, "; ".join(fell) or f"{len(TEMPLATES)} templates, the slowest answered after {slowest:.1f} s, peak {most >> 20} MiB"


def tokenizers(binary):
    """tokenizer.json with ids near 2^32 and of 10^8, cut in the middle, nested 10^5 deep. Wanted: an error that names the file, or an id of an added token that is not used (as in Hugging Face's own library), within 1 GiB"""
    whole = (DEMO / "tokenizer.json").read_text()
    decoded = json.loads(whole)

    def with_id(number):
        changed = json.loads(whole)
        changed["model"]["vocab"]["hostile"] = number
        return json.dumps(changed)

    added = {**decoded, "added_tokens": [*decoded["added_tokens"], {**decoded["added_tokens"][0], "id": 4294967290, "content": "<hostile>"}]}
    fell, most, served = [], 0, 0
    for name, content in {
        "id 2^32-6": with_id(4294967290), "id 10^8": with_id(100_000_000), "added id 2^32-6": json.dumps(added),
        "cut": whole[: len(whole) // 2], "nested": "[" * 100_000, "empty": "", "a number": "7",
    }.items():
        with checkpoint(tokenizer__json=content) as directory:
            code, seconds, output, memory = starts(binary, directory, seconds=5)
            most = max(most, memory)
            if name == "added id 2^32-6" and code is None and memory < 1 << 30:
                served += 1
            elif not code or code < 0 or "tokenizer.json" not in output or memory > 1 << 30:
                fell.append(f"{name}: exit code {code} after {seconds:.0f} s, {memory >> 20} MiB: {output[-120:]!r}")
    return not fell, "; ".join(fell) or f"{7 - served} files refused by name, {served} served without the id, peak {most >> 20} MiB"


def special_files(binary):
    """A FIFO, a directory, a link to /dev/zero and a socket's path as each file of a checkpoint. Wanted: an error that names the file, within 10 s"""
    fell, tried = [], 0
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        for kind in ("fifo", "directory", "/dev/zero", "dangling link"):
            with checkpoint() as directory:
                path = os.path.join(directory, name)
                os.remove(path)
                if kind == "fifo":
                    os.mkfifo(path)
                elif kind == "directory":
                    os.mkdir(path)
                else:
                    os.symlink(kind if kind[0] == "/" else "/nowhere", path)
                code, seconds, output, memory = starts(binary, directory, seconds=10)
                tried += 1
                missing_is_fine = kind == "dangling link" and name == "tokenizer_config.json"
                if not missing_is_fine and (not code or code < 0 or name not in output or memory > 1 << 30):
                    fell.append(f"{kind} as {name}: exit code {code} after {seconds:.0f} s: {output[-100:]!r}")
    return not fell, "; ".join(fell) or f"{tried} files refused by name"


def safetensors(binary):
    """model.safetensors cut short, with a header of 10^18 bytes, with offsets that overlap, overflow or reach beyond the file. Wanted: an error that names the file"""
    whole = (DEMO / "model.safetensors").read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    names = [n for n in header if n != "__metadata__"]

    def with_offsets(offsets):
        changed = json.dumps({**header, names[0]: {**header[names[0]], "data_offsets": offsets}}).encode()
        return len(changed).to_bytes(8, "little") + changed + whole[8 + size :]

    fell, cases = [], {
        "cut": whole[:-1000], "header of 10^18 bytes": (10**18).to_bytes(8, "little") + whole[8:], "empty": b"", "7 bytes": whole[:7],
        "offsets reversed": with_offsets([100, 0]), "offsets beyond": with_offsets([0, 1 << 60]), "offsets 2^63": with_offsets([1 << 63, (1 << 63) + 8]), "negative": with_offsets([-8, 0]),
    }
    for name, content in cases.items():
        with checkpoint() as directory:
            pathlib.Path(directory, "model.safetensors").write_bytes(content)
            code, _, output, memory = starts(binary, directory)
            if not code or code < 0 or "model.safetensors" not in output or memory > 1 << 30:
                fell.append(f"{name}: exit code {code}: {output[-120:]!r}")
    return not fell, "; ".join(fell) or f"{len(cases)} files refused by name"


def parameters(binary):
    """Parameters that make no sense: an empty --kv-events-config, negative and huge sizes, ports beyond 65535, an unknown YAML key. Wanted: exit code 64 or 78 and an error that names the parameter"""
    fell, cases = [], {
        "--kv-events-config": [" "], "--kv-events-config ": ["{"], "--port": ["70000"], "--block-size": ["-64"], "--max-model-len": ["99999999999999999999"],
        "--kv-cache-memory-bytes": ["-1"], "--threads": ["1000000000"], "--prefill-chunk": ["9223372036854775807"], "--max-pass-items": ["-1"], "--drain-timeout": ["-5s"],
    }
    for flag, value in cases.items():
        code, _, output, _ = starts(binary, flag.strip(), *value, seconds=10)
        if code not in (64, 78) or flag.strip().lstrip("-") not in output or "goroutine" in output:
            fell.append(f"{flag} {value[0]!r}: exit code {code}: {output.strip()[-140:]!r}")
    return not fell, "; ".join(fell) or f"{len(cases)} refused by name"


def tcp_without_keys(binary):
    """A scheduler on loopback tcp without keys. Wanted: refused, with the flag that allows it named"""
    code, _, output, _ = starts(binary, "--scheduler-endpoint", f"tcp://127.0.0.1:{free_port()}", seconds=8)
    return bool(code) and code > 0 and "key" in output, f"exit code {code}: {output.strip()[-160:]}"


def body_lines(binary):
    """A request body from a file of 65 MiB, and a gzip bomb's header. Wanted: 413 or 400 with the limit"""
    with Server(binary) as server:
        server.wait_ready()
        start = time.monotonic()
        try:
            status, raw = server.request("POST", "/v1/completions", b'{"prompt":"' + b"x" * (65 << 20) + b'"}', timeout=30)
        except OSError as error:
            status, raw = 0, str(error).encode()
        bomb = server.request("POST", "/v1/completions", b"\x1f\x8b" + b"\0" * 100, headers={"Content-Encoding": "gzip"})[0]
        alive = server.complete("still there")[0]
        held = status == 413 and 400 <= bomb < 500 and alive == 200
        return held, f"65 MiB: {status} {raw[:100].decode(errors='replace')} after {time.monotonic() - start:.1f} s; gzip {bomb}"


def usage(binary):
    """Commands that do not exist, flags that do not exist, help of every command. Wanted: 64 and the nearest name; help on stdout with 0"""
    fell = []
    for args in (["serv"], ["serve", "--prot", "1"], ["bench", "serv"]):
        r = subprocess.run([binary, *args], capture_output=True, text=True, timeout=20)
        if r.returncode != 64 or not r.stderr:
            fell.append(f"{' '.join(args)}: exit code {r.returncode}: {r.stderr[-100:]!r}")
    for args in (["serve", "--help"], ["profile", "--help"], ["healthcheck", "--help"], ["config", "show", "--help"], ["--version"], ["bench", "serve", "--help"]):
        r = subprocess.run([binary, *args], capture_output=True, text=True, timeout=20)
        if r.returncode != 0 or not r.stdout or r.stderr:
            fell.append(f"{' '.join(args)}: exit code {r.returncode}, {len(r.stdout)} bytes on stdout, {len(r.stderr)} on stderr")
    return not fell, "; ".join(fell) or "9 commands"


ATTACKS = [templates, tokenizers, special_files, safetensors, parameters, tcp_without_keys, body_lines, usage]
