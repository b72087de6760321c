"""How soon a change is in force with very many routes."""

import statistics
import time
from pathlib import Path

import contenders
from admin import KEY, Admin, Probe, put_many
from common import LabError, cores
from load import SMALL_CONNECTIONS, Load, read_wrk, wrk

PATHS = Path(__file__).resolve().parent / "paths.lua"
# Number of paths requested in turn: enough to touch the whole table, few enough to stay in the load generator's cache.
ASKED_PATHS = 97
# Enough for every worker to have some, however the kernel's hash distributes their ports.
PROBES = 16
# Between two changes, so that each is seen alone.
CHANGE_PAUSE_SECONDS = 0.02


class Spread:
    """wrk over many paths in turn."""

    def __init__(self, file, connections=SMALL_CONNECTIONS, delay_ms=None):
        self.file, self.connections, self.delay_ms = file, connections, delay_ms

    def command(self, port, seconds):
        settings = [f"LAB_PATHS={self.file}"] + ([f"LAB_DELAY_MS={self.delay_ms}"] if self.delay_ms else [])
        *plain, url = wrk(port, seconds, "/", self.connections)
        return ["env", *settings, *plain, "-s", PATHS, url]


def change(lab, options):
    """Changes one route over and over while traffic flows; how long until no worker gives the old answer."""
    proxy_core, load_core, origin_core = cores()
    origin = contenders.start_origin(lab, options.binary, origin_core)
    weir = contenders.start_weir(lab, options.binary, [proxy_core, load_core], workers=2, key=KEY)
    admin = Admin(weir.addresses["admin"])
    upstream = contenders.weir_upstream(origin)
    admin.put(f"upstreams/{upstream.pop('id')}", upstream)
    started = time.perf_counter()
    routes = [(f"routes/r{number}", {"uri": contenders.route_path(number), "upstream_id": "origin"}) for number in range(options.routes)]
    put_many(weir.addresses["admin"], routes)
    loading = time.perf_counter() - started
    print(f"{options.routes:,} routes through the Admin API: {loading:.1f} s, {options.routes / loading:,.0f} a second", flush=True)
    set_version(admin, 0)
    probes = [Probe(weir.port, "/probe") for _ in range(PROBES)]
    traffic = Spread(paths_file(lab, options.routes), connections=32, delay_ms=4)
    # Longer than the changes take; it is stopped by its own clock, which it needs to report.
    seconds = max(10, int(options.changes * 0.1))
    times = []
    with Load(traffic.command(weir.port, seconds), load_core) as load:
        time.sleep(0.5)
        for version in range(1, options.changes + 1):
            times.append(in_force_after(admin, probes, version))
            time.sleep(CHANGE_PAUSE_SECONDS)
            if load.has_ended():
                raise LabError(f"the traffic ended before the {version}th change; give fewer with --changes")
        report = read_wrk(load.report(seconds))
    weir.process.check_alive()
    times.sort()
    result = {
        "load_seconds": loading,
        "median_ms": statistics.median(times),
        "p99_ms": times[int(len(times) * 0.99)],
        "max_ms": times[-1],
        "changes": len(times),
        "traffic_requests": report["requests"],
        "traffic_failed": report["failed"],
        "traffic_p99_ms": report["p99_ms"],
    }
    print(
        f"  a change is in force on every worker {result['median_ms']:.2f} ms after the Admin API's answer at the median,"
        f" {result['p99_ms']:.2f} ms at p99, {result['max_ms']:.2f} ms at most (aim: median within 10 ms)"
    )
    print(f"  meanwhile {report['requests']:,} requests, {report['failed']} failed, p99 {report['p99_ms']:.2f} ms", flush=True)
    return result


def set_version(admin, version):
    plugins = {"proxy-rewrite": {"uri": f"/echo/version-{version}"}}
    admin.put("routes/probe", {"uri": "/probe", "upstream_id": "origin", "plugins": plugins})


def in_force_after(admin, probes, version):
    """Milliseconds from the Admin API's answer until all probes have seen the version; an upper bound, since a
    probe's own round trip is part of it. An answer that is neither the version before nor this one is a fault."""
    set_version(admin, version)
    answered = time.perf_counter()
    before, now = (f'"/echo/version-{number}"'.encode() for number in (version - 1, version))
    while True:
        for probe in probes:
            probe.ask()
        answers = [probe.answer() for probe in probes]
        for status, body in answers:
            if status != 200 or not (before in body or now in body):
                raise LabError(f"half a change: {status} {body!r}")
        elapsed = (time.perf_counter() - answered) * 1000
        if all(now in body for _, body in answers):
            return elapsed
        if elapsed > 10_000:
            raise LabError(f"version {version} is not in force everywhere after 10 s")


def paths_file(lab, count):
    """A file of paths that match routes spread over the whole table."""
    step = max(count // ASKED_PATHS, 1)
    # Odd and even numbers in turn: exact routes and prefixes.
    numbers = [min(at * step + at % 2, count - 1) for at in range(min(ASKED_PATHS, count))]
    file = lab.subdirectory("paths") / "paths.txt"
    file.write_text("".join(contenders.route_path(number).replace("*", "7") + "\n" for number in numbers))
    return file
