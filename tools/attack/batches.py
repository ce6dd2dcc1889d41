"""Attacks on files and batches: what is uploaded, what is killed, a disk that fills, and who asks for what is another's."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from server import Server, command_line, decode, descendants, message, peak

ENDED = ("completed", "failed", "expired", "cancelled")
KEYS = {"PREFILLONLY_API_KEY": "one,two"}


def headers(key, **more):
    return {"Authorization": f"Bearer {key}", **more}


def line(i, prompt="The user likes", model=None, **more):
    return json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {"prompt": f"{i} {prompt}", "max_tokens": 1, **({"model": model} if model else {})}, **more}) + "\n"


class Batches(Server):
    """A server that keeps files and batches in a directory that goes with it."""

    def __init__(self, binary, *args, directory=None):
        self.temporary = tempfile.TemporaryDirectory(prefix="attack-")
        self.directory = pathlib.Path(directory or self.temporary.name, "batches")
        self.arguments = ["--batch-dir", str(self.directory), *args]
        self.binary = binary
        super().__init__(binary, *self.arguments, env=KEYS)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.temporary.cleanup()

    def again(self):
        """Kills all its processes, and starts it again."""
        everyone = descendants(self.process.pid)
        self.process.kill()
        self.process.wait()
        for pid in everyone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().__init__(self.binary, *self.arguments, env=KEYS)
        return self.wait_ready()

    def keeper(self):
        """The pid of the process that keeps files and batches; None between two."""
        return next((p for p in descendants(self.process.pid) if command_line(p).split("\0")[1:2] == ["batches"]), None)

    def ask(self, method, path, body=None, key="one", **more):
        """(status, body) of a request, which is sent again while the process that keeps files and batches is started."""
        for _ in range(300):
            status, raw = self.request(method, path, body, headers=headers(key, **more))
            if status != 503 or b"being started" not in raw:
                break
            time.sleep(0.1)
        return status, raw

    def upload(self, content, key="one", purpose="batch", name="in.jsonl"):
        form = f'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = form.encode() + (content if isinstance(content, bytes) else content.encode()) + b"\r\n--b--\r\n"
        status, raw = self.ask("POST", "/v1/files", body, key, **{"Content-Type": "multipart/form-data; boundary=b"})
        return status, decode(raw)

    def create(self, content, key="one", window="24h"):
        status, f = self.upload(content, key)
        if status != 200:
            return status, f
        body = {"input_file_id": f["id"], "endpoint": "/v1/completions", "completion_window": window}
        status, raw = self.ask("POST", "/v1/batches", json.dumps(body), key)
        return status, decode(raw)

    def batch(self, id, key="one"):
        return decode(self.ask("GET", f"/v1/batches/{id}", key=key)[1])

    def ended(self, id, seconds=120):
        end = time.monotonic() + seconds
        while (b := self.batch(id)).get("status") not in ENDED and time.monotonic() < end:
            time.sleep(0.05)
        return b

    def answered(self, id, least=1, seconds=60):
        """Whether so many lines are answered in time, of a batch that has not ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            b = self.batch(id)
            if b.get("status") in ENDED:
                return False
            if b.get("request_counts", {}).get("completed", 0) >= least:
                return True
            time.sleep(0.01)
        return False

    def answers(self, b):
        """The custom_ids of a batch's answers, in both files."""
        found = []
        for id in filter(None, (b.get("output_file_id"), b.get("error_file_id"))):
            found += [json.loads(text)["custom_id"] for text in self.ask("GET", f"/v1/files/{id}/content")[1].splitlines()]
        return found

    def stored(self):
        """The names below its directory, but the store's and its lock's."""
        return sorted(str(f.relative_to(self.directory)) for f in self.directory.rglob("*") if f.is_file() and f.name not in ("batch.db", "files.lock"))

    def live(self):
        return self.complete(headers=headers("one"))[0] == 200


def once(found, n):
    """What is wrong with answers that are to be to n lines, each once; empty if nothing is."""
    twice, missing = len(found) - len(set(found)), n - len(set(found) & {str(i) for i in range(n)})
    return f"{twice} lines answered twice, {missing} not at all" if twice or missing else ""


def batch_killed(binary):
    """In the middle of a batch of 20,000 lines the process that keeps it is killed twice, then every process of the server, which is started again. Wanted: each line is answered once, the counts are right"""
    n, before = 20_000, []
    with Batches(binary) as server:
        if not server.wait_ready():
            return False, "the server does not get ready"
        status, b = server.create("".join(line(i) for i in range(n)))
        if status != 200:
            return False, f"{status}: {message(b)}"
        for kill in ("keeper", "keeper", "all"):
            if not server.answered(b["id"], before[-1] + 3000 if before else 3000):
                return False, f"the batch did not go on: {server.batch(b['id'])}"
            before.append(server.batch(b["id"])["request_counts"]["completed"])
            if kill == "all":
                if not server.again():
                    return False, "the server does not get ready again"
            else:
                os.kill(server.keeper(), signal.SIGKILL)
        done = server.ended(b["id"], 400)
        wrong = once(server.answers(done), n)
        held = done["status"] == "completed" and not wrong and done["request_counts"] == {"total": n, "completed": n, "failed": 0}
        return held, f"killed with {', '.join(map(str, before))} lines answered; {wrong or 'each line answered once'}; {done['status']}, {done['request_counts']}"


@contextlib.contextmanager
def small_disk(size):
    """A file system of so many bytes; None where this user may mount none."""
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], stderr=subprocess.DEVNULL).returncode:
            yield None
            return
        try:
            yield directory
        finally:
            subprocess.run(["umount", "-l", directory], check=True)


def batch_disk(binary):
    """The directory of batches is on a disk of 4 MiB: an upload of 8 MiB, a batch whose answers have no room, then the deletion of a file and the batch again. Wanted: 503 that says so, a batch that failed with the answers that had room, each once; then all answers; live requests answered"""
    n = 6000
    with small_disk(4 << 20) as disk, Batches(binary, directory=disk) as server:
        if disk is None:
            return True, "not run: this user may mount no file system"
        if not server.wait_ready():
            return False, "the server does not get ready"
        status, body = server.upload(b"x" * (8 << 20))
        told = status == 503 and "full" in message(body)
        left = [f for f in server.stored() if f.startswith("uploads")]
        _, filler = server.upload(b"x" * (1 << 20))
        code, b = server.create("".join(line(i) for i in range(n)))
        if code != 200:
            return False, f"a batch that fits: {code} {message(b)}"
        first = server.ended(b["id"])
        found = server.answers(first)
        reason = (first.get("errors") or {}).get("data", [{}])[0].get("message", "")
        live = server.live()
        for id in (filler["id"], first.get("output_file_id")):
            server.ask("DELETE", f"/v1/files/{id}")
        code, raw = server.ask("POST", "/v1/batches", json.dumps({k: first[k] for k in ("input_file_id", "endpoint", "completion_window")}))
        second = server.ended(decode(raw)["id"])
        wrong = once(server.answers(second), n)
        held = told and not left and first["status"] == "failed" and "disk is full" in reason and 0 < len(found) == len(set(found)) < n and live and not wrong
        return held, f"upload: {status}; batch: {first['status']} with {len(found)} of {n} answers, {reason!r}; with room again: {second['status']}, {wrong or 'each line answered once'}"


def batch_files(binary):
    """Batches of files that are no batch: a line that is not JSON, a custom_id twice, another method, another path, no lines, zeros, UTF-16, half a line, 100,000 levels of JSON, one line of 100 MiB, a million empty lines. Wanted: each fails with a code and the line's number, nothing is sent; a process below 512 MiB"""
    fine = line(0)
    files = {
        "invalid_json_line 2": fine + "{\n", "duplicate_custom_id 2": fine + fine, "invalid_method 1": line(0, method="GET"),
        "mismatched_url 1": line(0, url="/v1/embeddings"), "invalid_url 1": line(0, url="/v1/files"), "empty_file None": "", "empty_file None ": "\n" * 1_000_000,
        "invalid_json_line 1": "\0" * 4096, "invalid_json_line 1 ": fine.encode("utf-16"), "invalid_json_line 1  ": fine[:40],
        "invalid_json_line 1   ": '{"custom_id":"1","method":"POST","url":"/v1/completions","body":{"x":' + "[" * 100_000, "line_too_long 1": b"x" * (100 << 20),
        "line_too_long 1 ": line(0, "x" * (100 << 20)), "missing_required_parameter 1": "{}\n",
    }
    fell = []
    with Batches(binary) as server:
        if not server.wait_ready():
            return False, "the server does not get ready"
        for wanted, content in files.items():
            status, b = server.create(content)
            if status != 200:
                fell.append(f"{wanted}: {status} {message(b)}")
                continue
            b = server.ended(b["id"])
            errors = (b.get("errors") or {}).get("data") or [{}]
            if b["status"] != "failed" or f"{errors[0].get('code')} {errors[0].get('line')}" != wanted.strip() or b["output_file_id"]:
                fell.append(f"{wanted}: {b['status']} {str(errors[:1])[:200]}")
        most = peak(server.keeper())
        if most > 512 << 20 or not server.live():
            fell.append(f"{most >> 20} MiB")
        return not fell, "; ".join(fell) or f"{len(files)} files refused by their lines, {most >> 20} MiB at most"


def batch_uploads(binary):
    """An upload of 2 GiB, then 40 that end in the middle, forms with a name of 5 MB, 200,000 fields, two files, no file, no boundary, no end, another purpose, a name that is a path. Wanted: the first is kept; refusals with a reason, nothing left of them; a process below 256 MiB"""
    fell = []
    with Batches(binary) as server:
        if not server.wait_ready():
            return False, "the server does not get ready"
        begun = time.monotonic()
        status, big = uploaded(server, 2 << 30)
        took = time.monotonic() - begun
        if status != 200 or big.get("bytes") != 2 << 30:
            return False, f"2 GiB: {status} {message(big)}"
        head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n"
        purpose = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
        halves = [server.raw(head % 10_000_000 + part + b"x" * 100_000) for _ in range(40)]
        time.sleep(0.5)
        for s in halves:
            s.close()
        field = b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n'
        forms = {
            "long name": purpose + part.replace(b'"f"', b'"' + b"n" * 5_000_000 + b'"') + b"x\r\n--b--\r\n", "fields": purpose + part + b"x\r\n" + field * 200_000 + b"--b--\r\n", "two files": purpose + (part + b"x\r\n") * 2 + b"--b--\r\n",
            "no file": purpose + b"--b--\r\n", "empty": b"", "no end": purpose + part + b"x", "zeros": b"\0" * 1_000_000, "purpose": part + b'x\r\n--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--b--\r\n',
        }
        for name, body in forms.items():
            code, raw = server.ask("POST", "/v1/files", body, **{"Content-Type": "multipart/form-data; boundary=b"})
            if code != 400 or not decode(raw).get("error"):
                fell.append(f"{name}: {code} {raw[:200]!r}")
        for kind in ("application/json", "multipart/form-data", "multipart/mixed; boundary=b", "multipart/form-data; boundary=" + "b" * 100):
            code, raw = server.ask("POST", "/v1/files", b"{}", **{"Content-Type": kind})
            if code != 400:
                fell.append(f"{kind:.40}: {code} {raw[:200]!r}")
        code, named = server.upload("x", name="../../../../tmp/attacked")
        kept = {"files/" + big["id"], "files/" + named.get("id", "")}
        end = time.monotonic() + 30
        while set(server.stored()) != kept and time.monotonic() < end:
            time.sleep(0.1)
        if set(server.stored()) != kept:
            fell.append(f"left on the disk: {server.stored()}, wanted {kept}")
        most = peak(server.keeper())
        if most > 256 << 20 or not server.live():
            fell.append(f"{most >> 20} MiB")
        return not fell, "; ".join(fell) or f"2 GiB in {took:.0f} s; {len(forms) + 4} forms refused; {most >> 20} MiB at most"


def uploaded(server, size):
    """(status, body) of an upload of so many bytes, made piece by piece."""
    begin, end = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="big"\r\n\r\n', b"\r\n--b--\r\n"
    s = socket.create_connection(("127.0.0.1", server.port), timeout=300)
    with s, s.makefile("rb") as answer:
        s.sendall(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n" % (len(begin) + size + len(end)) + begin)
        piece = b"x" * (1 << 20)
        for _ in range(size >> 20):
            s.sendall(piece)
        s.sendall(end)
        status = int(answer.readline().split()[1])
        return status, decode(answer.read().split(b"\r\n\r\n", 1)[1])


def batch_owners(binary):
    """With another key, a forged owner and ids that are paths: another's file and batch are asked for, cancelled and deleted. Then the owner deletes the file in use, the server gets SIGHUP, and the batch is cancelled. Wanted: 404 and nothing learned; the batch runs on until it is cancelled, with the answers given, each once; nothing is left of the file"""
    fell, n = [], 50_000
    with Batches(binary) as server:
        if not server.wait_ready():
            return False, "the server does not get ready"
        status, b = server.create("".join(line(i) for i in range(n)))
        if status != 200 or not server.answered(b["id"]):
            return False, f"{status} {b}"
        input, id = b["input_file_id"], b["id"]
        forged = {"X-Prefillonly-Owner": owner_of(server), "Connection": "X-Prefillonly-Owner"}
        for method, path in (("GET", f"/v1/files/{input}"), ("GET", f"/v1/files/{input}/content"), ("DELETE", f"/v1/files/{input}"), ("GET", f"/v1/batches/{id}"), ("POST", f"/v1/batches/{id}/cancel")):
            for more in ({}, forged):
                code, raw = server.ask(method, path, key="two", **more)
                if code != 404:
                    fell.append(f"{method} {path} with {list(more)}: {code} {raw[:200]!r}")
        for path in ("..%2f..%2fbatch.db", "..%2fbatch.db/content", "%00", "%ff", "x" * 10_000, "..", f"{forged['X-Prefillonly-Owner']}%2f{input}"):
            code, raw = server.ask("GET", f"/v1/files/{path}", key="two")
            if code not in (400, 404):
                fell.append(f"{path:.40}: {code} {raw[:200]!r}")
        if server.ask("GET", "/v1/files", key="no")[0] != 401 or server.request("POST", "/v1/batches", "{}")[0] != 401:
            fell.append("no key is asked for")
        if server.ask("DELETE", f"/v1/files/{input}")[0] != 200 or server.ask("GET", f"/v1/files/{input}")[0] != 404:
            fell.append("the file in use is not deleted")
        os.kill(server.process.pid, signal.SIGHUP)
        os.kill(server.keeper(), signal.SIGHUP)
        counted = server.batch(id)["request_counts"]["completed"]
        if not server.answered(id, counted + 1):
            fell.append(f"the batch does not go on: {server.batch(id)}")
        server.ask("POST", f"/v1/batches/{id}/cancel")
        done = server.ended(id)
        found = server.answers(done)
        if done["status"] != "cancelled" or len(set(found)) != len(found) or len(found) != done["request_counts"]["completed"]:
            fell.append(f"cancelled: {done}, {len(found)} answers")
        end = time.monotonic() + 30
        while server.stored() != ["files/" + done["output_file_id"]] and time.monotonic() < end:
            time.sleep(0.1)
        if server.stored() != ["files/" + done["output_file_id"]] or not server.live():
            fell.append(f"left on the disk: {server.stored()}")
        return not fell, "; ".join(fell) or f"nothing of another's shown; {len(found)} of {n} lines answered once when it was cancelled, 0 twice"


def owner_of(server):
    """The owner that the store has for the first file, as one who has read the disk would know it."""
    store = (server.directory / "batch.db").read_bytes()
    at = store.index(b"owner-")
    return store[at : store.index(b"/", at)].decode()


ATTACKS = (batch_killed, batch_disk, batch_files, batch_uploads, batch_owners)
