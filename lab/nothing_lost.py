"""What clients notice of changes, reloads, upgrades, restarts and crashes: every answer is checked byte by byte.

A request is sent once and never repeated, so what is lost is seen, and what comes twice is seen at the origin.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import contenders
from admin import KEY, Admin
from checking import CheckedClient, Fault
from common import LabError
from load import Load, read_wrk

ORIGIN = Path(__file__).resolve().parent / "checked_origin.py"
PATHS = ORIGIN.with_name("paths.lua")
# Several for each worker, some of them with a new connection for each request.
CLIENTS = 24
PAUSE_SECONDS = 0.01
# wrk beside them: kept connections, and as many with a new one for each request.
WRK_CONNECTIONS = 16
WRK_PAUSE_MS = 10
CHANGES, RELOADS, UPGRADES, DRAINS, KILLS = 1_000, 20, 20, 5, 5
# Pause between two disturbances, so that traffic meets each of them.
CHANGE_PAUSE_SECONDS = 0.02
STEP_PAUSE_SECONDS = 0.5
# Faults that a client may see: an instance that ends refuses new connections and closes idle connections at once, some
# at the moment of a request; a killed one also cuts requests in flight.
ALLOWED = {"drains": {"refused", "closed"}, "kills": {"refused", "closed", "broken"}}


class Checkers:
    """The checking clients, in a thread of their own, while the block runs."""

    def __init__(self, port, prefix):
        self.port, self.prefix = port, prefix
        self.counts, self.examples, self.slowest_seconds, self.number = Counter(), {}, 0.0, 0
        self.stopping, self.thread = False, threading.Thread(target=lambda: asyncio.run(self.run()), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()

    async def run(self):
        await asyncio.gather(*(self.repeat(number) for number in range(CLIENTS)))

    async def repeat(self, client_number):
        client = CheckedClient(self.port)
        while not self.stopping:
            self.number += 1
            number, started = self.number, time.monotonic()
            upload = (0, 0, 1_000, 200_000)[number % 4]
            download = (200, 20_000, 200, 200_000)[number // 4 % 4]
            try:
                await client.ask(f"{self.prefix}-{number}", upload, download, number % 3 == 0, client_number % 3 > 0)
                self.counts["whole"] += 1
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
            except Fault as fault:
                self.counts[fault.kind] += 1
                self.examples.setdefault(fault.kind, str(fault))
            await asyncio.sleep(PAUSE_SECONDS)
        client.leave()

    def wait_for_more(self):
        """Waits until as many answers have come as there are clients."""
        wanted, deadline = self.counts["whole"] + CLIENTS, time.monotonic() + 30
        while self.counts["whole"] < wanted:
            if time.monotonic() > deadline:
                raise LabError(f"the traffic does not go on: {dict(self.counts)} {self.examples}")
            time.sleep(0.01)


class Stand:
    """Origin, gateway on its store, and the way to start it again in the same place."""

    def __init__(self, lab, options):
        self.lab, self.options = lab, options
        process = lab.start("checked-origin", [sys.executable, ORIGIN])
        self.origin = contenders.listeners(process.wait_for_lines("ready"))["origin"]
        process = lab.start("origin", [options.binary, "origin", "--listen", "127.0.0.1:0"])
        self.volume = contenders.listeners(process.wait_for_lines("ready"))["origin"]
        self.data, self.port = lab.subdirectory("data"), 0
        self.start()
        for path, value in self.objects(0).items():
            self.admin.put(path, value)

    def start(self):
        more = ["--grace", 10]
        self.weir = contenders.start_weir(self.lab, self.options.binary, None, 2, key=KEY, data=self.data, port=self.port, more=more)
        self.port, self.pid = self.weir.port, self.weir.process.pid
        self.admin = Admin(self.weir.addresses["admin"])

    def objects(self, version):
        """The configuration in one version: what the origin is asked with and what the client is told agree."""
        plugins = {
            "proxy-rewrite": {"headers": {"set": {"X-Asked": str(version)}}},
            "response-rewrite": {"headers": {"set": {"X-Told": str(version)}}},
        }
        return {
            "upstreams/checked": {**contenders.weir_upstream(self.origin), "id": "checked"},
            "upstreams/volume": {**contenders.weir_upstream(self.volume), "id": "volume"},
            "routes/volume": {"uri": "/*", "upstream_id": "volume"},
            "routes/checked": {"uri": "/check/*", "upstream_id": "checked", "plugins": plugins},
        }

    def seen(self):
        """Requests that the origin has received since the last call."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.origin}/forget", timeout=60) as answer:
            return json.load(answer)


def lost(lab, options):
    """Each disturbance in turn, all of them beside traffic."""
    stand = Stand(lab, options)
    results = {}
    for name, (disturb, with_wrk) in DISTURBANCES.items():
        stand.seen()
        times, volume = [], None
        with Checkers(stand.port, name) as checkers:
            checkers.wait_for_more()
            if with_wrk:
                volume = beside_wrk(stand, lambda disturb=disturb: times.extend(disturb(stand, checkers)))
            else:
                times.extend(disturb(stand, checkers))
            checkers.wait_for_more()
        results[name] = judged(name, checkers, volume, stand.seen(), times)
    results["reloads"] = reloads(lab, options, stand)
    return results


def beside_wrk(stand, disturb):
    """Runs the disturbances between two wrk, kept connections and new ones, which are told to end behind them."""
    file = stand.lab.subdirectory("paths") / "paths.txt"
    file.write_text("/checked-out\n/sample.html\n/bytes/3000\n")
    url, cores = f"http://127.0.0.1:{stand.port}/", ",".join(map(str, sorted(os.sched_getaffinity(0))))
    settings = ["env", f"LAB_PATHS={file}", f"LAB_DELAY_MS={WRK_PAUSE_MS}"]
    wrk = ["wrk", "-t1", f"-c{WRK_CONNECTIONS}", "-d1h", "--latency", "-s", PATHS]
    with Load([*settings, *wrk, url], cores) as kept, Load([*settings, *wrk, "-H", "Connection: close", url], cores) as fresh:
        disturb()
        result = Counter()
        for load in (kept, fresh):
            # wrk reports when it is interrupted; requests in flight are then not counted.
            load.child.send_signal(signal.SIGINT)
            report = read_wrk(load.report(1))
            result.update({key: report[key] for key in ("requests", "failed")})
        return result


def changes(stand, checkers):
    """Changes through the Admin API, of the route that is asked for and of others; seconds of each."""
    times = []
    for number in range(1, CHANGES + 1):
        if number % 2:
            path, value = "routes/checked", stand.objects(number)["routes/checked"]
        else:
            path, value = f"routes/other-{number % 50}", {"uri": f"/other/{number}/*", "upstream_id": "volume"}
        started = time.monotonic()
        stand.admin.put(path, value)
        times.append(time.monotonic() - started)
        time.sleep(CHANGE_PAUSE_SECONDS)
    return times


def upgrades(stand, checkers):
    """One process takes over from the other; seconds of each."""
    times = []
    for _ in range(UPGRADES):
        started = time.monotonic()
        command = [str(stand.options.binary), "upgrade", "--data", str(stand.data)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        times.append(time.monotonic() - started)
        found = re.match(r"process (\d+) has taken over from process (\d+)", told.stdout)
        if not found or int(found[2]) != stand.pid:
            raise LabError(f"no upgrade from {stand.pid}: {told.stdout}{told.stderr}")
        stand.pid = int(found[1])
        checkers.wait_for_more()
        time.sleep(STEP_PAUSE_SECONDS)
    return times


def drains(stand, checkers):
    """TERM, the end of what is under way, and a start in the same place; seconds from TERM to the end."""
    times = []
    for _ in range(DRAINS):
        started = time.monotonic()
        os.kill(stand.pid, signal.SIGTERM)
        wait_until_gone(stand.pid)
        times.append(time.monotonic() - started)
        restart(stand, checkers)
    return times


def kills(stand, checkers):
    """KILL and a start in the same place; what was acknowledged before is there. Seconds from the start to `ready`."""
    times = []
    for number in range(1, KILLS + 1):
        path = f"routes/before-kill-{number}"
        stand.admin.put(path, {"uri": f"/before-kill/{number}", "upstream_id": "volume"})
        os.kill(stand.pid, signal.SIGKILL)
        wait_until_gone(stand.pid)
        started = time.monotonic()
        restart(stand, checkers)
        times.append(time.monotonic() - started)
        stand.admin.ask("GET", path)
    return times


def restart(stand, checkers):
    stand.lab.stop(stand.weir.process)
    stand.start()
    checkers.wait_for_more()
    time.sleep(STEP_PAUSE_SECONDS)


def wait_until_gone(pid):
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        if time.monotonic() > deadline:
            raise LabError(f"process {pid} does not end")
        time.sleep(0.01)


def reloads(lab, options, stand):
    """HUP beside traffic, each time with another resources file."""
    file = lab.subdirectory("resources") / "resources.json"
    write_resources(file, stand, 0)
    weir = contenders.start_weir(lab, options.binary, None, 2, more=["--resources", file])
    stand.port = weir.port
    stand.seen()

    def reload():
        for version in range(1, RELOADS + 1):
            write_resources(file, stand, version)
            weir.process.child.send_signal(signal.SIGHUP)
            checkers.wait_for_more()
            time.sleep(STEP_PAUSE_SECONDS)

    with Checkers(weir.port, "reloads") as checkers:
        checkers.wait_for_more()
        volume = beside_wrk(stand, reload)
    weir.process.check_alive()
    return judged("reloads", checkers, volume, stand.seen(), [0.0] * RELOADS)


def write_resources(file, stand, version):
    resources = {}
    for path, value in stand.objects(version).items():
        kind, identity = path.split("/")
        resources.setdefault(kind, []).append({**value, "id": identity})
    # In one step, as an editor does.
    new = file.with_suffix(".new")
    new.write_text(json.dumps(resources))
    new.rename(file)


def judged(name, checkers, volume, seen, times):
    """Prints the result of the traffic; returns the part that is kept."""
    counts, allowed = checkers.counts, ALLOWED.get(name, set())
    unexpected = sum(count for kind, count in counts.items() if kind != "whole" and kind not in allowed)
    faults = unexpected + seen["doubled"] + seen["uploads_that_differ"] + (volume["failed"] if volume else 0)
    others = {kind: count for kind, count in counts.items() if kind != "whole"}
    beside = f", wrk {volume['requests']:,} and {volume['failed']} failed" if volume else ""
    print(
        f"  {len(times):,} {name}: {counts['whole']:,} checked requests whole, {others or 'no other'}, {seen['doubled']} doubled{beside}:"
        f" {'good' if not faults else 'NOT as it should be'}",
        flush=True,
    )
    for kind, example in checkers.examples.items():
        print(f"    {kind}, for example: {example}")
    return {
        "good": not faults,
        "times": len(times),
        "longest_seconds": max(times, default=0.0),
        "clients": counts,
        "examples": checkers.examples,
        "slowest_answer_seconds": checkers.slowest_seconds,
        "volume": volume,
        "origin": seen,
    }


DISTURBANCES = {"changes": (changes, True), "upgrades": (upgrades, True), "drains": (drains, False), "kills": (kills, False)}
