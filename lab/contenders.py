"""Starts Weir and its origin: one route to one origin for the measured paths, connections kept on both sides, an upstream
pool larger than any run needs, no access log. Measures nothing."""

import json

from common import Lab, LabError, first_line

# More than the widest run keeps open, so that a steady run opens no new connection.
POOL_SIZE = 1024


class Contender:
    """A running gateway: its process, the port of its proxy, what it says of its version."""

    def __init__(self, name, version, process, port, addresses=None):
        self.name, self.version, self.process, self.port = name, version, process, port
        self.addresses = addresses or {}


def start_weir(lab: Lab, binary, cores, workers=1, resources=None, key=None, data=None, port=0, more=()):
    """Weir, its proxy on this port, else on a free one as all others; `resources` is the object of a declarative file,
    without it the embedded store is used."""
    directory = lab.subdirectory("weir")
    command = [binary, "run", "--workers", workers, "--data", data or directory / "data"]
    command += ["--proxy", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    command += ["--control", "off", "--status", "off", "--proxy-tls", "off"]
    if resources is not None:
        file = directory / "resources.json"
        file.write_text(json.dumps(resources))
        command += ["--resources", file]
    command += more
    process = lab.start("weir", command, cores, {"WEIR_ADMIN_KEY": key} if key else None)
    addresses = listeners(process.wait_for_lines("ready"))
    return Contender("weir", first_line(str(binary), "version"), process, addresses["proxy"], addresses)


def start_origin(lab: Lab, binary, core):
    """The built-in echo origin on one core; its port."""
    process = lab.start("origin", [binary, "origin", "--listen", "127.0.0.1:0"], [core])
    return listeners(process.wait_for_lines("ready"))["origin"]


def listeners(lines):
    """The ports of `listening NAME ADDRESS` lines."""
    ports = {}
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[0] == "listening":
            ports.setdefault(words[1], int(words[2].rsplit(":", 1)[1]))
    if not ports:
        raise LabError(f"no `listening NAME ADDRESS` line in {lines}")
    return ports


def weir_resources(origin, routes, prometheus):
    """The measured routes among `routes` others (half exact, half by prefix), one upstream, one global rule."""
    others = [
        {"id": f"r{number}", "uri": route_path(number), "upstream_id": "origin"} for number in range(routes)
    ]
    measured = [
        {"id": "small", "uri": "/checked-out", "upstream_id": "origin"},
        {"id": "page", "uri": "/sample.html", "upstream_id": "origin"},
    ]
    resources = {"upstreams": [weir_upstream(origin)], "routes": others + measured}
    if prometheus:
        resources["global_rules"] = [{"id": "metrics", "plugins": {"prometheus": {}}}]
    return resources


def weir_upstream(origin):
    return {
        "id": "origin",
        "type": "roundrobin",
        "nodes": {f"127.0.0.1:{origin}": 1},
        "keepalive_pool": {"size": POOL_SIZE, "idle_timeout": 600, "requests": 1_000_000_000},
    }


def route_path(number):
    return f"/service-{number // 2:06}/orders" if number % 2 == 0 else f"/service-{number // 2:06}/items/*"
