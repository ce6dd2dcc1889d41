"""Holds what AIPerf reports of 40 requests for 8 tokens each to what was asked. Usage: judge.py KIND DIRECTORY"""
import importlib.metadata
import json
import pathlib
import sys

from checks import check, report

kind, out = sys.argv[1:]
found = json.loads(next(pathlib.Path(out).rglob("profile_export_aiperf.json")).read_text())


def figure(name, part="avg"):
    return found.get(name, {}).get(part)


check("requests", figure("request_count") == 40, figure("request_count"))
check("no errors", not figure("error_request_count") and not found.get("error_summary"), found.get("error_summary"))
check("tokens", figure("output_sequence_length") == 8 == figure("output_sequence_length", "min"), found.get("output_sequence_length"))
check("prompts", figure("input_sequence_length") >= 100, found.get("input_sequence_length"))
check("latency", figure("request_latency") > 0, found.get("request_latency"))
if "streaming" in kind:
    check("time to first token", 0 < figure("time_to_first_token") <= figure("request_latency"), found.get("time_to_first_token"))
    check("time between tokens", figure("inter_token_latency") >= 0, found.get("inter_token_latency"))
report(f"aiperf {importlib.metadata.version('aiperf')}, {kind}")
