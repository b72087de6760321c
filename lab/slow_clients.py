"""Thousands of slow and idle clients: the memory they take, and how they end."""

import json
import signal
import sys
import time
from pathlib import Path

import contenders
from common import LabError, cores
from load import Load, read_wrk, wrk

CROWD = Path(__file__).resolve().parent / "slow_crowd.py"
# Heads by the byte, bodies by the byte, readers by a few bytes, idle: together below what one process may open, with
# the gateway's own connections to the origin.
COUNTS = {"head": 2_000, "body": 2_000, "reader": 1_000, "idle": 2_000}
# Longer than all deadlines: 10 s for a head, 30 for a body, 60 for a reader and for an idle client.
LIVES_SECONDS = 66
# Clients of one kind, to measure the memory of one.
OF_ONE_KIND = 1_000
SETTLE_SECONDS = 3


class Stand:
    """One worker on a core of its own, all other processes on the other."""

    def __init__(self, lab, options):
        self.lab, (self.proxy_core, self.load_core, origin_core) = lab, cores()
        origin = contenders.start_origin(lab, options.binary, origin_core)
        resources = contenders.weir_resources(origin, 0, True)
        resources["routes"].append({"id": "any", "uri": "/*", "upstream_id": "origin"})
        # A reader's megabyte occupies an origin for half a millisecond, and its other clients would wait.
        readers = contenders.start_origin(lab, options.binary, origin_core)
        resources["upstreams"].append({**contenders.weir_upstream(readers), "id": "readers"})
        resources["routes"].append({"id": "readers", "uri": "/bytes/*", "upstream_id": "readers"})
        self.weir = contenders.start_weir(lab, options.binary, [self.proxy_core], resources=resources)

    def gather(self, counts):
        command = [sys.executable, CROWD, self.weir.port, *counts.values()]
        crowd = self.lab.start("slow-crowd", command, [self.load_core])
        crowd.wait_for_lines("ready", seconds=120)
        return crowd

    def dismiss(self, crowd):
        """Ends a crowd and returns its report."""
        crowd.child.send_signal(signal.SIGTERM)
        if crowd.child.wait(timeout=60) != 0:
            raise LabError(f"the slow clients failed:\n{crowd.errors()}")
        self.lab.processes.remove(crowd)
        return json.loads(crowd.output_file.read_text().splitlines()[-1])

    def run(self, seconds):
        with Load(wrk(self.weir.port, seconds), self.load_core) as load:
            return read_wrk(load.report(seconds))

    def memory(self):
        return self.weir.process.memory_bytes()[0]


def ends(lab, options):
    """Memory during and after a crowd, and how each kind of slow client ends."""
    stand = Stand(lab, options)
    stand.run(1)
    before = stand.memory()
    one_each = {kind: of_one_kind(lab, options, kind) for kind in COUNTS}
    crowd = stand.gather(COUNTS)
    began, peak = time.monotonic(), 0
    while time.monotonic() < began + LIVES_SECONDS:
        peak = max(peak, stand.memory())
        time.sleep(0.5)
    kinds = stand.dismiss(crowd)
    time.sleep(SETTLE_SECONDS)
    after = stand.memory()
    stand.weir.process.check_alive()
    print(f"  PSS {before / 1e6:.1f} MB before, at most {peak / 1e6:.1f} with {sum(COUNTS.values()):,} clients, {after / 1e6:.1f} afterwards")
    for kind, told in kinds.items():
        seconds = told["after_seconds"] or {"min": 0.0, "max": 0.0}
        ended = ", ".join(f"{count} {how}" for how, count in told["ended"].items()) or "none"
        print(
            f"    {told['count']:,} {NAMES[kind]}: {ended} after {seconds['min']:.1f}..{seconds['max']:.1f} s, {told['alive']} are left;"
            f" {one_each[kind]:,.0f} bytes each"
        )
    sys.stdout.flush()
    return {"before_bytes": before, "peak_bytes": peak, "after_bytes": after, "kinds": kinds, "bytes_each": one_each}


def of_one_kind(lab, options, kind):
    """PSS that one client of this kind adds to a fresh gateway, what is kept for reuse included; of the second crowd,
    which meets memory that has been used."""
    stand = Stand(lab, options)
    stand.run(1)
    counts = {each: OF_ONE_KIND if each == kind else 0 for each in COUNTS}
    before = stand.memory()
    for _ in range(2):
        crowd = stand.gather(counts)
        time.sleep(SETTLE_SECONDS)
        each = (stand.memory() - before) / OF_ONE_KIND
        stand.dismiss(crowd)
        time.sleep(1)
    lab.stop(stand.weir.process)
    return each


NAMES = {"head": "heads by the byte", "body": "bodies by the byte", "reader": "slow readers", "idle": "idle"}
