"""Attacks from beside the server: other users of its machine, and strangers at the endpoint that joins its processes."""

import contextlib
import json
import os
import pathlib
import resource
import socket
import ssl
import stat
import struct
import subprocess
import tempfile
import threading
import time

from files import DEMO
from network import infer, write
from server import Server, descendants, free_port, memory
from tensors import serving

NOBODY = 65534


def as_nobody(do):
    """What do returns in a process of another user."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(read)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(write, json.dumps(do()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def reached(pids, paths, sockets):
    """What this user can open, connect to or read of processes and of what they keep."""
    found = []

    def tries(what, do):
        with contextlib.suppress(OSError):
            do()
            found.append(what)

    for path in paths:
        tries(f"opens {path}", lambda: os.close(os.open(path, os.O_RDONLY)))
        tries(f"writes {path}", lambda: os.close(os.open(path, os.O_WRONLY)))
        tries(f"lists {path}", lambda: os.listdir(path))
        tries(f"makes a file in {path}", lambda: os.close(os.open(path + "/mine", os.O_CREAT | os.O_WRONLY)))
    for path in sockets:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as s:
                tries(f"connects to {path!r}", lambda: s.connect(path))
    for pid in pids:
        for what in ("mem", "environ", "maps"):
            tries(f"reads {what} of {pid}", lambda: open(f"/proc/{pid}/{what}", "rb").read(1))
        tries(f"lists the files of {pid}", lambda: os.listdir(f"/proc/{pid}/fd"))
        for fd in range(64):
            tries(f"opens file {fd} of {pid}", lambda: os.close(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY)))
        tries(f"ends {pid}", lambda: os.kill(pid, 0))
    return found


def listening(pids):
    """The paths of unix sockets of processes, abstract ones too."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                inodes.add(target[8:-1] if target.startswith("socket:[") else "")
    rows = [row.split() for row in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sorted({row[7].replace("@", "\0", 1) if row[7].startswith("@") else row[7] for row in rows if len(row) > 7 and row[6] in inodes})


def other_users(binary):
    """While frames and prompts are computed, another user of the machine tries to open, list, write or connect to the server's directories, sockets, shared memory and processes; --runtime-dir and --batch-dir are where all may enter, the umask is 022, then 0.
    Wanted: nothing is opened, what shared memory there is has no name"""
    if os.geteuid():
        return True, "not run: this user cannot become another one"
    found, tried, names = [], 0, 0
    for mask in (0o022, 0):
        with tempfile.TemporaryDirectory(prefix="attack-") as parent:
            os.chmod(parent, 0o755)
            here, old, shm = [os.path.join(parent, d) for d in ("run", "batches")], os.umask(mask), set(os.listdir("/dev/shm"))
            try:
                serves = serving(binary, "--runtime-dir", here[0], "--batch-dir", here[1], demo=True)
                server = serves.__enter__()
            finally:
                os.umask(old)
            with contextlib.ExitStack() as leave:
                leave.push(serves.__exit__)
                answers = [infer(server, "slow", seed)[0] for seed in range(8)] + [server.complete("a b", model="demo")[0]]
                form = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n{}\r\n--b--\r\n'
                answers.append(server.request("POST", "/v1/files", form, headers={"Content-Type": "multipart/form-data; boundary=b"})[0])
                pids = [server.process.pid, *descendants(server.process.pid)]
                paths = here + [str(p) for d in here for p in pathlib.Path(d).rglob("*")]
                sockets = listening(pids) + [p for p in paths if stat.S_ISSOCK(os.stat(p).st_mode)]
                names += len(set(os.listdir("/dev/shm")) - shm)
                tried += len(paths) + len(sockets) + len(pids)
                found += as_nobody(lambda: reached(pids, paths, sockets))
                if set(answers) != {200}:
                    found.append(f"answers {answers}")
    return not found and not names, f"{tried} files, sockets and processes tried, {len(found)} reached {found[:4]}; {names} names in /dev/shm"


def greeting(mechanism, version=(3, 0), server=0):
    return b"\xff" + bytes(8) + b"\x7f" + bytes(version) + mechanism.ljust(20, b"\0") + bytes([server]) + bytes(31)


def command(name, body):
    data = bytes([len(name)]) + name + body
    return bytes([4, len(data)]) + data if len(data) < 256 else b"\x06" + struct.pack(">Q", len(data)) + data


READY = command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER")
HELLO = command(b"HELLO", bytes([1, 0]) + bytes(72) + bytes(32) + bytes(8) + bytes(80))
STRANGERS = {
    "NULL": greeting(b"NULL") + READY + b"\0\5hello",
    "NULL of 3.1": greeting(b"NULL", (3, 1)) + READY,
    "PLAIN": greeting(b"PLAIN") + command(b"HELLO", b"\5admin\5admin"),
    "GSSAPI": greeting(b"GSSAPI") + command(b"INITIATE", bytes(100)),
    "a mechanism of noise": greeting(b"\xff" * 20) + READY,
    "CURVE as a server": greeting(b"CURVE", server=1) + HELLO,
    "CURVE and READY": greeting(b"CURVE") + READY,
    "CURVE, HELLO of zeros": greeting(b"CURVE") + HELLO,
    "CURVE, HELLO of version 2": greeting(b"CURVE") + HELLO.replace(b"HELLO\1", b"HELLO\2"),
    "CURVE, HELLO cut": greeting(b"CURVE") + HELLO[:60],
    "CURVE, HELLO too long": greeting(b"CURVE") + command(b"HELLO", bytes(5000)),
    "CURVE, INITIATE first": greeting(b"CURVE") + command(b"INITIATE", bytes(300)),
    "CURVE, a message first": greeting(b"CURVE") + b"\0\5hello",
    "CURVE, 2^62 bytes": greeting(b"CURVE") + b"\6" + struct.pack(">Q", 1 << 62),
    "ZMTP 1.0": b"\1\0\6\0hello",
    "ZMTP 2.0": b"\xff" + bytes(7) + b"\1\x7f\1\5\0\0" + b"\0\5hello",
    "version 9": greeting(b"CURVE", (9, 9)) + HELLO,
    "half a greeting": greeting(b"CURVE")[:30],
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "noise": bytes(range(256)) * 40,
    "nothing": b"",
}


@contextlib.contextmanager
def hosts(binary, model, *more):
    """The roles as processes of their own, joined by tcp with keys, for a model, the frontend with more arguments; the server is the frontend."""
    with tempfile.TemporaryDirectory(prefix="attack-") as d, contextlib.ExitStack() as leave:
        for name, role in (("main", "scheduler"), ("web", "frontend"), ("gpu", "executor"), ("stranger", "executor")):
            subprocess.run([os.path.abspath(binary), "keygen", role, name], cwd=d, check=True, stdout=subprocess.DEVNULL)
        pathlib.Path(d, "peers.pub").write_text("".join(pathlib.Path(d, n + ".pub").read_text() for n in ("web", "gpu")))
        port, http = free_port(), free_port()
        log = leave.enter_context(tempfile.NamedTemporaryFile("w+", prefix="attack-", suffix=".log"))

        def start(role, key, others, *args):
            command = [os.path.abspath(binary), role, "--scheduler-endpoint", f"tcp://127.0.0.1:{port}", "--curve-key-file", key + ".key", "--curve-peers-file", others, *args]
            process = subprocess.Popen(command, cwd=d, stdout=log, stderr=log)
            leave.callback(lambda: (process.kill(), process.wait()))
            return process

        server = Server.__new__(Server)
        server.port, server.log = http, log
        scheduler = start("scheduler", "main", "peers.pub")
        executor = ["executor", "gpu", "main.pub", "--name", "gpu-1", model]
        server.executor, server.another = start(*executor), lambda: start(*executor)
        server.process = start("frontend", "web", "main.pub", "--name", "web-1", "--port", str(http), model, *more)
        yield server, scheduler, port, start


def curve_strangers(binary):
    """The roles are joined by tcp with CURVE keys. Strangers come to the scheduler 30 times each by 21 greetings: NULL, PLAIN, GSSAPI, CURVE with a handshake that is cut, wrong, too long or of another version, older ZMTP, HTTP, noise, silence; 500 half handshakes stay open; an executor comes with a key that is not listed, and a frontend with an executor's key.
    Wanted: no stranger hears more than the handshake, prompts beside are answered within 5 s, neither process ends nor grows by 128 MiB"""
    with hosts(binary, str(DEMO)) as (server, scheduler, port, start):
        if not server.wait_ready(60):
            server.log.seek(0)
            return False, "the hosts did not start: " + server.log.read()[-400:]
        before, heard, slowest, statuses, open_ = memory(scheduler.pid), {}, 0.0, {}, []

        def prompt():
            nonlocal slowest
            began = time.monotonic()
            status = server.complete("beside", timeout=30)[0]
            slowest = max(slowest, time.monotonic() - began)
            statuses[status] = statuses.get(status, 0) + 1

        refused = [start("executor", "stranger", "main.pub", "--name", "gpu-2", str(DEMO)), start("frontend", "gpu", "main.pub", "--name", "web-2", "--port", "0", str(DEMO))]
        for turn in range(30):
            for what, data in STRANGERS.items():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                    s.settimeout(0.02)
                    s.sendall(data)
                    answer = b""
                    with contextlib.suppress(OSError):
                        while part := s.recv(4096):
                            answer += part
                    heard[what] = max(heard.get(what, 0), len(answer))
            prompt()
        for _ in range(500):
            s = socket.create_connection(("127.0.0.1", port), timeout=5)
            s.sendall(greeting(b"CURVE"))
            open_.append(s)
        for _ in range(10):
            prompt()
        for s in open_:
            s.close()
        told = server.request("GET", "/metrics")[1].decode()
        joined = [name for name in ("gpu-2", "web-2") if name in told]
        grown = (memory(scheduler.pid) - before) >> 20
        most = max(heard.values())
        alive = scheduler.poll() is None and server.process.poll() is None
        held = alive and set(statuses) == {200} and slowest < 5 and most <= 64 + 200 and grown < 128 and not joined
        return held, f"{30 * len(STRANGERS)} strangers, who heard {most} bytes at most; {statuses} prompts beside, the longest {slowest:.1f} s; grown by {grown} MiB; joined {joined}; others' keys ended with {[p.poll() for p in refused]}"


def slow_tls(binary):
    """The roles are joined by tcp, a network's executor fetches frames from its frontend over TLS. Strangers keep 1,400 connections there, each opened again when it is closed, for 30 s: a twelfth each of silence, of a ClientHello a byte a second, of secrets that are guessed, and the others of a whole handshake and silence. When they are there the executor is killed, and another one begins a second later.
    Wanted: each frame is answered rightly within 15 s, the frontend grows by no more than 128 MiB"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        port = free_port()
        with hosts(binary, f"quick={write(directory + '/quick.onnx')}", "--tensor-address", f"127.0.0.1:{port}") as (server, _, _, _):
            if not server.wait_ready(60):
                server.log.seek(0)
                return False, "the hosts did not start: " + server.log.read()[-400:]
            first = infer(server, "quick")  # whose coming opens the port
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            before, going, opened, whole, ready = memory(server.process.pid), True, 0, 0, threading.Semaphore(0)

            def come(kind):
                nonlocal opened, whole
                s = socket.create_connection(("127.0.0.1", port), timeout=5)
                opened += 1
                if kind > 1:
                    s = context.wrap_socket(s)
                    whole += 1
                if kind == 2:
                    s.sendall(b"\1" + bytes(8) + os.urandom(16) * 2)
                s.setblocking(False)
                return s

            def strangers(first):
                held, hello = {}, context.wrap_bio(ssl.MemoryBIO(), out := ssl.MemoryBIO())
                with contextlib.suppress(ssl.SSLWantReadError):
                    hello.do_handshake()
                greeting, turn = out.read(), 0
                while going:
                    for n in range(first, first + 100):
                        try:
                            if n not in held:
                                held[n] = come(n % 12)
                            elif n % 12 == 1:
                                held[n].send(greeting[turn % len(greeting) :][:1])
                            elif not held[n].recv(100):
                                held.pop(n).close()
                        except (BlockingIOError, ssl.SSLWantReadError):
                            pass
                        except OSError:
                            if n in held:
                                held.pop(n).close()
                        if not going:
                            break
                    turn += 1
                    ready.release()
                    time.sleep(0.5)
                for s in held.values():
                    s.close()

            threads = [threading.Thread(target=strangers, args=(n,)) for n in range(0, 1400, 100)]
            for t in threads:
                t.start()
            try:
                for _ in threads:
                    ready.acquire(timeout=30)
                server.executor.kill()
                server.executor.wait()
                time.sleep(1)  # in which a stranger takes its place
                server.another()
                end, took, wrong = time.monotonic() + 30, [], [] if first == (200, True) else [f"the first: {first}"]
                while time.monotonic() < end:
                    start = time.monotonic()
                    answer = infer(server, "quick", len(took))
                    took.append(time.monotonic() - start)
                    if answer != (200, True):
                        wrong.append(f"{answer[0]} {str(answer[1])[:100]}")
                    time.sleep(0.3)
                grown = (memory(server.process.pid) - before) >> 20
            finally:
                going = False
                for t in threads:
                    t.join()
            held = not wrong and max(took) < 15 and grown <= 128
            return held, f"{opened} connections of strangers, {whole} with a whole handshake; {len(took)} frames beside, the longest {max(took):.1f} s, {len(wrong)} not right {wrong[:2]}; the frontend grew by {grown} MiB"


ATTACKS = [other_users, curve_strangers, slow_tls]
