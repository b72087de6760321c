#!/usr/bin/env python3
"""Whether the laboratory tells the truth: `make truthfulness`, or `lab/truthfulness.py --help`.

The same run of `weir lab` many times, each with Weir, with Weir once more, and with Weir slowed down by a planted 5 % of
CPU (slowed.py), all in interleaved rounds and compared with the first:

  planted    in how many runs the slowed one was told as slower
  none       in how many the other was told as different
  agreement  how many medians of a run lie within the spread that the next run printed
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

import report
from common import BINARY, ROOT, Lab, LabError, machine, need_binary, need_programs, run_main

SLOWED, SAME = "weir-slowed", "weir-again"
# Figures whose medians are held against the spread of the next run.
FIGURES = ("requests_per_second", "cpu_us")


def main():
    options = arguments()
    need_programs("wrk")
    need_binary(options.binary)
    with Lab() as lab:
        runs = [one_run(lab, options, number) for number in range(options.runs)]
    result = {"planted_percent": options.percent, "rounds": options.rounds, "seconds": options.seconds, "runs": runs}
    result.update(planted=told(runs, SLOWED, "slower"), none=told(runs, SAME, "within noise"), agreement=agreement(runs))
    within, pairs = result["agreement"]
    print(f"{options.percent:g} % planted: told as slower in {result['planted']} of {len(runs)} runs of {options.rounds} rounds")
    print(f"none planted: told as within noise in {result['none']} of {len(runs)}")
    print(f"two runs: {within} of {pairs} medians within the spread of the run before")
    print(f"kept as {report.save('truthfulness', options.save, {'machine': machine(), **result})}")
    return 0


def one_run(lab, options, number):
    """The figures and verdicts of each contender, from the file that the laboratory keeps."""
    file = lab.subdirectory("run") / "result.json"
    command = [options.binary, "lab", "run", "--scenario", options.scenario, "--baseline", "weir", "--contender", "weir", "nginx"]
    command += ["--weir", options.binary, "--also", f"{SAME}={options.binary}", "--also", f"{SLOWED}={ROOT / 'lab' / 'slowed.py'}"]
    command += ["--rounds", options.rounds, "--seconds", options.seconds, "--save", file]
    environment = {**os.environ, "SLOWED_BINARY": str(options.binary.resolve()), "SLOWED_PERCENT": str(options.percent)}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"weir lab run ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    contenders = json.loads(file.read_text())["summary"][options.scenario]["contenders"]
    absent = {name: one["absent"] for name, one in contenders.items() if one["absent"]}
    if absent:
        raise LabError(f"did not take part: {absent}")
    run = {name: {"figures": {key: one["figures"][key] for key in FIGURES}, "cpu": one["over_baseline"].get("cpu_us")} for name, one in contenders.items()}
    shown = "; ".join(f"{name} {run[name]['cpu']['median']:.3f} {run[name]['cpu']['verdict']}" for name in (SAME, SLOWED, "nginx"))
    print(f"  run {number + 1}: {shown}", flush=True)
    return run


def told(runs, name, verdict):
    return sum(run[name]["cpu"]["verdict"] == verdict for run in runs)


def agreement(runs):
    """How many medians lie between the least and the greatest round of the run before, and how many there are."""
    within = [
        earlier[name]["figures"][key]["min"] <= later[name]["figures"][key]["median"] <= earlier[name]["figures"][key]["max"]
        for earlier, later in zip(runs, runs[1:])
        for name in later
        for key in FIGURES
    ]
    return sum(within), len(within)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="how often (10)")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds of each run (9)")
    parser.add_argument("--seconds", type=float, default=2, help="length of one round (2)")
    parser.add_argument("--percent", type=float, default=5, help="how much slower the slowed one is (5)")
    parser.add_argument("--scenario", default="small", help="what is asked (small)")
    parser.add_argument("--save", metavar="NAME", type=report.result_name, help="JSON file under lab/results")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the gateway (target/release/weir)")
    return parser.parse_args()


if __name__ == "__main__":
    run_main(main)
