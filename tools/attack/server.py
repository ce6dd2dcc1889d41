"""A prefillonly server as a child process, and what an attack needs of it: requests, roles, memory."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

ROLES = ("frontend", "scheduler", "executor")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server of the demo model, or of what args name, on a port of its own. A context manager."""

    def __init__(self, binary, *args, env=None):
        self.port = free_port()
        self.log = tempfile.NamedTemporaryFile("w+", prefix="attack-", suffix=".log")
        command = [binary, "serve", "--port", str(self.port), "--no-access-log", "--log-level", "warn", *args]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def wait_ready(self, seconds=30):
        """Whether /ready answers 200 in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.request("GET", "/ready", timeout=2)[0] == 200:
                    return True
            except OSError:
                pass
            time.sleep(0.1)
        return False

    def request(self, method, path, body=None, timeout=60, headers=None):
        """(status, body) of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            raw = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, raw, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def complete(self, prompt="a b c", timeout=60, headers=None, **fields):
        """(status, decoded body) of a completion."""
        status, raw = self.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}, timeout, headers)
        return status, decode(raw)

    def raw(self, data=b"", timeout=10):
        """A socket on which data has been sent."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        if data:
            s.sendall(data)
        return s

    def children(self, role):
        """The pids of the role's processes."""
        return [p for p in descendants(self.process.pid) if role in command_line(p).split("\0")[1:2]]

    def peak_memory(self):
        """The largest peak of a child's memory so far, in bytes."""
        return max((peak(p) for role in ROLES for p in self.children(role)), default=0)

    def established(self):
        """Connections that the server holds open on its port."""
        count = 0
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table) as f:
                for line in f.readlines()[1:]:
                    local, state = line.split()[1], line.split()[3]
                    count += state in ("01", "08") and int(local.rsplit(":")[-1], 16) == self.port
        return count

    def terminate(self, seconds=60):
        """(exit code, seconds it took) after SIGTERM; the code is None if it did not end in time."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        return code, time.monotonic() - start


def decode(raw):
    try:
        return json.loads(raw)
    except ValueError:
        return {"error": {"message": raw[:200].decode(errors="replace")}}


def message(body):
    """The message of an error body, or its beginning."""
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        return str(body["error"].get("message"))
    return str(body)[:200]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read()
    except OSError:
        return ""


def descendants(pid):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found += [int(entry), *descendants(int(entry))]
    return found


def peak(pid):
    return status(pid, "VmHWM")


def memory(pid):
    """The bytes that a process holds now."""
    return status(pid, "VmRSS")


def status(pid, field):
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(field + r":\s+(\d+) kB", f.read()).group(1)) << 10
    except (OSError, AttributeError):
        return 0
