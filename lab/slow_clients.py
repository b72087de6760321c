"""Thousands of slow and idle clients beside normal ones: latency of the normal ones, memory, and how the slow ones end."""

import json
import signal
import statistics
import sys
import time
from pathlib import Path

import contenders
from bench import run_once
from common import LabError, cores
from load import SCENARIOS

CROWD = Path(__file__).resolve().parent / "slow_crowd.py"
# Heads by the byte, bodies by the byte, readers by a few bytes, idle: together below what one process may open, with
# the gateway's own connections to the origin.
COUNTS = {"head": 2_000, "body": 2_000, "reader": 1_000, "idle": 2_000}
# Longer than the deadline of a head, so that during the measurement some are cut and come again all the time.
WARM_UP_SECONDS = 11
# Longer than all deadlines: 10 s for a head, 30 for a body, 60 for a reader and for who is idle.
LIVES_SECONDS = 66
# What normal clients ask for, of what they can at most: at the most, latency is how long a queue is.
NORMAL_SHARE = 0.5
# So many of one kind, to see what one holds.
OF_ONE_KIND = 1_000
SETTLE_SECONDS = 3


class Paced:
    """An open loop: so many requests are due in a second, and latency counts from when each was."""

    def __init__(self, binary, rate):
        self.binary, self.rate = binary, rate

    def command(self, port, seconds):
        ask = [self.binary, "lab", "load", "--connections", SCENARIOS[0].connections, "--rate", self.rate]
        return [*ask, "--seconds", seconds, "--expect-bytes", 21, "--json", f"http://127.0.0.1:{port}{SCENARIOS[0].path}"]

    def read(self, report):
        outcome = json.loads(report)
        told = {key: outcome[key] for key in ("requests", "requests_per_second")}
        failed = sum(outcome["failures"].values()) + outcome["unsent"]
        return {**told, **{key: outcome["latency"][key] for key in ("p50_ms", "p99_ms")}, "failed": failed}


class Stand:
    """One worker on a core of its own, everybody else on the other."""

    def __init__(self, lab, options):
        self.lab, (self.proxy_core, self.load_core, origin_core) = lab, cores()
        origin = contenders.start_origin(lab, options.binary, origin_core)
        resources = contenders.weir_resources(origin, 0, True)
        resources["routes"].append({"id": "any", "uri": "/*", "upstream_id": "origin"})
        self.weir = contenders.start_weir(lab, options.binary, [self.proxy_core], resources=resources)

    def gather(self, counts, *more):
        command = [sys.executable, CROWD, self.weir.port, *counts.values(), *more]
        crowd = self.lab.start("slow-crowd", command, [self.load_core])
        crowd.wait_for_lines("ready", seconds=120)
        return crowd

    def dismiss(self, crowd):
        """Ends a crowd; what it tells of itself."""
        crowd.child.send_signal(signal.SIGTERM)
        if crowd.child.wait(timeout=60) != 0:
            raise LabError(f"the slow clients failed:\n{crowd.errors()}")
        self.lab.processes.remove(crowd)
        return json.loads(crowd.output_file.read_text().splitlines()[-1])

    def run(self, seconds, scenario=SCENARIOS[0]):
        return run_once(scenario, self.weir, seconds, (self.proxy_core, self.load_core))

    def memory(self):
        return self.weir.process.memory_bytes()[0]


def latency(lab, options):
    """Latency of normal clients with the crowd and without it, in interleaved rounds."""
    stand = Stand(lab, options)
    normal = Paced(options.binary, round(NORMAL_SHARE * stand.run(options.seconds)["requests_per_second"]))
    rounds = []
    for number in range(options.rounds):
        one = {}
        # The other one comes first in every other round.
        for name in ("without", "with") if number % 2 else ("with", "without"):
            if name == "without":
                time.sleep(SETTLE_SECONDS)
                one[name] = stand.run(options.seconds, normal)
            else:
                crowd = stand.gather(COUNTS, "renew")
                time.sleep(WARM_UP_SECONDS)
                one[name] = stand.run(options.seconds, normal)
                one["crowd"] = stand.dismiss(crowd)
        rounds.append(one)
    result = {"counts": COUNTS, "rate": normal.rate, "rounds": rounds}
    print(
        f"  {sum(COUNTS.values()):,} slow and idle connections beside {normal.rate:,} requests a second on 64,"
        f" {NORMAL_SHARE:.0%} of what is possible; {options.rounds} interleaved rounds of {options.seconds} s:"
    )
    for key, unit in (("p50_ms", "ms"), ("p99_ms", "ms"), ("requests_per_second", "requests/s"), ("cpu_us", "µs of CPU a request")):
        ratios = [one["with"][key] / one["without"][key] for one in rounds]
        values = {name: statistics.median(one[name][key] for one in rounds) for name in ("with", "without")}
        result[key] = {**values, "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}}
        aim = " (aim: at most 1.5)" if key == "p99_ms" else ""
        print(
            f"    {key.split('_')[0]}: {values['with']:,.2f} with, {values['without']:,.2f} without {unit},"
            f" ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f}){aim}"
        )
    result["turns_per_second"] = statistics.median(one["crowd"]["turns_per_second"] for one in rounds)
    print(f"    the slow ones took {result['turns_per_second']:,.0f} turns a second, of {sum(COUNTS.values()) - COUNTS['idle']:,} due")
    failed = sum(one[name]["failed"] for one in rounds for name in ("with", "without"))
    result["failed"] = failed
    print(f"    {failed} requests failed", flush=True)
    return result


def ends(lab, options):
    """What a crowd holds, what it leaves behind, and how each kind of slow client ends."""
    stand = Stand(lab, options)
    stand.run(1)
    before = stand.memory()
    one_each = {kind: of_one_kind(lab, options, kind) for kind in COUNTS}
    crowd = stand.gather(COUNTS)
    began, peak = time.monotonic(), 0
    while time.monotonic() < began + LIVES_SECONDS:
        peak = max(peak, stand.memory())
        time.sleep(0.5)
    kinds = stand.dismiss(crowd)["kinds"]
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
