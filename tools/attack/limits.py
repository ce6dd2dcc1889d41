"""Attacks by a machine that gives too little: address space, open files and memory, at the start and while the server runs."""

import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import re
import resource
import signal
import stat
import tempfile
import threading
import time

from files import starts
from server import Server, message, status

LIMITS = {"-v 128000": "memory", "-v 400000": "memory", "-v 1000000": "memory|threads", "-v 2000000": "memory", "-n 8": "open files", "-n 24": "open files"}


def limited(binary, limit, do):
    """What do returns of a program that is the server behind a command of the shell's that limits it."""
    with tempfile.NamedTemporaryFile("w", prefix="attack-", suffix=".sh", delete=False) as script:
        script.write(f'#!/bin/sh\n{limit}\nexec {os.path.abspath(binary)} "$@"\n')
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
        code, seconds, output, _ = limited(binary, "ulimit " + limit, lambda program: starts(program, seconds=10))
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


@contextlib.contextmanager
def cgroup(megabytes):
    """A cgroup below this process's own that has so much memory: its directory and how often a process was killed there; None where this user may make none."""
    groups = {c: path for _, c, path in (row.split(":", 2) for row in pathlib.Path("/proc/self/cgroup").read_text().split("\n") if row)}
    for mount, controllers, limit, events in (("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.oom_control"), ("/sys/fs/cgroup", "", "memory.max", "memory.events")):
        directory = pathlib.Path(mount + groups.get(controllers, "/nowhere"), f"attack-{os.getpid()}")
        try:
            directory.mkdir()
        except OSError:
            continue
        try:
            (directory / limit).write_text(str(megabytes << 20))
            yield directory, lambda: int(re.search(r"oom_kill (\d+)", (directory / events).read_text()).group(1))
            return
        except FileNotFoundError:
            pass  # a group without this controller
        finally:
            end = time.monotonic() + 10
            while (directory / "cgroup.procs").read_text() and time.monotonic() < end:
                time.sleep(0.1)
            directory.rmdir()
    yield None, None


def memory_limit(binary):
    """The server is in a cgroup of 320 MiB: clients of prompts that fill the prefix cache for 10 s, then 24 bodies of 60 MiB at a time by six keys, which its own bounds let in; and in one of 48 MiB.
    Wanted: nothing is killed under prompts; of the bodies each is refused or its connection closed, the first process stays, what is killed is started again and serves within 45 s; with 48 MiB it ends within 60 s with words, or serves"""
    keys = ["one", "two", "three", "four", "five", "six"]
    with cgroup(320) as (directory, killed):
        if directory is None:
            return True, "not run: this user may make no cgroup of memory"

        def attack(program):
            with Server(program, env={"PREFILLONLY_API_KEY": ",".join(keys)}) as server:
                if not server.wait_ready():
                    server.log.seek(0)
                    return False, "the server did not start: " + server.log.read()[-300:]
                prompts, end = [], time.monotonic() + 10

                def ask(key):
                    for n in itertools.count():
                        if time.monotonic() > end:
                            return
                        prompts.append(server.complete([97 + (i * (n + 3) + i // 7 + len(key)) % 800 for i in range(2000)], headers={"Authorization": "Bearer " + key})[0])

                threads = [threading.Thread(target=ask, args=(k,)) for k in keys]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
                calm, statuses = killed(), {}
                body = b'{"prompt":"' + b"x " * (30 << 20) + b'"}'

                def send(n):
                    try:
                        status = server.request("POST", "/v1/completions", body, 60, {"Authorization": "Bearer " + keys[n % len(keys)]})[0]
                    except OSError:
                        status = "closed"
                    statuses[status] = statuses.get(status, 0) + 1

                with concurrent.futures.ThreadPoolExecutor(24) as pool:
                    list(pool.map(send, range(24)))
                start = time.monotonic()
                ready = server.wait_ready(45)
                took = time.monotonic() - start
                after = server.complete("afterwards", headers={"Authorization": "Bearer one"})[0] if ready else None
                held = calm == 0 and set(prompts) == {200} and after == 200 and set(statuses) <= {400, 413, 429, 503, "closed"} and server.process.poll() is None
                return held, f"{len(prompts)} prompts of {sorted(set(prompts))}, {calm} processes killed; bodies {statuses}, {killed() - calm} killed, ready after {took:.1f} s, afterwards {after}"

        held, outcome = limited(binary, f"echo $$ > {directory}/cgroup.procs", attack)
    with cgroup(48) as (directory, killed):
        code, seconds, output, _ = limited(binary, f"echo $$ > {directory}/cgroup.procs", lambda program: starts(program, seconds=60))
        words = code is None or code > 0 and re.search("memory|killed", output)
        return held and bool(words), outcome + f"; with 48 MiB exit code {code} after {seconds:.0f} s, {killed()} killed, {output.strip()[-160:]!r}"


ATTACKS = [low_limits, memory_limit]
