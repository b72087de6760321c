#!/usr/bin/env python3
"""Thousands of clients that are slow on purpose, in one process that costs little; `lab/slow_clients.py` starts it.

    slow_crowd.py PORT HEADS BODIES READERS IDLE

HEADS send a request's head by the byte, BODIES its body, READERS take a large answer by a few bytes, each about once a
second; IDLE ask once and keep their connection. It prints `ready` when all are connected, and at TERM what became of each
kind as one line of JSON. A client that is cut does not reconnect. It measures nothing of the gateway.
"""

import errno
import heapq
import json
import resource
import select
import signal
import socket
import statistics
import sys
import time
from collections import Counter

TURN_SECONDS = 1.0
# Segment size of a network. With the segments of loopback, 64 KB, the kernel would take a megabyte from the gateway at
# once, and the gateway would see no slow reader.
SEGMENT_BYTES = 1460
# Small, so that the response does not fit into the kernel's buffer on this side.
READER_BUFFER_BYTES = 4096
READ_BYTES = 8
LARGE_PATH = "/bytes/1000000"
BODY_BYTES = 100_000
# Connections opened at once while the crowd gathers: the queue of a listener holds them.
GATHER_AT_ONCE = 200

HEAD = b"GET /checked-out HTTP/1.1\r\nHost: slow\r\nX-Slow: " + b"s" * 1000
BODY = f"POST /echo HTTP/1.1\r\nHost: slow\r\nContent-Length: {BODY_BYTES}\r\n\r\n".encode()
QUESTION = "GET {} HTTP/1.1\r\nHost: slow\r\n\r\n"


class Client:
    """One connection: what it has said, and how it ended."""

    def __init__(self, kind):
        self.kind, self.sent = kind, 0

    def connect(self, port):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        if self.kind == "reader":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READER_BUFFER_BYTES)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began, self.sent, self.answer = time.monotonic(), 0, b""
        if self.kind == "body":
            self.socket.send(BODY)
        elif self.kind == "reader":
            self.socket.send(QUESTION.format(LARGE_PATH).encode())
        elif self.kind == "idle":
            self.socket.send(QUESTION.format("/checked-out").encode())

    def turn(self):
        """Its little once a second; an error says that it was cut, which epoll tells too."""
        try:
            if self.kind == "head":
                if self.sent == 0:
                    self.began = time.monotonic()
                self.socket.send(HEAD[self.sent : self.sent + 1])
            elif self.kind == "body":
                self.socket.send(b"b")
            elif self.kind == "reader":
                self.socket.recv(READ_BYTES)
            self.sent += 1
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EPIPE, errno.ECONNRESET):
                raise

    def ending(self, events):
        """How it ended (an answer's status, `reset`, `closed`), or None as long as it has not."""
        if self.kind != "reader":
            try:
                while piece := self.socket.recv(4096):
                    self.answer += piece
            except BlockingIOError:
                pass
            except OSError:
                return "reset"
        if self.kind in ("head", "body") and self.answer:
            return self.answer[9:12].decode(errors="replace")
        if events & (select.EPOLLERR | select.EPOLLHUP):
            return "reset"
        return "closed" if events & select.EPOLLRDHUP else None


class Crowd:
    def __init__(self, port, counts):
        self.port, self.ending = port, False
        self.poll, self.clients, self.turns = select.epoll(), {}, []
        self.counts = dict(zip(("head", "body", "reader", "idle"), counts))
        self.cut = {kind: Counter() for kind in self.counts}
        self.seconds = {kind: [] for kind in self.counts}

    def gather(self):
        """Connects all, the kinds mixed, and lives on meanwhile."""
        kinds = [kind for kind, count in self.counts.items() for _ in range(count)]
        kinds.sort(key=lambda kind, seen=Counter(): (seen.update([kind]), seen[kind] / self.counts[kind])[1])
        for number, kind in enumerate(kinds):
            self.add(Client(kind))
            if number % GATHER_AT_ONCE == 0:
                self.live_until(time.monotonic() + 0.02)

    def add(self, client):
        client.connect(self.port)
        self.clients[client.socket.fileno()] = client
        reads = select.EPOLLIN if client.kind != "reader" else 0
        self.poll.register(client.socket, reads | select.EPOLLRDHUP)
        if client.kind != "idle":
            # Turns are spread over the second by their start.
            heapq.heappush(self.turns, (time.monotonic() + TURN_SECONDS, id(client), client))

    def live_until(self, deadline):
        while not self.ending and (now := time.monotonic()) < deadline:
            while self.turns and self.turns[0][0] <= now:
                due, number, client = heapq.heappop(self.turns)
                # The connection may have been cut since.
                if client.socket.fileno() >= 0:
                    client.turn()
                    heapq.heappush(self.turns, (due + TURN_SECONDS, number, client))
            wait = min(deadline, self.turns[0][0] if self.turns else deadline) - time.monotonic()
            # Polls at most this often, because being a little late for many clients is cheaper than being in time for
            # each.
            for descriptor, events in self.poll.poll(min(max(wait, 0.005), TURN_SECONDS)):
                self.look_at(self.clients[descriptor], events)

    def look_at(self, client, events):
        ending = client.ending(events)
        if ending is None:
            return
        self.cut[client.kind][ending] += 1
        self.seconds[client.kind].append(time.monotonic() - client.began)
        del self.clients[client.socket.fileno()]
        client.socket.close()

    def report(self):
        alive = Counter(client.kind for client in self.clients.values())
        return {
            kind: {"count": count, "alive": alive[kind], "ended": self.cut[kind], "after_seconds": spread(self.seconds[kind])}
            for kind, count in self.counts.items()
        }


def spread(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values)} if values else None


def main():
    port, *counts = map(int, sys.argv[1:6])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd(port, counts)

    def end(*_):
        crowd.ending = True

    signal.signal(signal.SIGTERM, end)
    crowd.gather()
    print("ready", flush=True)
    crowd.live_until(float("inf"))
    print(json.dumps(crowd.report()), flush=True)


if __name__ == "__main__":
    main()
