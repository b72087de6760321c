"""What a request touches: instructions and cache misses per request, function by function, of Weir and of nginx, with few and
with many connections. callgrind of valgrind counts and simulates the caches of one core, whatever runs beside it. The kernel's
work, which takes more time than the proxy's, is not counted."""

import json
import re
import shutil
import subprocess
from collections import defaultdict

from common import LabError, cores, free_port
from contenders import POOL_SIZE, listeners, start_origin, weir_resources

CONNECTIONS = (64, 256, 1000)
ROUTES = 1000
# Two loads are counted and the smaller is taken off the larger: what remains are requests on connections that are kept.
FEWER, MORE = 20, 60
# Of each connection, before anything is counted: pools and tables get their memory.
WARM_UP = 5
FUNCTIONS_SHOWN = 25
# Translating the code for the simulation stops everything for seconds.
PATIENCE_SECONDS = 60

# Sizes in bytes, ways, bytes a line: what one core of a server has for itself.
FIRST_LEVEL, LAST_LEVEL = "32768,8,64", "1048576,16,64"
# Events of callgrind: instructions; misses of the first level (instructions, reads, writes); those of the last.
EVENTS = ("Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw")
# Those of one level in EVENTS.
FIRST, LAST = slice(3, 6), slice(6, 9)

VALGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--cache-sim=yes", f"--I1={FIRST_LEVEL}",
            f"--D1={FIRST_LEVEL}", f"--LL={LAST_LEVEL}", "--compress-strings=no", "--compress-pos=no")

NGINX = """daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr crit;
worker_rlimit_nofile {descriptors};
events {{ worker_connections {descriptors}; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  upstream origin {{
    server 127.0.0.1:{origin};
    keepalive {pool};
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    location / {{ proxy_pass http://origin; }}
    include {directory}/routes.conf;
  }}
}}
"""


def working_set(lab, options):
    """Instructions and misses per request of both, for each number of connections."""
    origin = start_origin(lab, options.binary, cores()[1])
    result = {"first_level": FIRST_LEVEL, "last_level": LAST_LEVEL, "requests": {}}
    for name, start in (("weir", weir), ("nginx", nginx)):
        for connections in CONNECTIONS:
            process, port, files = start(lab, options, origin)
            costs = per_request(options.binary, process, port, connections, files)
            lab.stop(process)
            result["requests"][f"{name}-{connections}"] = summary(costs)
            show(name, connections, costs)
    return result


def weir(lab, options, origin):
    """The process, its port, the files that callgrind writes."""
    directory = lab.subdirectory("weir")
    resources = directory / "resources.json"
    resources.write_text(json.dumps(weir_resources(origin, ROUTES, False)))
    command = [options.binary, "run", "--workers", 1, "--data", directory / "data", "--resources", resources]
    command += ["--proxy", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    command += ["--metrics", "off", "--control", "off", "--status", "off", "--proxy-tls", "off"]
    # It would start itself again with this setting, and callgrind would lose it.
    tunables = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000"}
    files = directory / "callgrind.out"
    process = lab.start("weir", [*VALGRIND, f"--callgrind-out-file={files}", *command], None, tunables)
    return process, listeners(process.wait_for_lines("ready"))["proxy"], files


def nginx(lab, options, origin):
    """As `weir`."""
    directory, port = lab.subdirectory("nginx"), free_port()
    half = ROUTES // 2
    routes = [f"location = /service-{number:06}/orders {{ proxy_pass http://origin; }}" for number in range(half)]
    routes += [f"location ^~ /service-{number:06}/items/ {{ proxy_pass http://origin; }}" for number in range(half)]
    (directory / "routes.conf").write_text("\n".join(routes))
    configuration = directory / "nginx.conf"
    names = {"directory": directory, "port": port, "origin": origin, "pool": POOL_SIZE}
    configuration.write_text(NGINX.format(descriptors=4 * max(CONNECTIONS), **names))
    files = directory / "callgrind.out"
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
    command = [program, "-p", directory, "-e", "stderr", "-c", configuration]
    process = lab.start("nginx", [*VALGRIND, f"--callgrind-out-file={files}", *command])
    process.wait_for_port(port)
    return process, port, files


def per_request(binary, process, port, connections, files):
    """Events of each function, divided by the requests that they were counted for."""
    load(binary, port, connections, WARM_UP)
    ask(process, "instrumentation on")
    counted = []
    for number, requests in enumerate((FEWER, MORE), 1):
        load(binary, port, connections, requests)
        ask(process, "dump")
        counted.append(read_costs(files.with_name(f"{files.name}.{number}").read_text()))
    fewer, more = counted
    requests = (MORE - FEWER) * connections
    return {
        function: [(cost - less) / requests for cost, less in zip(costs, fewer.get(function, [0] * len(EVENTS)))]
        for function, costs in more.items()
    }


def load(binary, port, connections, requests):
    """So many requests on each of the connections."""
    command = [binary, "lab", "load", f"http://127.0.0.1:{port}/checked-out", "-c", connections]
    command += ["-n", requests * connections, "--timeout", PATIENCE_SECONDS]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "no failures" not in done.stdout:
        raise LabError(f"the load failed:\n{done.stdout}{done.stderr}")


def ask(process, command):
    """Gives callgrind a command."""
    done = subprocess.run(["vgdb", f"--pid={process.pid}", command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"callgrind does not take {command!r}: {done.stderr}")


def read_costs(text):
    """The events of each function of one of callgrind's files, those of its callees not included."""
    order = re.search(r"^events: (.*)$", text, re.MULTILINE).group(1).split()
    positions = [order.index(event) for event in EVENTS]
    costs = defaultdict(lambda: [0] * len(EVENTS))
    function, is_call = None, False
    for line in text.splitlines():
        if line.startswith("fn="):
            function = plain(line[3:])
        elif line.startswith("calls="):
            is_call = True
        elif line and line[0] in "0123456789+-*":
            if not is_call and function:
                numbers = line.split()[1:]
                total = costs[function]
                for place, position in enumerate(positions):
                    # Zeros at the end of a line are left out.
                    if position < len(numbers):
                        total[place] += int(numbers[position])
            is_call = False
    return dict(costs)


def plain(name):
    """A function's name without the hash of its instance and without callgrind's mark of recursion."""
    return re.sub(r"('\d+|::h[0-9a-f]{16})+$", "", name)


def summary(costs):
    """The sums of all functions, and the functions that cost most."""
    functions = {name: named(numbers) for name, numbers in ranked(costs)}
    return {"all": named(sums(costs)), "functions": functions}


def named(numbers):
    return {event: round(number, 3) for event, number in zip(EVENTS, numbers)}


def sums(costs):
    return [sum(column) for column in zip(*costs.values())]


def ranked(costs):
    """The functions with most misses of the first level first."""
    return sorted(costs.items(), key=lambda one: sum(one[1][FIRST]), reverse=True)[:FUNCTIONS_SHOWN]


def show(name, connections, costs):
    print(f"\n{name}, {connections} connections, per request:")
    print(f"{'instructions':>12} {'code L1':>8} {'read L1':>8} {'write L1':>9} {'last':>7}  misses of the first level by kind, of the last")
    for function, numbers in [("all", sums(costs)), *ranked(costs)]:
        code, read, write = numbers[FIRST]
        print(f"{numbers[0]:12.0f} {code:8.1f} {read:8.1f} {write:9.1f} {sum(numbers[LAST]):7.1f}  {function[:100]}", flush=True)
