"""Runs load generators and reads the report of wrk; knows nothing of the server."""

import re
import subprocess

from common import LabError

UNITS_TO_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
# The load of normal clients: 21 bytes on kept connections.
SMALL_PATH, SMALL_CONNECTIONS = "/checked-out", 64


def wrk(port, seconds, path=SMALL_PATH, connections=SMALL_CONNECTIONS):
    """The command of wrk on kept connections, with one thread."""
    return ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{port}{path}"]


class Load:
    """A running load generator; ended when the block is left before its time."""

    def __init__(self, command, core):
        self.name = command[0]
        # The kernel ends it together with its parent, also after a crash.
        bound = ("setpriv", "--pdeathsig", "KILL", "taskset", "-c", core)
        self.child = subprocess.Popen(
            [str(part) for part in (*bound, *command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()

    def has_ended(self):
        return self.child.poll() is not None

    def report(self, seconds):
        """Waits for its end, due in so many seconds; what it printed."""
        output, errors = self.child.communicate(timeout=seconds + 60)
        if self.child.returncode != 0:
            raise LabError(f"{self.name} failed: {errors.strip() or output.strip()}")
        return output


def read_wrk(report):
    """Requests, failures, rate and latencies (milliseconds) of one wrk report."""
    requests = int(found(r"(\d+) requests in", report))
    failed = int(found(r"Non-2xx or 3xx responses: (\d+)", report, "0"))
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", report)
    if errors:
        failed += sum(map(int, errors.groups()))
    return {
        "requests": requests,
        "failed": failed,
        "requests_per_second": float(found(r"Requests/sec:\s+([\d.]+)", report)),
        "p50_ms": milliseconds(found(r"50%\s+([\d.]+\w+)", report)),
        "p99_ms": milliseconds(found(r"99%\s+([\d.]+\w+)", report)),
    }


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * UNITS_TO_MILLISECONDS[unit]


def found(pattern, report, default=None):
    match = re.search(pattern, report)
    if match:
        return match.group(1)
    if default is None:
        raise LabError(f"cannot read the load generator's report (no {pattern!r}):\n{report}")
    return default
