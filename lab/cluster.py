"""The figures of a cluster: three members of etcd and three nodes on this machine, changes under traffic; and how soon a
node is ready with very many routes from etcd, from its copy of etcd's data and from the embedded store."""

import json
import statistics
import subprocess
import time

import contenders
from admin import KEY, Admin, Probe, put_many
from common import LabError, cores, free_port
from load import Load, read_wrk
from many_routes import Spread, in_force_after, paths_file, set_version

MEMBERS = 3
NODES = 3
CLUSTER_ROUTES = 10_000
# Probe connections per instance, enough that each worker has some, however the kernel's hash distributes their ports.
PROBES_PER_NODE = 8
CONNECTIONS_PER_NODE = 16
SATURATION_SECONDS = 3
# Freed pages go back to the system within this time.
SETTLE_SECONDS = 5
FEW_ROUTES = 100
CHANGE_PAUSE_SECONDS = 0.02


class Etcd:
    """A cluster of etcd on free ports, its data on this machine's disk."""

    def __init__(self, lab, members):
        self.lab = lab
        ports = [(free_port(), free_port()) for _ in range(members)]
        cluster = ",".join(f"m{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(ports))
        self.endpoints = ",".join(f"http://127.0.0.1:{client}" for client, _ in ports)
        self.processes = []
        for number, (client, peer) in enumerate(ports):
            command = ["etcd", "--name", f"m{number}", "--data-dir", lab.subdirectory("etcd") / "data"]
            command += ["--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}"]
            command += ["--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
            command += ["--initial-cluster", cluster, "--quota-backend-bytes", str(4 << 30)]
            self.processes.append(lab.start("etcd", command))
        deadline = time.monotonic() + 30
        while subprocess.run(self.ctl("endpoint", "health"), capture_output=True, env={"ETCDCTL_API": "3"}).returncode != 0:
            if time.monotonic() > deadline:
                raise LabError(f"etcd does not serve:\n{self.processes[0].errors()}")
            time.sleep(0.1)

    def ctl(self, *arguments):
        return ["/usr/bin/etcdctl", "--endpoints", self.endpoints, *arguments]

    def stop(self):
        for process in self.processes:
            self.lab.stop(process)

    def settings(self):
        return ["--source", "etcd", "--etcd-endpoints", self.endpoints]


def cluster(lab, options):
    """From the Admin API's answer of one node until no worker of any node gives the old answer, under traffic."""
    both = sorted(set(cores()))
    origin = contenders.start_origin(lab, options.binary, cores()[2])
    etcd = Etcd(lab, MEMBERS)
    nodes = [contenders.start_weir(lab, options.binary, both, workers=2, key=KEY, more=etcd.settings()) for _ in range(NODES)]
    admins = [Admin(node.addresses["admin"]) for node in nodes]
    upstream = contenders.weir_upstream(origin)
    admins[0].put(f"upstreams/{upstream.pop('id')}", upstream)
    loading = load_routes(nodes[0], CLUSTER_ROUTES)
    set_version(admins[0], 0)
    probes = [Probe(node.port, "/probe") for node in nodes for _ in range(PROBES_PER_NODE)]
    time.sleep(1)
    paths = paths_file(lab, CLUSTER_ROUTES)
    traffic, rate = quarter_of_saturation(nodes, paths, cores()[1])
    # Longer than the changes take; it is stopped by its own clock, which it needs to report.
    seconds = max(20, int(options.changes * 0.2))
    loads = [Load(traffic.command(node.port, seconds), cores()[1]) for node in nodes]
    times = []
    try:
        time.sleep(0.5)
        for version in range(1, options.changes + 1):
            times.append(in_force_after(admins[version % NODES], probes, version))
            time.sleep(CHANGE_PAUSE_SECONDS)
            if any(load.has_ended() for load in loads):
                raise LabError(f"the traffic ended before the {version}th change; give fewer with --changes")
        reports = [read_wrk(load.report(seconds)) for load in loads]
    finally:
        for load in loads:
            load.__exit__()
    for process in [node.process for node in nodes] + etcd.processes:
        process.check_alive()
    times.sort()
    requests, failed = (sum(report[name] for report in reports) for name in ("requests", "failed"))
    result = {
        "load_seconds": loading,
        "saturation_per_second": rate,
        "traffic_per_second": requests / seconds,
        "median_ms": statistics.median(times),
        "p99_ms": times[int(len(times) * 0.99)],
        "max_ms": times[-1],
        "changes": len(times),
        "traffic_requests": requests,
        "traffic_failed": failed,
        "traffic_p99_ms": max(report["p99_ms"] for report in reports),
    }
    print(f"{MEMBERS} members of etcd, {NODES} nodes with 2 workers, {CLUSTER_ROUTES:,} routes (written in {loading:.1f} s, {CLUSTER_ROUTES / loading:,.0f} a second):")
    print(f"  traffic {result['traffic_per_second']:,.0f} requests a second, of {rate:,.0f} at saturation; {requests:,} in all, {failed} failed")
    print(
        f"  a change is in force on every worker of every node {result['median_ms']:.2f} ms after the Admin API's answer at the median,"
        f" {result['p99_ms']:.2f} ms at p99, {result['max_ms']:.2f} ms at most of {len(times)} (aim: 15 and 100 ms)",
        flush=True,
    )
    return result


def quarter_of_saturation(nodes, paths, core):
    """Clients that together ask for a quarter of what the nodes and clients on this machine can do at most."""
    full = Spread(paths, connections=CONNECTIONS_PER_NODE * 4)
    loads = [Load(full.command(node.port, SATURATION_SECONDS), core) for node in nodes]
    rate = sum(read_wrk(load.report(SATURATION_SECONDS))["requests_per_second"] for load in loads)
    # A response takes time too, so a pause is a little shorter than its share, which gives rather more than a quarter
    # than less.
    delay_ms = max(1, int(1000 * CONNECTIONS_PER_NODE * len(nodes) / (rate / 4) - 0.5))
    return Spread(paths, connections=CONNECTIONS_PER_NODE, delay_ms=delay_ms), rate


def load_routes(node, count):
    """Seconds to put so many routes through the node's Admin API."""
    routes = [(f"routes/r{number}", route(number)) for number in range(count)]
    started = time.perf_counter()
    put_many(node.addresses["admin"], routes, connections=64)
    return time.perf_counter() - started


def route(number):
    return {"uri": contenders.route_path(number), "upstream_id": "origin"}


def loading(lab, options):
    """Until `ready` with very many routes, from each source that keeps them; memory of a route; one change."""
    proxy_core, load_core, origin_core = cores()
    origin = contenders.start_origin(lab, options.binary, origin_core)
    result = {"routes": options.routes}
    print(f"{options.routes:,} routes:")
    for source in ("store", "etcd"):
        etcd = Etcd(lab, 1) if source == "etcd" else None
        settings = etcd.settings() if etcd else []
        data = lab.subdirectory(source) / "data"
        place = [proxy_core, load_core]
        node = contenders.start_weir(lab, options.binary, place, workers=1, key=KEY, data=data, more=settings)
        upstream = contenders.weir_upstream(origin)
        Admin(node.addresses["admin"]).put(f"upstreams/{upstream.pop('id')}", upstream)
        load_routes(node, FEW_ROUTES)
        time.sleep(SETTLE_SECONDS)
        few_bytes = node.process.memory_bytes()[0]
        writing = load_routes(node, options.routes)
        lab.stop(node.process)
        figures = {"written_seconds": writing}
        starts = {source: data} if source == "store" else {"etcd": lab.subdirectory("fresh") / "data", "copy": data}
        for name, directory in starts.items():
            if name == "copy":
                etcd.stop()
            started = time.perf_counter()
            node = contenders.start_weir(lab, options.binary, place, workers=1, key=KEY, data=directory, more=settings)
            figures[f"ready_from_{name}_seconds"] = time.perf_counter() - started
            if name == source:
                time.sleep(SETTLE_SECONDS)
                stored = len(json.dumps(route(options.routes - 1), separators=(",", ":"))) + STORED_MORE_BYTES
                many_bytes = node.process.memory_bytes()[0]
                figures["route_bytes"] = (many_bytes - few_bytes) / (options.routes - FEW_ROUTES)
                figures["route_bytes_beyond_json"] = figures["route_bytes"] - stored
                figures["change"] = changes(node, options)
            lab.stop(node.process)
        result[source] = figures
        show(source, figures)
    return result


def changes(node, options):
    admin = Admin(node.addresses["admin"])
    set_version(admin, 0)
    time.sleep(0.2)
    probes = [Probe(node.port, "/probe") for _ in range(PROBES_PER_NODE)]
    times = []
    for version in range(1, options.changes + 1):
        times.append(in_force_after(admin, probes, version))
        time.sleep(CHANGE_PAUSE_SECONDS)
    times.sort()
    return {"median_ms": statistics.median(times), "p99_ms": times[int(len(times) * 0.99)], "max_ms": times[-1]}


def show(source, figures):
    print(f"  {source}: written in {figures['written_seconds']:.1f} s", end="")
    for name, seconds in figures.items():
        if name.startswith("ready_from_"):
            aim = {"ready_from_etcd_seconds": " (aim: 5 s)", "ready_from_store_seconds": " (aim: 2 s)"}.get(name, "")
            print(f"; ready from {name.removeprefix('ready_from_').removesuffix('_seconds')} after {seconds:.2f} s{aim}", end="")
    change = figures["change"]
    print(f"; {figures['route_bytes']:,.0f} bytes a route, {figures['route_bytes_beyond_json']:,.0f} beyond its JSON (aim: 1,536)")
    print(f"    one change in force {change['median_ms']:.2f} ms after the answer at the median, {change['p99_ms']:.2f} at p99 (aim: 10 ms)", flush=True)


# Bytes that the Admin API adds to a route: id, create_time and update_time.
STORED_MORE_BYTES = len(',"id":"r99999","create_time":1700000000,"update_time":1700000000')
