#!/usr/bin/env python3
"""A long run of mixed traffic: `make soak`, or `lab/soak.py --help`.

Small and large bodies both ways, with and without chunks, short and kept connections, clients that leave in the middle,
tunnels, and changes through the Admin API all the while. Every answer is checked byte by byte. At the end: was memory
flat, are all descriptors back, and do the gateway's own counters say what the clients saw?
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import contenders
import report
from admin import KEY, Admin, metric, metrics
from checking import CheckedClient, Fault
from common import BINARY, Lab, LabError, machine, need_binary, need_programs, run_main
from load import Load, read_wrk

ORIGIN = Path(__file__).resolve().parent / "checked_origin.py"
PATHS = ORIGIN.with_name("paths.lua")
SAMPLE_SECONDS = 5
# Pools fill and tables grow to their size in this part of the run; memory is compared after it.
WARM_UP_SHARE = 0.2
# The memory at a mark is the median of the samples in this share of the run before it, because a single sample includes
# the bodies in flight.
MARK_SHARE = 0.1
# Limit of "flat": the greatest of the four marks over the least.
FLAT_RATIO = 1.02
# A kept connection to the origin ends after this time without a request, so that the end of the run is soon clean.
POOL_IDLE_SECONDS = 5
# Number of routes that are added and removed; none of them is requested.
CHURN = 50
CHANGES_PER_SECOND = 2
# As many versions as the store keeps, made before the traffic: its history grows until then, and pages of it are kept
# in memory. A gateway that has run for weeks is past that.
VERSIONS_KEPT = 10_000
# The paths that wrk requests in turn: enough requests to show a leak of bytes, with pauses that leave the machine
# usable.
VOLUME_PATHS = ("/checked-out", "/sample.html", "/bytes/3000", "/chunked/500", "/delay/5", "/echo")
VOLUME_CONNECTIONS = 16
VOLUME_PAUSE_MS = 25
ALL_CORES = ",".join(map(str, sorted(os.sched_getaffinity(0))))


class Traffic:
    """All clients: their actions and their observations."""

    def __init__(self, port, seed):
        self.port, self.random, self.counts, self.faults, self.number = port, random.Random(seed), Counter(), [], 0
        self.stopping = False

    def tasks(self):
        """Every client as a coroutine: how many of a kind, what each does, the mean pause between two times."""
        kinds = (
            (6, self.small, 0.05),
            (2, self.upload, 0.4),
            (2, self.download, 0.4),
            (2, self.short, 0.1),
            (1, self.leave_an_upload, 0.5),
            (1, self.leave_a_download, 0.5),
            (3, self.tunnel, 2),
        )
        return [self.repeat(act, pause) for count, act, pause in kinds for _ in range(count)]

    async def repeat(self, act, pause):
        client = CheckedClient(self.port)
        while not self.stopping:
            self.number += 1
            try:
                self.counts[await act(client, f"{act.__name__}-{self.number}")] += 1
            except Fault as fault:
                self.counts[fault.kind] += 1
                self.faults.append(str(fault))
            await asyncio.sleep(self.random.uniform(0, 2 * pause))
        client.leave()

    async def small(self, client, identity):
        await client.ask(identity, download=self.random.randrange(2000))
        return "whole"

    async def upload(self, client, identity):
        await client.ask(identity, upload=self.random.randrange(1, 1_000_000), as_chunks=self.random.random() < 0.5)
        return "whole"

    async def download(self, client, identity):
        await client.ask(identity, download=self.random.randrange(1_000_000), as_chunks=self.random.random() < 0.5)
        return "whole"

    async def short(self, client, identity):
        await client.ask(identity, upload=100, keep=False)
        return "whole"

    async def leave_an_upload(self, client, identity):
        await client.abandon_upload(identity, 500_000)
        return "left an upload"

    async def leave_a_download(self, client, identity):
        # More than sockets and buffers on the way hold, so that the gateway is in the middle of the response, too.
        await client.abandon_download(identity, 20_000_000)
        return "left a download"

    async def tunnel(self, client, identity):
        await client.tunnel(identity, messages=self.random.randrange(1, 100), pause_seconds=0.1)
        return "tunnel"


def main():
    options = arguments()
    need_programs("wrk", "taskset")
    need_binary(options.binary)
    with Lab() as lab:
        result = asyncio.run(Soak(lab, options).run())
    path = report.save("soak", options.save, {"machine": machine(), **result})
    print(f"kept as {path}")
    return 0 if result["good"] else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="how long (30)")
    parser.add_argument("--seed", type=int, default=1, help="of sizes and pauses (1)")
    parser.add_argument("--save", metavar="NAME", type=report.result_name, help="name of the JSON file under lab/results")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the gateway (target/release/weir)")
    options = parser.parse_args()
    if options.minutes < 1:
        raise LabError("--minutes is at least 1")
    return options


class Soak:
    """One run: gateway, origins, traffic, samples and verdict."""

    def __init__(self, lab, options):
        self.lab, self.options, self.seconds = lab, options, options.minutes * 60
        origin = lab.start("checked-origin", [sys.executable, ORIGIN])
        self.origin = contenders.listeners(origin.wait_for_lines("ready"))["origin"]
        volume = lab.start("origin", [options.binary, "origin", "--listen", "127.0.0.1:0"])
        self.volume = contenders.listeners(volume.wait_for_lines("ready"))["origin"]
        self.log, self.logged = lab.subdirectory("log") / "access.log", Counter()
        more = ["--access-log", self.log, "--access-log-format", "$status $weir_cause"]
        self.weir = contenders.start_weir(lab, options.binary, None, workers=2, key=KEY, more=more)
        self.admin = Admin(self.weir.addresses["admin"])
        self.changes, self.samples = VERSIONS_KEPT, []
        self.configure()

    def configure(self):
        for name, port in (("checked", self.origin), ("volume", self.volume)):
            upstream = {**contenders.weir_upstream(port), "id": name}
            upstream["keepalive_pool"]["idle_timeout"] = POOL_IDLE_SECONDS
            self.admin.put(f"upstreams/{name}", upstream)
        self.admin.put("global_rules/metrics", {"plugins": {"prometheus": {}}})
        self.admin.put("routes/checked", {"uris": ["/check/*"], "upstream_id": "checked"})
        self.admin.put("routes/tunnel", {"uri": "/tunnel/*", "upstream_id": "checked", "enable_websocket": True})
        self.admin.put("routes/volume", {"uri": "/*", "upstream_id": "volume"})

    async def run(self):
        traffic = Traffic(self.weir.port, self.options.seed)
        print(f"{VERSIONS_KEPT:,} changes, so that the history is as long as it becomes", flush=True)
        for number in range(VERSIONS_KEPT):
            self.change_once(number)
        await self.let_go_of_admin()
        descriptors = self.descriptors()
        print(f"{self.options.minutes:g} minutes of mixed traffic", flush=True)
        tasks = [asyncio.create_task(each) for each in (*traffic.tasks(), self.change(traffic), self.watch(traffic))]
        with Load(self.wrk(), ALL_CORES) as load:
            # A task that ends early has failed.
            await asyncio.wait(tasks, timeout=self.seconds, return_when=asyncio.FIRST_EXCEPTION)
            traffic.stopping = True
            await asyncio.gather(*tasks)
            volume = read_wrk(load.report(self.seconds + 60))
        afterwards = await self.settle(descriptors)
        return self.judge(traffic, volume, descriptors, afterwards)

    def wrk(self):
        """The volume: small, large and chunked answers on kept connections, with pauses."""
        file = self.lab.subdirectory("paths") / "paths.txt"
        file.write_text("".join(f"{path}\n" for path in VOLUME_PATHS))
        url = f"http://127.0.0.1:{self.weir.port}/"
        settings = [f"LAB_PATHS={file}", f"LAB_DELAY_MS={VOLUME_PAUSE_MS}"]
        wrk = ["wrk", "-t1", f"-c{VOLUME_CONNECTIONS}", f"-d{int(self.seconds)}s", "--latency", "-s", PATHS, url]
        return ["env", *settings, *wrk]

    async def change(self, traffic):
        """Routes come and go, and the one that is asked for changes, until the traffic ends."""
        while not traffic.stopping:
            await asyncio.to_thread(self.change_once, self.changes)
            self.changes += 1
            await asyncio.sleep(1 / CHANGES_PER_SECOND)

    def change_once(self, number):
        route = f"routes/churn-{number % CHURN}"
        if number % 5 == 4:
            told = {"response-rewrite": {"headers": {"set": {"X-Change": str(number)}}}}
            self.admin.patch("routes/checked", {"plugins": told})
        elif number // CHURN % 2:
            self.admin.delete(route)
        else:
            # Objects of very different sizes, so that the memory freed by one does not fit the next.
            self.admin.put(route, {"uri": f"/churn/{number}/*", "upstream_id": "checked", "desc": "x" * (number * 37 % 200)})

    async def watch(self, traffic):
        """Memory and descriptors now and then, and a new log file every minute, until the traffic ends."""
        started = time.monotonic()
        while not traffic.stopping:
            elapsed = time.monotonic() - started
            pss, rss = self.weir.process.memory_bytes()
            self.samples.append({"second": elapsed, "pss_bytes": pss, "rss_bytes": rss, "descriptors": self.descriptors()})
            if len(self.samples) % (60 // SAMPLE_SECONDS) == 0:
                self.turn_log()
                print(f"  {elapsed / 60:4.1f} min: {rss / 1e6:6.2f} MB resident, {traffic.number:,} checked requests", flush=True)
            await asyncio.sleep(SAMPLE_SECONDS)

    def turn_log(self):
        """Counts the lines of the log before the last, and has the gateway begin another."""
        before = self.log.with_suffix(".before")
        if before.exists():
            self.logged.update(before.read_text().splitlines())
        self.log.rename(before)
        self.weir.process.child.send_signal(signal.SIGUSR1)

    def descriptors(self):
        return len(list(Path(f"/proc/{self.weir.process.pid}/fd").iterdir()))

    async def let_go_of_admin(self):
        """Closes the Admin connection, which is no part of the count of descriptors; the next change opens one."""
        self.admin.connection.close()
        await asyncio.sleep(1)

    async def settle(self, descriptors):
        """Waits until the pools are empty; returns memory and descriptors then."""
        await self.let_go_of_admin()
        deadline = time.monotonic() + 6 * POOL_IDLE_SECONDS
        while self.descriptors() > descriptors and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
        self.turn_log()
        # Lines in flight have been written when the gateway has opened its new file.
        while not self.log.exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        self.turn_log()
        pss, rss = self.weir.process.memory_bytes()
        return {"descriptors": self.descriptors(), "pss_bytes": pss, "rss_bytes": rss}

    def judge(self, traffic, volume, descriptors, afterwards):
        """Prints the verdict; returns the part that is kept."""
        marks = quarter_marks(self.samples)
        flat = max(marks) / min(marks)
        text = metrics(self.weir.addresses["metrics"])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.origin}/seen", timeout=60) as answer:
            seen = json.load(answer)
        counts = traffic.counts
        checked = counts["whole"] + counts["left a download"]
        # (name, number seen by the clients, number counted by the other side, how many of the latter no client waited
        # for)
        rows = [
            ("answers 200 of the checked route", checked, status(text, "checked", 200), 0),
            ("of those, seen by the origin", checked, seen["requests"], 0),
            ("left in the middle", counts["left an upload"] + counts["left a download"], failures(text, "client"), 0),
            ("tunnels", counts["tunnel"], status(text, "tunnel", 101), 0),
            ("tunnels at the origin", counts["tunnel"], seen["tunnels"], 0),
            ("answers to the volume", volume["requests"], status(text, "volume", 200), VOLUME_CONNECTIONS),
            ("all requests", sum(counts.values()) + volume["requests"], metric(text, "apisix_http_requests_total"), VOLUME_CONNECTIONS),
            ("lines of the access log", metric(text, "apisix_http_requests_total"), self.logged.total(), 0),
        ]
        agree = all(0 <= theirs - ours <= more for _, ours, theirs, more in rows)
        faults = len(traffic.faults) + volume["failed"] + seen["doubled"] + seen["uploads_that_differ"]
        print(f"  clients: {dict(counts)}, {self.changes - VERSIONS_KEPT:,} changes; volume: {volume['requests']:,} requests, {volume['failed']} failed")
        print(f"  faults: {faults} (aim: 0)", *traffic.faults[:10], sep="\n    " if traffic.faults else "")
        print(f"  resident at the quarter marks: {', '.join(f'{mark / 1e6:.2f}' for mark in marks)} MB, ratio {flat:.4f} (aim: {FLAT_RATIO})")
        print(f"  descriptors: {descriptors} before, {afterwards['descriptors']} afterwards")
        for what, ours, theirs, _ in rows:
            print(f"  {what}: {ours:,} by the clients, {theirs:,} counted")
        good = agree and not faults and flat <= FLAT_RATIO and afterwards["descriptors"] == descriptors
        print(f"  {'good' if good else 'NOT as it should be'}", flush=True)
        return {
            "good": good,
            "minutes": self.options.minutes,
            "clients": counts,
            "faults": traffic.faults[:100],
            "changes": self.changes - VERSIONS_KEPT,
            "volume": volume,
            "quarter_marks_rss_bytes": marks,
            "flat_ratio": flat,
            "descriptors_before": descriptors,
            "afterwards": afterwards,
            "counters": [{"what": what, "clients": ours, "counted": theirs} for what, ours, theirs, _ in rows],
            "log": self.logged,
            "origin": seen,
            "samples": self.samples[:: max(len(self.samples) // 120, 1)],
        }


def quarter_marks(samples):
    """The median resident memory before each quarter's end, behind the warm-up."""
    end = samples[-1]["second"]
    begin = end * WARM_UP_SHARE
    marks = []
    for quarter in range(1, 5):
        mark = begin + (end - begin) * quarter / 4
        near = [one["rss_bytes"] for one in samples if mark - end * MARK_SHARE <= one["second"] <= mark]
        marks.append(statistics.median(near))
    return marks


def status(text, route, code):
    return metric(text, "apisix_http_status", route=route, code=str(code))


def failures(text, blame):
    return metric(text, "weir_failures_total", blame=blame)


if __name__ == "__main__":
    run_main(main)
