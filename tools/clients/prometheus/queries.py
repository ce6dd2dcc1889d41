"""Asks a Prometheus the queries of a Grafana dashboard: queries.py URL DASHBOARD."""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

LIMIT_S = 60
# A server with one model on a processor has no GPU, and nobody has been refused.
ABSENT = ("DCGM_", "refused_requests")


def ask(url, query):
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=LIMIT_S) as reply:
            return json.load(reply)["data"]["result"]
    except urllib.error.HTTPError as e:
        sys.exit(f"{query}: {e.code} {e.read().decode()}")
    except OSError:  # it does not listen yet
        return []


def wait(url, query):
    """The answer, once there is one."""
    end = time.monotonic() + LIMIT_S
    while not (result := ask(url, query)) and time.monotonic() < end:
        time.sleep(0.2)
    return result


def main():
    url, file = sys.argv[1:]
    if not wait(url, 'up{job="prefillonly"} == 1'):
        sys.exit(f"Prometheus has not read the page: {ask(url, 'up')}")
    panels = json.loads(pathlib.Path(file).read_text())["panels"]
    queries = [t["expr"] for p in panels for t in p["targets"]]
    for query in queries:
        query = query.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$model", ".*")
        answered = ask(url, query) if any(name in query for name in ABSENT) else wait(url, query)
        if not answered and not any(name in query for name in ABSENT):
            sys.exit(f"no answer to {query}")
    print(f"prometheus: {len(queries) + 1} checks passed")


main()
