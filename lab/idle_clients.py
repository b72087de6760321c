#!/usr/bin/env python3
"""Opens keep-alive connections, asks once on each, prints `ready` and holds them; `lab/figures.py` starts it.

A process of its own, so that its descriptors count against its own limit.
"""

import resource
import signal
import socket
import sys


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        connection.sendall(b"GET /checked-out HTTP/1.1\r\nHost: idle\r\n\r\n")
        answer = b""
        while not answer.endswith(b"checked-out response."):
            piece = connection.recv(4096)
            if not piece:
                sys.exit(f"connection {len(connections)} was closed: {answer!r}")
            answer += piece
        connections.append(connection)
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
