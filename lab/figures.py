#!/usr/bin/env python3
"""Figures that need real time: `make figures`, or `lab/figures.py --help`.

working-set  64, 256, 1,000 connections: instructions and cache misses per request, function by function, beside nginx
startup      from start to `ready` with an empty store
change       100,000 routes: from the Admin API's answer until a change is in force everywhere, under traffic
loading      100,000 routes: ready from the store, from etcd and from the copy of etcd's data; memory; one change
cluster      three members of etcd, three nodes: from the Admin API's answer until a change is in force everywhere
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import cluster
import many_routes
import report
import working_set
from common import BINARY, Lab, LabError, machine, need_binary, need_programs, run_main

STARTS = 20


def main():
    options = arguments()
    need_programs("wrk", "taskset", "etcd", "etcdctl", "nginx", "valgrind", "vgdb")
    need_binary(options.binary)
    results = {}
    for name in options.figure:
        with Lab() as lab:
            results[name] = FIGURES[name](lab, options)
    path = report.save("figures", options.save, {"machine": machine(), "figures": results})
    print(f"\nkept as {path}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="*", help=f"which of {', '.join(FIGURES)} (all)")
    parser.add_argument("--routes", type=int, default=100_000, help="how many many routes are (100000)")
    parser.add_argument("--changes", type=int, default=200, help="changes under traffic (200)")
    parser.add_argument("--save", metavar="NAME", type=report.result_name, help="name of the JSON file under lab/results")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the gateway (target/release/weir)")
    options = parser.parse_args()
    options.figure = report.chosen(parser, options.figure, FIGURES)
    return options


def startup(lab, options):
    """Milliseconds from start to the line `ready`, each time with a fresh data directory."""
    times = []
    for _ in range(STARTS):
        command = [str(options.binary), "run", "--workers", "1", "--data", str(lab.subdirectory("data"))]
        for listener in ("proxy", "admin", "control", "status", "metrics"):
            command += [f"--{listener}", "127.0.0.1:0"]
        with tempfile.TemporaryFile() as errors:
            started = time.perf_counter()
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            lines = iter(child.stdout.readline, "")
            is_ready = any(line == "ready\n" for line in lines)
            times.append((time.perf_counter() - started) * 1000)
            child.kill()
            child.wait()
            if not is_ready:
                errors.seek(0)
                raise LabError(f"weir did not get ready: {errors.read().decode(errors='replace')}")
    result = {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}
    print(f"start to ready, empty store: {shown(result, 'ms')} of {STARTS} starts (aim: under 50 ms)", flush=True)
    return result


def shown(result, unit):
    numbers = [value for value in result.values() if isinstance(value, float)]
    return f"{numbers[0]:.2f} {unit} ({numbers[1]:.2f}..{numbers[2]:.2f})"


FIGURES = {
    "startup": startup,
    "working-set": working_set.working_set,
    "change": many_routes.change,
    "loading": cluster.loading,
    "cluster": cluster.cluster,
}

if __name__ == "__main__":
    run_main(main)
