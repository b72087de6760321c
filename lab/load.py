"""Runs wrk and ab against one address and reads their reports; knows nothing of what answers."""

import re
import subprocess

from common import LabError

UNITS_TO_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


class Scenario:
    """One way of asking: the path, the tool, how many connections, whether they are kept."""

    def __init__(self, name, title, tool, path, connections, keep_alive):
        self.name, self.title, self.tool = name, title, tool
        self.path, self.connections, self.keep_alive = path, connections, keep_alive

    def command(self, port, seconds):
        url = f"http://127.0.0.1:{port}{self.path}"
        if self.tool == "wrk":
            close = [] if self.keep_alive else ["-H", "Connection: close"]
            return ["wrk", "-t1", f"-c{self.connections}", f"-d{seconds}s", "--latency", *close, url]
        keep = ["-k"] if self.keep_alive else []
        # -t sets a number of requests of its own, so -n comes behind it.
        return ["ab", "-q", "-r", "-t", str(seconds), "-n", "100000000", "-c", str(self.connections), *keep, url]

    def read(self, report):
        return read_wrk(report) if self.tool == "wrk" else read_ab(report)


SCENARIOS = [
    Scenario("small-64", "21 bytes, keep-alive, 64 connections", "wrk", "/checked-out", 64, True),
    Scenario("small-256", "21 bytes, keep-alive, 256 connections", "wrk", "/checked-out", 256, True),
    Scenario("page-64", "26,650 bytes, keep-alive, 64 connections", "wrk", "/sample.html", 64, True),
    Scenario("small-close", "21 bytes, new connection per request, 64 at once", "wrk", "/checked-out", 64, False),
    Scenario("ab-keep", "21 bytes, ab -k (HTTP/1.0), 64 connections", "ab", "/checked-out", 64, True),
    Scenario("ab-close", "21 bytes, ab without -k, 64 at once", "ab", "/checked-out", 64, False),
]


class Load:
    """A running load generator; ended when the block is left before its time."""

    def __init__(self, command, core):
        self.name = command[0]
        # The kernel ends it with its parent, however that ends.
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


def read_ab(report):
    """The same of one ab report. A body of another length than the first counts as failed, as ab has it."""
    return {
        "requests": int(found(r"Complete requests:\s+(\d+)", report)),
        "failed": int(found(r"Failed requests:\s+(\d+)", report)) + int(found(r"Non-2xx responses:\s+(\d+)", report, "0")),
        "requests_per_second": float(found(r"Requests per second:\s+([\d.]+)", report)),
        "p50_ms": float(found(r"50%\s+(\d+)", report)),
        "p99_ms": float(found(r"99%\s+(\d+)", report)),
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
