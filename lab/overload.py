"""An origin that gets three times what it can serve, and slows down by it: with the adaptive limit and without it.

The load is open: requests come when they come, whether the ones before are answered or not.
"""

import asyncio
import random
import sys
import time
from pathlib import Path

import contenders
from checking import CheckedClient, Fault
from common import LabError

ORIGIN = Path(__file__).resolve().parent / "checked_origin.py"
# The origin can serve 200 requests a second.
SERVERS, SERVICE_MS = 8, 40
CAPACITY = SERVERS * 1000 / SERVICE_MS
# (name, share of the capacity, seconds)
PHASES = (("before", 0.5, 5), ("overload", 3.0, 8), ("after", 0.5, 12))
# A client without a response by then gives up.
PATIENCE_SECONDS = 10
# Answers in time: the latency before the overload, times this.
USUAL_TIMES = 2
SEED = 1


class OpenLoad:
    """Requests at random moments, each on a free connection or a new one."""

    def __init__(self, port):
        self.port, self.free, self.number, self.random = port, [], 0, random.Random(SEED)
        # (phase, second of the beginning, milliseconds, status; 0 where there was no answer)
        self.answers = []

    async def run(self):
        """All phases; when each began."""
        self.started, due, tasks, begins = time.monotonic(), 0.0, set(), {}
        for name, share, seconds in PHASES:
            begins[name], end = due, due + seconds
            while due < end:
                await asyncio.sleep(max(0.0, self.started + due - time.monotonic()))
                task = asyncio.create_task(self.ask(name, due))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                due += self.random.expovariate(CAPACITY * share)
        await asyncio.gather(*tasks)
        return begins

    async def ask(self, phase, due):
        client = self.free.pop() if self.free else CheckedClient(self.port)
        self.number += 1
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await client.ask(f"open-{self.number}")
            status = 200
        except TimeoutError:
            client.leave()
            status = 0
        except Fault as fault:
            if fault.kind != "status":
                raise LabError(str(fault)) from None
            status = fault.status
        # Measured from the moment the request was due, so that a late client never makes the gateway look faster.
        self.answers.append((phase, due, (time.monotonic() - self.started - due) * 1000, status))
        self.free.append(client)


def overload(lab, options):
    """Both ways in turn, each with an origin of its own."""
    print(f"  an origin for {CAPACITY:.0f} requests a second gets {PHASES[1][1]:g} times as many for {PHASES[1][2]} s:")
    return {limit: one_way(lab, options, limit) for limit in ("off", "adaptive")}


def one_way(lab, options, limit):
    process = lab.start("checked-origin", [sys.executable, ORIGIN, SERVERS, SERVICE_MS])
    origin = contenders.listeners(process.wait_for_lines("ready"))["origin"]
    resources = {"upstreams": [contenders.weir_upstream(origin)], "routes": [{"id": "all", "uri": "/*", "upstream_id": "origin"}]}
    log = lab.subdirectory("log") / "access.log"
    more = ["--overload", limit, "--access-log", log, "--access-log-format", "$status $request_time"]
    weir = contenders.start_weir(lab, options.binary, None, resources=resources, more=more)
    load = OpenLoad(weir.port)
    begins = asyncio.run(load.run())
    peak = weir.process.memory_bytes()[0]
    lab.stop(weir.process)
    lab.stop(process)
    result = {phase: summary(load.answers, phase) for phase in begins}
    usual = result["before"]["p99_ms"]
    middle = (begins["overload"] + begins["after"]) / 2
    result["second_half"] = summary([one for one in load.answers if one[1] >= middle], "overload")
    result["recovered_after_seconds"] = recovery(load.answers, begins["after"], USUAL_TIMES * usual)
    shed = [float(line.split()[1]) * 1000 for line in log.read_text().splitlines() if line.startswith("503 ")]
    # Times of the 503s by the gateway's own clock, in whole milliseconds.
    result["shed_by_the_gateways_clock_ms"] = {"max": max(shed), "p99": percentile(shed, 0.99)} if shed else None
    result["pss_bytes"] = peak
    during, half, recovered = result["overload"], result["second_half"], result["recovered_after_seconds"]
    print(
        f"    limit {limit}: p99 of what was served {usual:.0f} ms before, {shown(during['p99_ms'])} in the overload,"
        f" {shown(half['p99_ms'])} of what came in its second half (median {shown(half['p50_ms'])})"
    )
    print(f"      {during['served']:,} of {during['asked']:,} served, {during['shed']:,} answered 503, {during['given_up']:,} gave up after {PATIENCE_SECONDS} s")
    if during["shed"]:
        clock = result["shed_by_the_gateways_clock_ms"]
        print(
            f"      503 within {during['shed_p99_ms']:.1f} ms at p99, {during['shed_max_ms']:.1f} at most as the client sees it,"
            f" {clock['max']:.0f} at most by the gateway's clock (aim: 10)"
        )
    seconds = "not within the run" if recovered is None else f"within {recovered} s after the overload"
    print(f"      all is as before {seconds}", flush=True)
    return result


def summary(answers, phase):
    """Summary of the requests of a phase."""
    own = [one for one in answers if one[0] == phase]
    served = sorted(milliseconds for _, _, milliseconds, status in own if status == 200)
    shed = sorted(milliseconds for _, _, milliseconds, status in own if status == 503)
    result = {
        "asked": len(own),
        "served": len(served),
        "shed": len(shed),
        "given_up": sum(1 for one in own if one[3] == 0),
        "others": sum(1 for one in own if one[3] not in (0, 200, 503)),
        "p50_ms": percentile(served, 0.5),
        "p99_ms": percentile(served, 0.99),
    }
    if shed:
        result.update({"shed_p50_ms": percentile(shed, 0.5), "shed_p99_ms": percentile(shed, 0.99), "shed_max_ms": shed[-1]})
    return result


def shown(milliseconds):
    return "nothing" if milliseconds is None else f"{milliseconds:,.0f}"


def percentile(values, share):
    """The value below which this share of the values lies; None without values."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else None


def recovery(answers, begin, usual_ms):
    """Seconds from `begin` to the end of the first second in which requests were served in the usual time, all but one in a
    hundred; None if there is none."""
    seconds = {}
    for _, due, milliseconds, status in answers:
        if due >= begin:
            seconds.setdefault(int(due - begin), []).append(status == 200 and milliseconds <= usual_ms)
    good = [second for second, in_time in seconds.items() if sum(in_time) >= 0.99 * len(in_time)]
    return min(good) + 1 if good else None
