#!/usr/bin/env python3
"""Measures the cost of a plugin runner: the same route without a plugin and with one of the runner for Go, in turns.

    lab/plugin_runner.py [--binary FILE] [--rounds N] [--seconds S]

`limit-req` of the runner with a limit that is never reached lets each request pass, so that the figures are the cost of the call
alone. lab/install.sh test builds the runner. One core has the gateway, another one the load, the origin and the runner.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

from common import BINARY, ROOT, Lab, LabError

RUNNER = ROOT / "target" / "test-go" / "bin" / "go-runner"
KEY = "plugin-runner-measurement-0000"
PORTS = {"proxy": 19480, "admin": 19481, "control": 19482, "origin": 19483}
GATEWAY_CORE, OTHER_CORE = 0, 1
# One connection shows the time of a call; many show the processor time of the gateway.
SINGLE, MANY = 1, 32
PLUGIN = {"conf": [{"name": "limit-req", "value": json.dumps({"rate": 1e9, "burst": 1_000_000})}]}


def call(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"X-API-KEY": KEY})
    if body is not None:
        request.method, request.data = "PUT", json.dumps(body).encode()
    with urllib.request.urlopen(request) as response:
        return response.read()


def start(lab, binary):
    lab.start("origin", [binary, "origin", "--listen", f"127.0.0.1:{PORTS['origin']}"], [OTHER_CORE]).wait_for_port(PORTS["origin"])
    listeners = ["--proxy", f"127.0.0.1:{PORTS['proxy']}", "--proxy-tls", "off", "--status", "off", "--metrics", "off"]
    listeners += ["--admin", f"127.0.0.1:{PORTS['admin']}", "--control", f"127.0.0.1:{PORTS['control']}"]
    runner = json.dumps(["taskset", "-c", str(OTHER_CORE), str(RUNNER), "run", "--mode", "prod"])
    command = [binary, "run", "--workers", "1", "--data", lab.subdirectory("data"), *listeners, "--plugin-runner", runner]
    gateway = lab.start("weir", command, [GATEWAY_CORE], {"WEIR_ADMIN_KEY": KEY})
    gateway.wait_for_lines("ready")
    for name, plugins in (("plain", {}), ("runner", {"ext-plugin-pre-req": PLUGIN})):
        upstream = {"nodes": {f"127.0.0.1:{PORTS['origin']}": 1}}
        call(PORTS["admin"], f"/apisix/admin/routes/{name}", {"uri": f"/{name}", "plugins": plugins, "upstream": upstream})
    deadline = time.monotonic() + 20
    while json.loads(call(PORTS["control"], "/v1/plugin_runner"))["state"] != "running":
        if time.monotonic() > deadline:
            raise LabError(f"the runner does not run:\n{gateway.errors()}")
        time.sleep(0.05)
    return gateway


def processor_seconds(gateway):
    """Of the gateway alone: the runner is one of its descendants."""
    fields = open(f"/proc/{gateway.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def load(binary, name, connections, seconds):
    command = [binary, "lab", "load", "--json", "--connections", connections, "--seconds", seconds]
    command.append(f"http://127.0.0.1:{PORTS['proxy']}/{name}")
    done = subprocess.run(["taskset", "-c", str(OTHER_CORE), *map(str, command)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(arguments):
    figures = {name: {"p50_us": [], "cpu_us": [], "rate": []} for name in ("plain", "runner")}
    with Lab() as lab:
        gateway = start(lab, arguments.binary)
        for _ in range(arguments.rounds):
            for name, found in figures.items():
                found["p50_us"].append(load(arguments.binary, name, SINGLE, arguments.seconds)["latency"]["p50_ms"] * 1_000)
                before = processor_seconds(gateway)
                many = load(arguments.binary, name, MANY, arguments.seconds)
                found["cpu_us"].append((processor_seconds(gateway) - before) * 1e6 / many["requests"])
                found["rate"].append(many["requests"] / arguments.seconds)
    return {name: {unit: statistics.median(values) for unit, values in found.items()} for name, found in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    figures = measure(parser.parse_args())
    plain, runner = figures["plain"], figures["runner"]
    for name, found in figures.items():
        print(f"{name:7} p50 {found['p50_us']:7.1f} us   gateway {found['cpu_us']:6.1f} us of CPU a request   {found['rate']:8.0f} requests/s")
    print(f"a call adds {runner['p50_us'] - plain['p50_us']:.1f} us at p50; the gateway takes {runner['cpu_us'] / plain['cpu_us']:.2f} times the CPU")


if __name__ == "__main__":
    try:
        main()
    except (LabError, subprocess.CalledProcessError, urllib.error.URLError) as error:
        sys.exit(f"plugin_runner: {error}")
