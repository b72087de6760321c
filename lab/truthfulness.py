#!/usr/bin/env python3
"""Whether the laboratory tells the truth: `make truthfulness`, or `lab/truthfulness.py --help`.

The same run of `weir lab` many times, each with Weir, with Weir once more, and with Weir slowed down by a planted 5 % of
CPU (slowed.py), all in interleaved rounds, in turns, and compared with the first:

  planted    in how many runs the slowed one was told as slower
  none       in how many the other was told as different
  agreement  how many medians of a run lie within the spread of the run before, numbers and ratios

And `generator`: CPU that `weir lab load`, which compares every byte, takes for an answer, beside wrk.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
from pathlib import Path

import contenders
import load
import report
from common import BINARY, ROOT, Lab, LabError, cores, machine, need_binary, need_programs, run_main

SLOWED, SAME = "weir-slowed", "weir-again"
# Figures with medians that are compared with the spread of the next run; in turns there is no throughput.
JUDGED = ("requests_per_second", "cpu_us")


def main():
    options = arguments()
    need_programs("wrk", "taskset")
    need_binary(options.binary)
    result = {name: FIGURES[name](options) for name in options.figure}
    print(f"kept as {report.save('truthfulness', options.save, {'machine': machine(), **result})}")
    return 0


def planted(options):
    """Many runs with a slowed Weir and an equal one."""
    with Lab() as lab:
        runs = [one_run(lab, options, number) for number in range(options.runs)]
    slower, same = told(runs, SLOWED, "slower"), told(runs, SAME, "within noise")
    numbers, ratios = agreement(runs, lambda one: one["figures"].values()), agreement(runs, lambda one: [one["cpu"]])
    print(f"{options.percent:g} % planted: told as slower in {slower} of {len(runs)} runs of {options.rounds} rounds")
    print(f"none planted: told as within noise in {same} of {len(runs)}")
    for what, (within, pairs) in (("medians", numbers), ("medians of ratios", ratios)):
        print(f"two runs: {within} of {pairs} {what} within the spread of the run before")
    asked = {name: getattr(options, name) for name in ("scenario", "percent", "rounds", "seconds", "turn_ms")}
    return {**asked, "told_slower": slower, "told_within_noise": same, "agreement": {"numbers": numbers, "ratios": ratios}, "runs": runs}


def generator(options):
    """Alternating rounds of both generators against the origin alone; CPU per answer by what the kernel says of them."""
    _, load_core, origin_core = cores()
    if load_core == origin_core:
        origin_core = cores()[0]
    with Lab() as lab:
        port = contenders.start_origin(lab, options.binary, origin_core)
        own = [options.binary, "lab", "load", "--connections", load.SMALL_CONNECTIONS, "--seconds", options.seconds]
        own += ["--expect-bytes", 21, "--json", f"http://127.0.0.1:{port}{load.SMALL_PATH}"]
        tools = {
            "weir": (own, lambda text: json.loads(text)["requests"]),
            "wrk": (load.wrk(port, max(1, round(options.seconds))), lambda text: load.read_wrk(text)["requests"]),
        }
        rounds = [{name: cpu_us(load_core, *tool) for name, tool in tools.items()} for _ in range(options.rounds)]
    medians = {name: statistics.median(one[name] for one in rounds) for name in tools}
    below = sum(one["weir"] < one["wrk"] for one in rounds)
    print(f"CPU per answer: weir lab load {medians['weir']:.2f} us, wrk {medians['wrk']:.2f} us, below in {below} of {len(rounds)} rounds")
    return {"medians_us": medians, "rounds": rounds}


def cpu_us(core, command, requests):
    """Microseconds of CPU for each answer that a load generator had."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["taskset", "-c", str(core), *map(str, command)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{command[3]} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds * 1e6 / requests(done.stdout)


FIGURES = {"planted": planted, "generator": generator}


def one_run(lab, options, number):
    """The figures and verdicts of each contender, from the file that the laboratory keeps."""
    file = lab.subdirectory("run") / "result.json"
    command = [options.binary, "lab", "run", "--scenario", options.scenario, "--baseline", "weir", "--contender", "weir"]
    command += ["--weir", options.binary, "--also", f"{SAME}={options.binary}", "--also", f"{SLOWED}={ROOT / 'lab' / 'slowed.py'}"]
    command += ["--rounds", options.rounds, "--seconds", options.seconds, "--save", file]
    command += ["--turn-ms", options.turn_ms] if options.turn_ms else []
    environment = {**os.environ, "SLOWED_BINARY": str(options.binary.resolve()), "SLOWED_PERCENT": str(options.percent)}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"weir lab run ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    contenders = json.loads(file.read_text())["summary"][options.scenario]["contenders"]
    absent = {name: one["absent"] for name, one in contenders.items() if one["absent"]}
    if absent:
        raise LabError(f"did not take part: {absent}")
    run = {name: {"figures": {key: one["figures"][key] for key in JUDGED if key in one["figures"]}, "cpu": one["over_baseline"].get("cpu_us")} for name, one in contenders.items()}
    told = {name: run[name]["cpu"] for name in (SAME, SLOWED)}
    shown = "; ".join(f"{name} {one['median']:.3f} ({one['interval'][0]:.3f} to {one['interval'][1]:.3f}) {one['verdict']}" for name, one in told.items())
    print(f"  run {number + 1}: {shown}", flush=True)
    return run


def told(runs, name, verdict):
    return sum(run[name]["cpu"]["verdict"] == verdict for run in runs)


def agreement(runs, spreads):
    """How many medians lie between the least and the greatest round of the run before, and how many there are."""
    within = [
        before["min"] <= after["median"] <= before["max"]
        for earlier, later in zip(runs, runs[1:])
        for name in later
        for before, after in zip(spreads(earlier[name]), spreads(later[name]))
        if before and after
    ]
    return sum(within), len(within)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="*", help=f"which of {', '.join(FIGURES)} (all)")
    parser.add_argument("--runs", type=int, default=10, help="how often (10)")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds of each run (9)")
    parser.add_argument("--seconds", type=float, default=2, help="length of one round (2)")
    parser.add_argument("--turn-ms", type=int, default=20, help="length of a turn in milliseconds; 0: none are taken (20)")
    parser.add_argument("--percent", type=float, default=5, help="how much slower the slowed one is (5)")
    parser.add_argument("--scenario", default="small", help="what is asked (small)")
    parser.add_argument("--save", metavar="NAME", type=report.result_name, help="JSON file under lab/results")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the gateway (target/release/weir)")
    options = parser.parse_args()
    if options.rounds < 3:
        parser.error("fewer than 3 rounds have no interval")
    options.figure = report.chosen(parser, options.figure, FIGURES)
    return options


if __name__ == "__main__":
    run_main(main)
