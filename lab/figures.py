#!/usr/bin/env python3
"""Figures that need real time: `make figures`, or `lab/figures.py --help`.

startup   from start to `ready` with an empty store
idle      memory with 10,000 idle keep-alive connections, nginx beside it
workers   two workers beside one, where the machine has the cores to show it
routes    100,000 routes: lookup beside 100 routes, memory of a route
change    100,000 routes: from the Admin API's answer until a change is in force everywhere, under traffic
loading   100,000 routes: ready from the store, from etcd and from the copy of etcd's data; memory; one change
cluster   three members of etcd, three nodes: from the Admin API's answer until a change is in force everywhere
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cluster
import contenders
import many_routes
import report
from bench import run_once
from common import BINARY, Lab, LabError, cores, machine, need_binary, need_programs, run_main
from load import SCENARIOS

IDLE_CLIENTS = Path(__file__).resolve().parent / "idle_clients.py"
STARTS = 20
# Two for the workers, one for the load generator and one for the origin.
CORES_FOR_TWO_WORKERS = 4
# Buffers go back and freed pages follow them within this time.
SETTLE_SECONDS = 3


def main():
    options = arguments()
    need_programs("wrk", "nginx", "taskset", "etcd", "etcdctl")
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
    parser.add_argument("--connections", type=int, default=10_000, help="idle connections (10000)")
    parser.add_argument("--changes", type=int, default=200, help="changes under traffic (200)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument("--seconds", type=int, default=3, help="length of one run (3)")
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


def idle(lab, options):
    """PSS of nginx and weir before and with idle connections, each asked once and kept."""
    proxy_core, load_core, origin_core = cores()
    origin = contenders.start_origin(lab, options.binary, origin_core)
    resources = contenders.weir_resources(origin, 0, False)
    running = [
        contenders.start_nginx(lab, origin, [proxy_core]),
        contenders.start_weir(lab, options.binary, [proxy_core], resources=resources, more=["--idle-timeout-ms", 600_000]),
    ]
    result = {}
    print(f"{options.connections:,} idle keep-alive connections:")
    for contender in running:
        warm = hold(lab, contender, 1, load_core)
        before = contender.process.memory_bytes()[0]
        clients = hold(lab, contender, options.connections, load_core)
        time.sleep(SETTLE_SECONDS)
        with_them = contender.process.memory_bytes()[0]
        contender.process.check_alive()
        lab.stop(clients)
        lab.stop(warm)
        each = (with_them - before) / options.connections
        result[contender.name] = {"before_bytes": before, "with_bytes": with_them, "per_connection_bytes": each}
        print(f"  {contender.name}: {with_them / 1e6:.1f} MB PSS, {before / 1e6:.1f} MB before, {each:,.0f} bytes a connection")
    result["ratio"] = result["weir"]["with_bytes"] / result["nginx"]["with_bytes"]
    print(f"  weir / nginx: {result['ratio']:.2f} (aim: at most 1.0)", flush=True)
    return result


def hold(lab, contender, count, core):
    command = [sys.executable, IDLE_CLIENTS, contender.port, count]
    clients = lab.start("idle-clients", command, [core])
    clients.wait_for_lines("ready", seconds=120)
    return clients


def workers(lab, options):
    """Requests per second with one worker and with two, the load on cores of its own."""
    have = machine()["cores"]
    if have < CORES_FOR_TWO_WORKERS:
        print(f"two workers: not shown; this machine has {have} cores and {CORES_FOR_TWO_WORKERS} are needed", flush=True)
        return {"shown": False, "cores": have}
    usable = list(range(have))
    origin = contenders.start_origin(lab, options.binary, usable[3])
    resources = contenders.weir_resources(origin, 1000, True)
    one = contenders.start_weir(lab, options.binary, [usable[0]], resources=resources)
    two = contenders.start_weir(lab, options.binary, usable[:2], workers=2, resources=resources)
    ratios = []
    for _ in range(options.rounds):
        single, double = (run_once(SCENARIOS[0], each, options.seconds, (usable[0], usable[2])) for each in (one, two))
        ratios.append(double["requests_per_second"] / single["requests_per_second"])
    result = {"shown": True, **spread(ratios)}
    print(f"two workers beside one: {shown(result, 'times the requests')} (aim: at least 1.8)", flush=True)
    return result


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(result, unit):
    numbers = [value for value in result.values() if isinstance(value, float)]
    return f"{numbers[0]:.2f} {unit} ({numbers[1]:.2f}..{numbers[2]:.2f})"


FIGURES = {
    "startup": startup,
    "idle": idle,
    "workers": workers,
    "routes": many_routes.lookup_and_memory,
    "change": many_routes.change,
    "loading": cluster.loading,
    "cluster": cluster.cluster,
}

if __name__ == "__main__":
    run_main(main)
