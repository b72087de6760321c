"""The gateways that are compared, each as its own guide recommends for production; measures nothing.

All of them: one route to one origin for the measured paths, connections kept on both sides without a limit on
requests, an upstream pool larger than any run needs, no access log, forwarded headers set.
"""

import json

from common import Lab, LabError, first_line, free_port

# More than the widest scenario keeps open, so that no connection is opened anew in a steady run.
POOL_SIZE = 1024
# More than the idle-memory figure opens on the client's side, with room for the origin's.
MOST_CONNECTIONS = 12_000

NGINX = """daemon off;
worker_processes {workers};
worker_rlimit_nofile 20000;
pid {directory}/nginx.pid;
error_log stderr crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  server_tokens off;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  upstream origin {{
    server 127.0.0.1:{origin} max_fails=0;
    keepalive {pool};
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096 reuseport;
    location / {{
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      # The larger page fits into these buffers whole.
      proxy_buffer_size 8k;
      proxy_buffers 8 16k;
    }}
  }}
}}
"""

HAPROXY = """global
  nbthread {workers}
  maxconn {connections}
defaults
  mode http
  option forwardfor
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 600s
frontend in
  bind 127.0.0.1:{port} backlog 4096
  default_backend origin
backend origin
  server s1 127.0.0.1:{origin} pool-max-conn {pool} pool-purge-delay 60s
"""


class Contender:
    """A running gateway: its process, the port of its proxy, what it says of its version."""

    def __init__(self, name, version, process, port, addresses=None):
        self.name, self.version, self.process, self.port = name, version, process, port
        self.addresses = addresses or {}


def start_nginx(lab: Lab, origin, cores, workers=1):
    directory, port = lab.subdirectory("nginx"), free_port()
    text = NGINX.format(
        workers=workers, directory=directory, connections=MOST_CONNECTIONS, origin=origin, pool=POOL_SIZE, port=port
    )
    config = directory / "nginx.conf"
    config.write_text(text)
    process = lab.start("nginx", ["/usr/sbin/nginx", "-p", directory, "-e", "stderr", "-c", config], cores)
    process.wait_for_port(port)
    return Contender("nginx", first_line("/usr/sbin/nginx", "-v").removeprefix("nginx version: "), process, port)


def start_haproxy(lab: Lab, origin, cores, workers=1):
    directory, port = lab.subdirectory("haproxy"), free_port()
    text = HAPROXY.format(workers=workers, connections=8000, origin=origin, pool=POOL_SIZE, port=port)
    config = directory / "haproxy.cfg"
    config.write_text(text)
    process = lab.start("haproxy", ["/usr/sbin/haproxy", "-db", "-f", config], cores)
    process.wait_for_port(port)
    return Contender("haproxy", first_line("/usr/sbin/haproxy", "-v"), process, port)


def start_weir(lab: Lab, binary, cores, workers=1, resources=None, key=None, data=None, port=0, more=()):
    """Weir, its proxy on this port, else on a free one as all others; `resources` is the object of a declarative file,
    without it the embedded store is used."""
    directory = lab.subdirectory("weir")
    command = [binary, "run", "--workers", workers, "--data", data or directory / "data"]
    command += ["--proxy", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    command += ["--control", "off", "--status", "off"]
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
