"""Work on the processors of a prefillonly server's machine in the server's own order, from another program.

    with slot("http://127.0.0.1:8000", kind="crop", units=2, deadline=0.9, then={"device": 0.2, "post": 0.01}):
        crop(picture)

The slot is held while the answer is open: leaving the block, or dying in it, gives it back. A stage that cannot be done
by its deadline is refused before it begins (Refused, with the seconds after which to ask again).
"""
import contextlib
import http.client
import json
import os
import urllib.parse


class Refused(Exception):
    def __init__(self, message, retry_after):
        super().__init__(message)
        self.retry_after = retry_after


@contextlib.contextmanager
def slot(server, kind, units=1, deadline=None, then=None, key=os.environ.get("PREFILLONLY_API_KEY")):
    """Waits for a slot, and yields the seconds that it was waited for. deadline and then are seconds: by when the whole
    work must be done, and what follows the stage."""
    ask = {"kind": kind, "units": units}
    if deadline is not None:
        ask["deadline_ms"] = deadline * 1000
    if then:
        ask["then"] = ",".join(f"{name}:{seconds}" for name, seconds in then.items())
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server).netloc)
    try:
        connection.request("GET", "/v1/stages/slot?" + urllib.parse.urlencode(ask), headers={"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        line = json.loads(answer.readline())
        if answer.status != 200:
            raise Refused(line["error"]["message"], float(answer.headers.get("Retry-After-Ms", 0)) / 1000)
        yield line["waited_ms"] / 1000
    finally:
        connection.close()
