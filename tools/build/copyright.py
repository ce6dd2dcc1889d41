#!/usr/bin/env python3
"""Prints the copyright file of a Debian package: NOTICE, and the licence of every Go module and Rust crate in a program.

    tools/build/copyright.py PROGRAM [--rust]

Licences that Debian keeps in /usr/share/common-licenses are named, not repeated.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATE = ROOT / "engine/tokenizer/native"
LICENCE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|UNLICENSE)", re.I)


def run(*command, cwd=ROOT):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def modules(go, program):
    """Name, licence's name and directory of each Go module in the program, and of Go itself."""
    cache = pathlib.Path(run(go, "env", "GOMODCACHE").strip())
    yield "Go's standard library", "", pathlib.Path(run(go, "env", "GOROOT").strip())
    for line in run(go, "version", "-m", program).splitlines():
        fields = line.split()
        if fields and fields[0] == "dep":
            name, version = fields[1:3]
            yield f"{name} {version}", "", cache / (re.sub("[A-Z]", lambda c: "!" + c[0].lower(), name) + "@" + version)


def crates():
    """The same of each Rust crate in the tokenizers' library."""
    tree = run("cargo", "tree", "--locked", "-e", "normal", "--prefix", "none", "--format", "{p}|{l}", cwd=CRATE)
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    for line in sorted(set(tree.replace(" (*)", "").replace(" (proc-macro)", "").splitlines())):
        crate, _, licence = line.partition("|")
        name, version = crate.split()[:2]
        found = sorted((home / "registry/src").glob(f"*/{name}-{version[1:]}"))
        if found:
            yield f"{name} {version}", licence, found[0]


def texts(directory):
    """The licences' texts in a directory; those that every Debian system has by name."""
    for file in sorted(directory.iterdir()):
        if not (file.is_file() and LICENCE.match(file.name)):
            continue
        text = file.read_text(errors="replace")
        if "Apache License" in text and "Version 2.0, January 2004" in text:
            holders = re.findall(r"^\s*(Copyright (?!\[yyyy\]|owner|notice|license).*\d{4}.*)$", text, re.M)
            text = "\n".join(holders + ["Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0"])
        elif "Mozilla Public License Version 2.0" in text:
            text = "Mozilla Public License, Version 2.0: /usr/share/common-licenses/MPL-2.0"
        yield text.strip()


def main():
    program, rust = sys.argv[1], "--rust" in sys.argv
    go = run("tools/build/go.sh").strip()
    print("This package is made by the upstream authors, https://github.com/prefillonly/prefillonly.\n")
    print((ROOT / "NOTICE").read_text().strip())
    print("\nApache License, Version 2.0: /usr/share/common-licenses/Apache-2.0")
    print("GNU General Public License, version 3: /usr/share/common-licenses/GPL-3")
    print("GNU Lesser General Public License, version 2.1: /usr/share/common-licenses/LGPL-2.1")
    shared = {}
    for name, licence, directory in [*modules(go, program), *(crates() if rust else ())]:
        found = list(texts(directory)) or [f"{licence}, without a text of its own"]
        shared.setdefault("\n\n".join(found), []).append(f"{name} ({licence})" if licence else name)
    for text, names in shared.items():
        print("\n" + "-" * 80 + "\n" + "\n".join(names) + "\n\n" + text)


main()
