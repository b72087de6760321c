"""Measures the latency of normal clients with thousands of slow and idle ones beside them, and without."""

import ctypes
import json
import math
import os
import platform
import random
import re
import signal
import statistics
import struct
import time

from common import LabError, stolen_ticks
from load import SMALL_CONNECTIONS, SMALL_PATH, Load
from slow_clients import COUNTS, NAMES, Stand

# Slow clients arrive spread over the time after which their kind is cut: 10 s for a head, 30 for a body, 60 for a
# reader and for an idle client. So from then on an equal number is cut and reconnects in each second. If all arrived
# within 10 s, they would be cut in waves of 10 s for ever: 200 bodies a second in every third wave, and none in the
# others.
RAMP_UP_SECONDS = {"head": 10, "body": 30, "reader": 60, "idle": 60}
# The normal load as a share of the capacity. A core that is not full shares its wake-ups among fewer requests, so this
# is 25 to 45 % of its time. Near the capacity, p99 would measure how long the queue after the machine's last standstill
# takes to drain.
NORMAL_SHARE = 0.2
# A window is short, so that a disturbance of the machine also affects the following one, and long enough that the load
# generator's start does not matter.
WINDOW_SECONDS = 0.5
WINDOWS_A_ROUND = 20
# Pauses after the slow clients were stopped, and after they continue, because clients that the gateway cut meanwhile
# reconnect then.
STILL_SECONDS, AGAIN_SECONDS = 0.1, 1.3
# A machine with shared processors counts as quiet when this many windows at the other gateway have at most this median
# of their p99. Above that, other machines' load would be measured. A round waits this long for quiet.
QUIET_WINDOWS, QUIET_P99_MS = 8, 1.5
LONGEST_WAIT_SECONDS, PAUSE_SECONDS = 120, 5
WAYS = {
    "with": "beside slow clients",
    "elsewhere": "beside slow clients of another gateway on that core",
    "without": "without slow clients",
}
UNITS = {"p50_ms": "ms", "p90_ms": "ms", "p99_ms": "ms", "cpu_us": "µs of CPU a request"}
CONFIDENCE, DRAWS = 0.9, 2_000


def go_first(nice=-20, slice_ns=100_000):
    """Has this process, and what it starts, run before what else lives on the machine: the least nice, and in slices of
    0.1 ms, so that whoever wakes has the core at once (sched_setattr(2), Linux 6.12); 0 ns is the usual slice. Whether that
    was granted."""
    number = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
    # size, policy (usual), flags, nice, priority, slice, deadline, period
    attributes = struct.pack("=IIQiIQQQ", 48, 0, 0, nice, 0, slice_ns, 0, 0)
    return number is not None and ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0


class Crowd:
    """Slow and idle clients, one process per kind, which can be stopped together. A client that is cut reconnects."""

    # The slow clients run with idle priority on the load generator's core, because its queue is not what is measured.
    BACK = ("chrt", "--idle", "0")

    def __init__(self, lab, binary, port, core, send_seconds):
        address = f"http://127.0.0.1:{port}"
        turns = ["--slow-interval-ms", send_seconds * 1_000]
        ways = {
            "head": ["--slow", "heads", *turns, f"{address}/checked-out"],
            "body": ["--slow", "bodies", "--body-bytes", 100_000, *turns, f"{address}/echo"],
            "reader": ["--slow", "readers", f"{address}/bytes/1000000"],
            "idle": ["--idle", f"{address}/checked-out"],
        }
        self.lab, self.processes = lab, {}
        self.began, self.held_seconds = time.monotonic(), 0.0
        for kind, way in ways.items():
            command = [*self.BACK, binary, "lab", "load", "--json", "--connections", COUNTS[kind], "--ramp-up", RAMP_UP_SECONDS[kind], *way]
            self.processes[kind] = lab.start(f"slow-{kind}", command, [core])
        for process in self.processes.values():
            process.wait_for_lines("ready", seconds=120)

    def signal(self, number):
        for process in self.processes.values():
            process.check_alive()
            os.kill(process.pid, number)

    def held(self, work):
        """Runs `work` while the clients are stopped, and returns its result."""
        held = time.monotonic()
        self.signal(signal.SIGSTOP)
        time.sleep(STILL_SECONDS)
        done = work()
        self.signal(signal.SIGCONT)
        self.held_seconds += time.monotonic() - held
        time.sleep(AGAIN_SECONDS)
        return done

    def dismiss(self):
        """Ends them; how many of each kind stood at the end and the turns that they took, and all turns in a second."""
        lived_seconds = time.monotonic() - self.began - self.held_seconds
        self.signal(signal.SIGTERM)
        told, turns_per_second = {}, 0.0
        for kind, process in self.processes.items():
            if process.child.wait(timeout=60) != 0:
                raise LabError(f"slow clients ({NAMES[kind]}) failed:\n{process.errors()}")
            self.lab.processes.remove(process)
            note = json.loads(process.output_file.read_text().splitlines()[-1])["notes"][0]
            stood, turns = re.match(r"(\d+) of \d+ connections stood at the end; (\d+) turns", note).groups()
            told[kind] = {"stood": int(stood), "turns": int(turns)}
            # While the clients arrived, half of them took turns on average.
            turns_per_second += int(turns) / (lived_seconds - RAMP_UP_SECONDS[kind] / 2)
        return told, turns_per_second


def latency(lab, options):
    """See `ask_in_turn`; other figures are measured as usual again."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    first = go_first()
    try:
        return ask_in_turn(lab, options, first)
    finally:
        go_first(nice, 0)


def ask_in_turn(lab, options, first):
    """Two equal gateways on one core, the crowd at the first. In turn, window by window: the first is asked, the second is
    asked, and the second is asked while the crowd stands still."""
    beset, free = Stand(lab, options), Stand(lab, options)
    rate = round(NORMAL_SHARE * free.run(options.seconds)["requests_per_second"])
    ask = Asking(options.binary, rate, free.load_core)
    for stand in (beset, free):
        ask.window(stand)
    crowd = Crowd(lab, options.binary, beset.weir.port, beset.load_core, options.slow_seconds)
    windows, rounds = {name: [] for name in WAYS}, []
    for number in range(options.rounds * WINDOWS_A_ROUND):
        if number % WINDOWS_A_ROUND == 0:
            rounds.append(wait_for_quiet(ask, free))
        # Each way is first as often as last.
        for name in list(WAYS)[:: 1 if number % 2 else -1]:
            stand = beset if name == "with" else free
            windows[name].append(crowd.held(lambda stand=stand: ask.window(stand)) if name == "without" else ask.window(stand))
    result = {"counts": COUNTS, "rate": rate, "went_first": first, "rounds": rounds, "windows": windows}
    result["crowd"], result["turns_per_second"] = crowd.dismiss()
    result["slow_seconds"] = options.slow_seconds
    result["turns_due"] = (COUNTS["head"] + COUNTS["body"]) / options.slow_seconds + COUNTS["reader"]
    for key in UNITS:
        result[key] = compared(windows, key)
    calm = calm_windows(windows)
    if calm["without"]:
        result["calm"] = {key: compared(calm, key) for key in UNITS}
    result["failed"] = sum(one["failed"] for each in windows.values() for one in each)
    tell(result)
    return result


def wait_for_quiet(ask, stand):
    """Whether the machine is quiet, after it was waited for, and by which p99. The windows that tell it do not count."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        p99_ms = statistics.median(ask.window(stand)["p99_ms"] for _ in range(QUIET_WINDOWS))
        if p99_ms <= QUIET_P99_MS or time.monotonic() > deadline:
            return {"p99_ms": p99_ms, "quiet": p99_ms <= QUIET_P99_MS}
        time.sleep(PAUSE_SECONDS)


def calm_windows(windows):
    """Those in which, and in the two of the same turn, the hypervisor took neither core away for as much as a tick."""
    turns = enumerate(zip(*windows.values(), strict=True))
    calm = [number for number, turn in turns if not any(sum(one["stolen_ticks"]) for one in turn)]
    return {name: [each[number] for number in calm] for name, each in windows.items()}


def compared(windows, key):
    """Median and mean of these windows each way, and the ratios to those without slow clients: of the medians and the means
    of all, of the windows that followed each other (their geometric mean), the bounds of the first and the last with
    CONFIDENCE, and of the medians of as many as a round has."""
    values = {name: [one[key] for one in each] for name, each in windows.items()}
    medians = {name: statistics.median(each) for name, each in values.items()}
    means = {name: statistics.mean(each) for name, each in values.items()}
    ratios = {}
    for name in ("with", "elsewhere"):
        at = range(0, len(values[name]), WINDOWS_A_ROUND)
        ratios[name] = {
            "of_medians": medians[name] / medians["without"],
            "of_medians_between": between(values[name], values["without"], of_medians),
            "of_pairs": of_pairs(list(zip(values[name], values["without"], strict=True))),
            "of_pairs_between": between(values[name], values["without"], of_pairs),
            "of_means": means[name] / means["without"],
            "of_rounds": [middle(values[name], one) / middle(values["without"], one) for one in at],
        }
    return {"medians": medians, "means": means, "ratios": ratios}


def middle(values, at):
    return statistics.median(values[at : at + WINDOWS_A_ROUND])


def of_medians(pairs):
    return statistics.median(one for one, _ in pairs) / statistics.median(one for _, one in pairs)


def of_pairs(pairs):
    """The geometric mean: what slows all windows of a time down cancels itself out, and one outlier counts for little."""
    return math.exp(statistics.fmean(math.log(one / other) for one, other in pairs))


def between(these, those, ratio):
    """Where this ratio lies with CONFIDENCE, by the bootstrap: windows are drawn again, those that followed each other
    together."""
    drawn = random.Random(1)
    pairs = list(zip(these, those, strict=True))
    ratios = sorted(ratio(drawn.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    outside = round(DRAWS * (1 - CONFIDENCE) / 2)
    return [ratios[outside], ratios[-1 - outside]]


def tell(result):
    counts, windows, rounds = result["counts"], result["windows"], result["rounds"]
    print(
        f"  {sum(counts.values()):,} slow and idle connections beside {result['rate']:,} requests a second on 64, {NORMAL_SHARE:.0%} of"
        f" what is possible; {len(windows['with'])} windows of {WINDOW_SECONDS} s each way, one behind the other:"
    )
    quiet = sum(one["quiet"] for one in rounds)
    print(f"    {quiet} of {len(rounds)} rounds began on a quiet machine (p99 of {QUIET_P99_MS} ms or less at the other gateway)")
    print(f"    {'all of it ran before what else lives here' if result['went_first'] else 'what else lives here ran as soon as it wished'}")
    for key in UNITS:
        tell_ratios(key, result[key])
    tell_calm(result)
    print(
        f"    a head or a body went on by a byte each {result['slow_seconds']} s, a reader took eight each second:"
        f" {result['turns_per_second']:,.0f} turns a second, of {result['turns_due']:,.0f} due"
    )
    stood = ", ".join(f"{one['stood']:,} {NAMES[kind]}" for kind, one in result["crowd"].items())
    print(f"    at the end there stood {stood}")
    print(f"    {result['failed']} requests failed", flush=True)


def tell_calm(result):
    calm = result.get("calm")
    if calm is None:
        print("    in none of these windows did the hypervisor leave both cores to this machine")
        return
    count, of = len(calm_windows(result["windows"])["without"]), len(result["windows"]["without"])
    print(f"    the {count} of {of} windows each way in which the hypervisor left both cores to this machine:")
    tell_ratios("p99_ms", calm["p99_ms"])


def tell_ratios(key, told):
    aim = " (aim: at most 1.5)" if key == "p99_ms" else ""
    print(f"    {key.split('_')[0]}, {UNITS[key]}, medians of the windows:")
    for name, words in WAYS.items():
        line = f"      {told['medians'][name]:8.3f} {words}"
        if name in told["ratios"]:
            ratio = told["ratios"][name]
            low, high = ratio["of_medians_between"]
            line += f": {ratio['of_medians']:.2f} of that without, {low:.2f} to {high:.2f} with {CONFIDENCE:.0%} confidence"
            line += f" (rounds {min(ratio['of_rounds']):.2f}..{max(ratio['of_rounds']):.2f}; of means {ratio['of_means']:.2f})"
            line += aim if name == "with" else ""
            low, high = ratio["of_pairs_between"]
            line += f"\n{'':17}pair by pair {ratio['of_pairs']:.2f}, {low:.2f} to {high:.2f}"
        print(line)


class Asking:
    """An open loop: so many requests are due in a second, and latency counts from when each was."""

    def __init__(self, binary, rate, core):
        self.command = [binary, "lab", "load", "--json", "--connections", SMALL_CONNECTIONS, "--rate", rate]
        self.command += ["--seconds", WINDOW_SECONDS, "--expect-bytes", 21]
        self.core = core

    def window(self, stand):
        """One window: latencies in ms, CPU time of the gateway a request in µs, failures, and what the hypervisor took of the
        gateway's core and of the load generator's."""
        before = sum(stand.weir.process.cpu_seconds())
        stolen_before = [stolen_ticks(core) for core in (stand.proxy_core, stand.load_core)]
        address = f"http://127.0.0.1:{stand.weir.port}{SMALL_PATH}"
        with Load([*self.command, address], self.core) as load:
            told = json.loads(load.report(WINDOW_SECONDS))
        stolen = [stolen_ticks(core) - earlier for core, earlier in zip((stand.proxy_core, stand.load_core), stolen_before, strict=True)]
        used = sum(stand.weir.process.cpu_seconds()) - before
        stand.weir.process.check_alive()
        latencies = {key: told["latency"][key] for key in ("p50_ms", "p90_ms", "p99_ms", "max_ms")}
        failed = sum(told["failures"].values()) + told["unsent"]
        cpu_us = used * 1e6 / max(told["requests"], 1)
        return {**latencies, "requests": told["requests"], "cpu_us": cpu_us, "failed": failed, "stolen_ticks": stolen}
