#!/usr/bin/env python3
"""Weir beside nginx and HAProxy in one run: `make bench`, or `lab/bench.py --help`.

One worker each, pinned to one core; the load generator and the origin on the other. Rounds are interleaved, so that
what disturbs the machine disturbs all alike; a figure is the median of the rounds, a ratio is taken within a round.
"""

import argparse
import time
from pathlib import Path

import contenders
import report
from common import BINARY, Lab, LabError, core_ticks, cores, machine, need_binary, need_programs, run_main
from load import SCENARIOS, Load

PEERS = ("nginx", "haproxy", "weir")
# The edges of a run, when connections are opened and closed, say nothing of a steady proxy.
EDGE_SECONDS = 0.3


def main():
    options = arguments()
    with Lab() as lab:
        proxy_core, load_core, origin_core = cores()
        need_programs("wrk", "ab", "taskset", *(name for name in options.only if name != "weir"))
        need_binary(options.binary)
        origin = contenders.start_origin(lab, options.origin_binary or options.binary, origin_core)
        running = [start(lab, name, origin, proxy_core, options) for name in options.only]
        heading(options, running)
        scenarios = {}
        for scenario in SCENARIOS:
            if scenario.name in options.scenario:
                scenarios[scenario.name] = measure(scenario, running, options, (proxy_core, load_core))
        path = report.save(
            "bench",
            options.save,
            {
                "machine": machine(),
                "versions": {contender.name: contender.version for contender in running},
                "settings": {
                    "rounds": options.rounds,
                    "seconds": options.seconds,
                    "routes": options.routes,
                    "prometheus": options.prometheus,
                },
                "scenarios": scenarios,
            },
        )
    print(f"kept as {path}")


def arguments():
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--seconds", type=int, default=4, help="length of one run (4)")
    parser.add_argument("--quick", action="store_true", help="one short round of the first four scenarios")
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS), help="contenders")
    parser.add_argument("--scenario", nargs="+", choices=names, default=None, help="scenarios (all)")
    parser.add_argument("--routes", type=int, default=1000, help="other routes loaded into weir (1000)")
    parser.add_argument("--no-prometheus", dest="prometheus", action="store_false", help="weir without its global rule")
    parser.add_argument("--save", metavar="NAME", type=report.result_name, help="name of the JSON file under lab/results")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the gateway (target/release/weir)")
    parser.add_argument("--origin-binary", type=Path, help="another weir to take the origin from")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 2
    options.scenario = options.scenario or (names[:4] if options.quick else names)
    if options.rounds < 1 or options.seconds < 1:
        raise LabError("--rounds and --seconds are at least 1")
    return options


def start(lab, name, origin, core, options):
    if name == "nginx":
        return contenders.start_nginx(lab, origin, [core])
    if name == "haproxy":
        return contenders.start_haproxy(lab, origin, [core])
    resources = contenders.weir_resources(origin, options.routes, options.prometheus)
    return contenders.start_weir(lab, options.binary, [core], resources=resources)


def heading(options, running):
    print(f"{options.rounds} interleaved rounds of {options.seconds} s; one worker, one core; medians; CPU ratios within a round (min..max)")
    for contender in running:
        print(f"  {contender.name}: {contender.version}")
    print(flush=True)


def measure(scenario, running, options, placed):
    """Warms every contender up, then runs the rounds; prints the table and returns what is kept."""
    warm_up = {each.name: run_once(scenario, each, 1, placed)["failed"] for each in running}
    rounds = []
    for number in range(options.rounds):
        # Another one comes first in every round: whoever follows a busy core is at a small disadvantage.
        turn = number % len(running)
        order = running[turn:] + running[:turn]
        measured = {each.name: run_once(scenario, each, options.seconds, placed) for each in order}
        rounds.append({each.name: measured[each.name] for each in running})
    rows = report.summarise(rounds)
    print(report.table(scenario.title, rows, warm_up) + "\n", flush=True)
    return {"title": scenario.title, "warm_up_failed": warm_up, "rows": rows, "rounds": rounds}


def run_once(scenario, contender, seconds, placed):
    """One run of the load generator against one contender, with the CPU time and memory of the contender."""
    proxy_core, load_core = placed
    process = contender.process
    user, system = process.cpu_seconds()
    with Load(scenario.command(contender.port, seconds), load_core) as load:
        time.sleep(EDGE_SECONDS)
        busy, total = core_ticks(proxy_core)
        time.sleep(seconds - 2 * EDGE_SECONDS)
        busy_end, total_end = core_ticks(proxy_core)
        pss, rss = process.memory_bytes()
        result = scenario.read(load.report(seconds))
    user_end, system_end = process.cpu_seconds()
    process.check_alive()
    requests = max(result["requests"], 1)
    result["user_us"] = (user_end - user) * 1e6 / requests
    result["system_us"] = (system_end - system) * 1e6 / requests
    result["cpu_us"] = result["user_us"] + result["system_us"]
    result["pss_bytes"], result["rss_bytes"] = pss, rss
    run_seconds = requests / max(result["requests_per_second"], 1e-9)
    result["own_percent"] = 100 * (user_end - user + system_end - system) / run_seconds
    result["core_percent"] = 100 * (busy_end - busy) / max(total_end - total, 1)
    return result


if __name__ == "__main__":
    run_main(main)
