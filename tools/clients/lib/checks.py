"""What the Python clients share: checks that end the program when they fail, and the line that says how many passed."""
import sys

_done = []


def check(name, condition, got=None):
    """Ends the program with what was got, unless the condition holds."""
    if not condition:
        sys.exit(f"FAIL {name}: {got}")
    _done.append(name)


def refused(name, kind, call):
    """The exception of that kind, and of no other, that the call must raise."""
    try:
        got = call()
    except kind as error:
        check(name, type(error) is kind, repr(error))
        return error
    sys.exit(f"FAIL {name}: not refused: {got}")


def report(client):
    """Prints how many checks passed, which run.sh adds up."""
    print(f"{client}: {len(_done)} checks passed: {', '.join(dict.fromkeys(_done))}")
