#!/usr/bin/env python3
"""Memory of sessions of layer 4 that wait, at this gateway and at nginx: `lab/idle_sessions.py --help`.

Sessions are opened through each gateway to sockets that accept and say nothing. What its memory has grown by, divided by
their number, is printed. A session takes two descriptors, so that `ulimit -n` bounds how many one gateway can hold.
"""

import argparse
import resource
import select
import socket
import time

from common import BINARY, Lab, LabError, free_port, need_binary, need_programs, run_main
from contenders import start_weir

# Of the nodes and of the clients: a pair of addresses has only about 28,000 free ports.
NODES = [f"127.0.0.{number}" for number in range(11, 19)]
CLIENTS = [f"127.0.1.{number}" for number in range(1, 9)]
# Pools and tables get their first memory from these sessions, which are not counted.
WARM_UP = 200
# Descriptors that the gateway and this program need for other things.
OTHER_DESCRIPTORS = 500
PATIENCE_SECONDS = 60

NGINX = """load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes 1;
worker_rlimit_nofile {descriptors};
pid {directory}/nginx.pid;
error_log stderr crit;
events {{ worker_connections {descriptors}; }}
stream {{
  upstream nodes {{ {servers} }}
  server {{ listen 127.0.0.1:{port}; proxy_pass nodes; }}
}}
"""


class Nodes:
    """Sockets that accept sessions and keep them."""

    def __init__(self):
        self.poll = select.epoll()
        self.listeners = {}
        self.accepted = []
        self.port = free_port()
        for address in NODES:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, self.port))
            listener.listen(4096)
            listener.setblocking(False)
            self.listeners[listener.fileno()] = listener
            self.poll.register(listener, select.EPOLLIN)

    def take(self, seconds):
        """Accepts what has come."""
        for number, _ in self.poll.poll(seconds):
            try:
                while True:
                    self.accepted.append(self.listeners[number].accept()[0])
            except BlockingIOError:
                pass

    def wait_for(self, count):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.accepted) < count:
            if time.monotonic() > deadline:
                raise LabError(f"{len(self.accepted)} of {count} sessions have reached their nodes")
            self.take(1)

    def close(self):
        for one in [*self.accepted, *self.listeners.values()]:
            one.close()


def weir(lab, options, nodes):
    """The process and its port of layer 4."""
    port = free_port()
    upstream = {"scheme": "tcp", "nodes": {f"{address}:{nodes.port}": 1 for address in NODES}}
    more = ["--stream-tcp", f"127.0.0.1:{port}"]
    started = start_weir(lab, options.binary, None, 1, {"stream_routes": [{"id": "idle", "upstream": upstream}]}, more=more)
    return started.process, port


def nginx(lab, options, nodes):
    """As `weir`."""
    directory, port = lab.subdirectory("nginx"), free_port()
    servers = " ".join(f"server {address}:{nodes.port};" for address in NODES)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    file = directory / "nginx.conf"
    file.write_text(NGINX.format(directory=directory, servers=servers, port=port, descriptors=hard))
    process = lab.start("nginx", ["nginx", "-c", file, "-p", directory])
    process.wait_for_port(port)
    return process, port


def bytes_a_session(lab, options, start):
    """Opens the sessions and lets them wait; what each has added to the resident memory."""
    nodes = Nodes()
    process, port = start(lab, options, nodes)
    clients = []

    def open_sessions(count):
        wanted = len(clients) + count
        while len(clients) < wanted:
            client = socket.socket()
            # The port is chosen at the connect, when the destination is known.
            client.setsockopt(socket.IPPROTO_IP, 24, 1)
            client.bind((CLIENTS[len(clients) % len(CLIENTS)], 0))
            client.connect(("127.0.0.1", port))
            clients.append(client)
            nodes.take(0)
        nodes.wait_for(wanted)

    open_sessions(WARM_UP)
    before = process.memory_bytes()[1]
    open_sessions(options.sessions)
    after = process.memory_bytes()[1]
    lab.stop(process)
    nodes.close()
    for client in clients:
        client.close()
    return (after - before) / options.sessions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY, help="the gateway that is measured [default: %(default)s]")
    most = (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - OTHER_DESCRIPTORS) // 2 - WARM_UP
    parser.add_argument("--sessions", type=int, default=min(most, 50_000), help="[default: %(default)s]")
    options = parser.parse_args()
    if options.sessions > most:
        raise LabError(f"the limit of open files (ulimit -Hn) allows {most} sessions")
    need_binary(options.binary)
    need_programs("nginx")
    with Lab() as lab:
        for name, start in (("weir", weir), ("nginx", nginx)):
            print(f"{name:6} {bytes_a_session(lab, options, start):,.0f} bytes a session, {options.sessions:,} held", flush=True)


if __name__ == "__main__":
    run_main(main)
