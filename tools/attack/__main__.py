#!/usr/bin/env python3
"""Attacks on a real server, as a stranger would try them: each starts servers of its own, and prints one row.

    python3 tools/attack [--binary bin/prefillonly] [--list] [NAME...]

Prints a Markdown table of what was done, what is wanted, and what came out; exits with 1 if an attack
succeeded. Everything stays on this machine's loopback addresses. About 30 minutes for all of them.
"""

import argparse
import sys
import time
import traceback

import adapters
import batches
import cameras
import clocks
import connections
import crashes
import encoders
import files
import generation
import http2
import hub
import isolation
import limits
import models
import neighbours
import pictures
import quantized
import requests
import sources
import stages
import tensors

ATTACKS = {a.__name__.replace("_", "-"): a for module in (crashes, requests, connections, http2, batches, files, hub, models, tensors, encoders, adapters, generation, quantized, sources, cameras, isolation, pictures, limits, clocks, neighbours, stages) for a in module.ATTACKS}


def run(name, attack, binary):
    """One row, and whether the server held."""
    what, wanted = (" ".join(part.split()) for part in attack.__doc__.split("Wanted:"))
    start = time.monotonic()
    try:
        held, outcome = attack(binary)
    except Exception as error:  # an attack that cannot be run is no proof of anything
        traceback.print_exc()
        held, outcome = False, f"{type(error).__name__}: {error}"
    print(f"attack: {name}: {'held' if held else 'FELL'} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
    cells = (f"`{name}`", what.rstrip("."), wanted, ("held: " if held else "**fell**: ") + outcome)
    print("| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |", flush=True)
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="tools/attack")
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks to run (default: all)")
    parser.add_argument("--binary", default="bin/prefillonly")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    args = parser.parse_args()
    if args.list:
        print("\n".join(ATTACKS))
        return 0
    unknown = [n for n in args.names if n not in ATTACKS]
    if unknown:
        parser.error(f"no attack {unknown[0]!r}; --list lists them")
    print("| attack | what is done | wanted | outcome |\n|---|---|---|---|")
    held = [run(n, ATTACKS[n], args.binary) for n in args.names or ATTACKS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
