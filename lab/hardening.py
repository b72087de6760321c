#!/usr/bin/env python3
"""What the gateway withstands, in figures: `make hardening`, or `lab/hardening.py --help`.

slow      7,000 slow and idle clients beside normal ones: latency of the normal ones
crowd     the same clients: memory with and after them, and how each kind ends
chunks    uploads in chunks of one byte: latency of a normal client beside them, against nginx
lost      changes, reloads, upgrades, drains and crashes beside traffic whose every answer is checked byte by byte
overload  an origin that slows down under three times what it can serve, with the adaptive limit and without it

The long run of mixed traffic is `make soak`.
"""

import argparse
import json
from pathlib import Path

import beside_slow
import nothing_lost
import overload
import report
import slow_clients
import small_chunks
from common import BINARY, RESULTS, Lab, machine, need_binary, need_programs, run_main

FIGURES = {
    "slow": beside_slow.latency,
    "crowd": slow_clients.ends,
    "chunks": small_chunks.chunks,
    "lost": nothing_lost.lost,
    "overload": overload.overload,
}


def main():
    options = arguments()
    need_programs("wrk", "taskset", "chrt")
    need_binary(options.binary)
    results = kept(options.save)
    for name in options.figure:
        print(f"{name}:", flush=True)
        with Lab() as lab:
            results[name] = FIGURES[name](lab, options)
    path = report.save("hardening", options.save, {"machine": machine(), "figures": results})
    print(f"\nkept as {path}")
    return 0 if all(one["good"] for one in results.get("lost", {}).values()) else 1


def kept(name):
    """The figures that a file of this name holds: those that are not measured now stay in it."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["figures"] if name and path.exists() else {}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="*", help=f"which of {', '.join(FIGURES)} (all)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--seconds", type=int, default=4, help="length of one run (4)")
    parser.add_argument("--slow-seconds", type=int, default=10, help="between bytes of a head or body in `slow` (10, as slowhttptest does)")
    parser.add_argument("--save", metavar="NAME", type=report.result_name, help="JSON file under lab/results; other figures in it stay")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the gateway (target/release/weir)")
    options = parser.parse_args()
    if options.slow_seconds < 1:
        parser.error("--slow-seconds is 1 or more")
    options.figure = report.chosen(parser, options.figure, FIGURES)
    return options


if __name__ == "__main__":
    run_main(main)
