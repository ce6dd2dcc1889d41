"""Attacks by a machine that gives too little: address space and open files, at the start and while the server runs."""

import concurrent.futures
import os
import re
import resource
import signal
import stat
import tempfile
import time

from files import starts
from server import Server, message, status

LIMITS = {"-v 128000": "memory", "-v 400000": "memory", "-v 1000000": "memory|threads", "-v 2000000": "memory", "-n 8": "open files", "-n 24": "open files"}


def limited(binary, limit, do):
    """What do returns of a program that is the server under a limit of the shell's."""
    with tempfile.NamedTemporaryFile("w", prefix="attack-", suffix=".sh", delete=False) as script:
        script.write(f'#!/bin/sh\nulimit {limit}\nexec {os.path.abspath(binary)} "$@"\n')
    try:
        os.chmod(script.name, stat.S_IRWXU)
        return do(script.name)
    finally:
        os.unlink(script.name)


def low_limits(binary):
    """A server is started with an address space of 128 MB to 2 GB, or with 8 or 24 open files; then, while one runs, a limit comes of 256 MiB more than its first process has, and its executor is killed, and after 10 s the limit is lifted.
    Wanted: it ends within 10 s with words on memory or files, or serves; under the later limit the executor is started again with longer and longer pauses and the log says what lacks; a request meanwhile is answered once there is memory, or gets 503; those afterwards are answered"""
    wrong, ended = [], 0
    for limit, words in LIMITS.items():
        code, seconds, output, _ = limited(binary, limit, lambda program: starts(program, seconds=10))
        ended += code is not None
        if code == 0 or code is not None and (code < 0 or not re.search(words, output)):
            wrong.append(f"ulimit {limit}: exit code {code} after {seconds:.0f} s: {output.strip()[-200:]!r}")
    with Server(binary) as server:
        if not server.wait_ready():
            return False, "the server did not start"
        before = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (status(server.process.pid, "VmSize") + (256 << 20), before[1]))
        pids, end = set(server.children("executor")), time.monotonic() + 10
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            meanwhile = pool.submit(server.complete, "meanwhile", 90)
            while time.monotonic() < end and server.process.poll() is None:
                pids.update(server.children("executor"))
                time.sleep(0.02)
            if server.process.poll() is None:
                resource.prlimit(server.process.pid, resource.RLIMIT_AS, before)
            ready, (code, body) = server.wait_ready(45), meanwhile.result()
        answer = server.complete("afterwards")[0] if ready else None
        server.log.seek(0)
        log = server.log.read()
        if answer != 200 or code not in (200, 503) or len(pids) > 31 or not re.search("memory|threads", log):
            wrong.append(f"under a limit that came later: ready {ready}, {message(body)}; exit code {server.process.poll()}; log {log[-300:]!r}")
    return not wrong, f"{ended} of {len(LIMITS)} ended with words; under the later limit {len(pids) - 1} executors in 10 s, a request meanwhile {code}, afterwards {answer}" + "".join("; " + w for w in wrong)


ATTACKS = [low_limits]
