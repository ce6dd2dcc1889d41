"""Attacks on the processes: crash signals, hung processes, SIGTERM."""

import os
import signal
import threading
import time

from server import ROLES, Server


class Clients:
    """So many clients that complete one prompt after the other until closed. A request that a dying
    frontend held is asked again, as its client can see that no answer came."""

    def __init__(self, server, count=8):
        self.server, self.going = server, True
        self.answered, self.asked_again, self.wrong = 0, 0, []
        self.last = [0] * count  # answered request of each client
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for t in self.threads:
            t.start()

    def run(self, number):
        n = 0
        while self.going:
            n += 1
            try:
                status, body = self.server.complete(f"client {number} request {n} " + "word " * 200)
            except OSError:
                self.asked_again += 1
                time.sleep(0.05)
                continue
            self.answered += status == 200
            self.last[number] = n
            if status != 200:
                self.wrong.append(f"{status} {str(body)[:120]}")

    def all_answered(self, timeout=45):
        """Waits until each client has an answer to a request that it has begun since: what was struck may be
        struck once more, but a request that two executors died of is refused by design."""
        before, end = list(self.last), time.monotonic() + timeout
        while any(now < then + 2 for now, then in zip(self.last, before)) and time.monotonic() < end:
            time.sleep(0.05)

    def close(self):
        self.going = False
        for t in self.threads:
            t.join(90)


def die_by(binary, signals, role):
    """Sends each signal to the role's process under load; (held, outcome)."""
    with Server(binary) as server:
        if not server.wait_ready():
            return False, "the server did not start"
        clients = Clients(server)
        ended = None
        for number in signals:
            clients.all_answered()
            pids = server.children(role)
            if not pids:
                continue
            os.kill(pids[0], number)
            if not server.wait_ready(45):
                ended = signal.Signals(number).name
                break
        alive = server.process.poll() is None
        time.sleep(1)
        clients.close()
        outcome = f"{clients.answered} answered, {clients.asked_again} asked again, {len(clients.wrong)} refused"
        if ended:
            return False, f"after {ended} the server {'is not ready' if alive else f'ended with exit code {server.process.returncode}'}; {outcome}"
        if clients.wrong:
            outcome += f" ({clients.wrong[0]})"
        lost = bool(clients.wrong) or role != "frontend" and clients.asked_again > 0
        return not lost, outcome


CRASHES = [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGQUIT]


def crash_executor(binary):
    """SIGKILL, SEGV, ABRT, BUS, FPE, ILL, QUIT to the executor, under 8 clients. Wanted: it is restarted, every request is answered"""
    return die_by(binary, CRASHES, "executor")


def crash_scheduler(binary):
    """The same to the scheduler. Wanted: it is restarted, every request is answered"""
    return die_by(binary, CRASHES, "scheduler")


def crash_frontend(binary):
    """The same to the frontend. Wanted: it is restarted; clients see a closed connection and ask again, none gets a wrong answer"""
    return die_by(binary, CRASHES, "frontend")


def hang(binary, role):
    with Server(binary, "--peer-timeout", "5s") as server:
        if not server.wait_ready():
            return False, "the server did not start"
        stopped = server.children(role)[0]
        os.kill(stopped, signal.SIGSTOP)
        start = time.monotonic()
        try:
            while time.monotonic() - start < 60:
                try:
                    status, _ = server.complete("after the hang", timeout=5)
                except OSError:
                    status = 0
                if status == 200 and stopped not in server.children(role):
                    return True, f"the next answer came {time.monotonic() - start:.1f} s later, from a new process"
                time.sleep(0.2)
            return False, "no answer in 60 s"
        finally:
            try:
                os.kill(stopped, signal.SIGCONT)
            except ProcessLookupError:
                pass


def hang_executor(binary):
    """SIGSTOP to the executor. Wanted: it is killed and started again"""
    return hang(binary, "executor")


def hang_scheduler(binary):
    """SIGSTOP to the scheduler. Wanted: it is killed and started again"""
    return hang(binary, "scheduler")


def hang_frontend(binary):
    """SIGSTOP to the frontend. Wanted: it is killed and started again"""
    return hang(binary, "frontend")


def drain(binary):
    """SIGTERM during a long answer, with new connections meanwhile. Wanted: the answer is finished, new requests get 503 with Retry-After at once, exit code 0"""
    with Server(binary) as server:
        server.wait_ready()
        answers = []
        long = threading.Thread(target=lambda: answers.append(server.complete("once", max_tokens=3000, ignore_eos=True, timeout=60)[0]))
        long.start()
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        try:
            status, _ = server.request("GET", "/ready", timeout=3)
            refused, body = server.complete("late", timeout=3)
        except OSError as error:
            status, refused, body = 0, 0, error
        code = server.process.wait(90)
        long.join()
        held = (status, refused, answers, code) == (503, 503, [200], 0)
        return held, f"/ready {status}, a new request {refused} ({str(body)[:80]}), the long one {answers}, exit code {code}"


def all_roles(attack):
    return [globals()[f"{attack}_{role}"] for role in reversed(ROLES)]


ATTACKS = [*all_roles("crash"), *all_roles("hang"), drain]
