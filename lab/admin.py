"""A small Admin API and proxy client for the figures, on kept connections; measures nothing."""

import http.client
import json
import re
import socket
import threading
import urllib.request

from common import LabError

# Only ever given to a gateway that listens on loopback for the length of one run.
KEY = "weir-laboratory-key-0123456789"


class Admin:
    """One kept connection to the Admin API."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def put(self, path, value):
        """Puts an object; fails with the answer unless it was taken."""
        self.ask("PUT", path, value)

    def patch(self, path, value):
        """Changes a part of an object; fails with the answer unless it was taken."""
        self.ask("PATCH", path, value)

    def delete(self, path):
        """Removes an object that is there."""
        self.ask("DELETE", path)

    def ask(self, method, path, value=None):
        body = None if value is None else json.dumps(value)
        headers = {"X-API-KEY": KEY, "Content-Type": "application/json"}
        self.connection.request(method, f"/apisix/admin/{path}", body, headers)
        response = self.connection.getresponse()
        text = response.read()
        if response.status not in (200, 201):
            raise LabError(f"{method} {path}: {response.status} {text.decode(errors='replace')}")


def metrics(port):
    """The text of the metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/apisix/prometheus/metrics", timeout=20) as answer:
        return answer.read().decode()


def metric(text, name, **labels):
    """The sum of all series of this name that have these labels."""
    total = 0
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:{(.*)})? (\S+)", line)
        if found and found[1] == name:
            has = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
            if all(has.get(label) == value for label, value in labels.items()):
                total += float(found[3])
    return int(total)


def put_many(port, objects, connections=8):
    """Puts (path, value) pairs over several connections at once."""
    faults = []

    def work(share):
        try:
            admin = Admin(port)
            for path, value in share:
                admin.put(path, value)
        except (LabError, OSError, http.client.HTTPException) as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(objects[start::connections],), daemon=True) for start in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise LabError(f"loading routes: {faults[0]}")


class Probe:
    """One kept connection to the proxy that asks for one path and reads answers with a Content-Length."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.question = f"GET {path} HTTP/1.1\r\nHost: probe\r\n\r\n".encode()

    def ask(self):
        self.socket.sendall(self.question)

    def answer(self):
        """(status, body) of the next answer."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += self.more(received)
        head, _, body = received.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        while len(body) < length:
            body += self.more(received)
        return int(head.split(b" ", 2)[1]), body

    def more(self, received):
        piece = self.socket.recv(65536)
        if not piece:
            raise LabError(f"the proxy closed a probe's connection after {received!r}")
        return piece
