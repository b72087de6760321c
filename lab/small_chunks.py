"""Latency of a normal client beside uploads in chunks of one byte, at this gateway and at nginx in turn; it looks at nothing
else."""

import multiprocessing
import socket
import statistics
import threading
import time

from common import cores, free_port
from contenders import start_origin, start_weir

UPLOADS = 4
PROBES = 400
# Until the uploads have filled all buffers on the way, no side waits for another.
SETTLE_SECONDS = 1.0
CHUNKS = b"1\r\na\r\n" * 10_000
RECEIVE_BYTES = 1 << 20

NGINX = """daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  client_max_body_size 0;
  upstream origin {{ server 127.0.0.1:{origin}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port} reuseport;
    location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    location /sink {{ proxy_pass http://127.0.0.1:{sink}; proxy_http_version 1.1; proxy_request_buffering off; }}
  }}
}}
"""


def chunks(lab, options):
    """Rounds of both gateways in turn: the probe's p50 and p99 in ms, and the MiB a second that reached the sink."""
    proxy_core, load_core, origin_core = cores()
    both = [proxy_core, load_core]
    origin = start_origin(lab, options.binary, origin_core)
    with Sink() as sink:
        gateways = {"weir": weir(lab, options.binary, origin, sink.port, both), "nginx": nginx(lab, origin, sink.port, both)}
        rounds = {name: [] for name in gateways}
        for number in range(options.rounds):
            for name in list(gateways)[:: 1 if number % 2 == 0 else -1]:
                rounds[name].append(measured(gateways[name], sink))
    result = {"uploads": UPLOADS, "probes": PROBES, "rounds": rounds}
    for name, each in rounds.items():
        told = {key: statistics.median(one[key] for one in each) for key in ("p50_ms", "p99_ms", "mib_per_second")}
        result[name] = told
        print(f"  {name:6} p50 {told['p50_ms']:.2f} ms, p99 {told['p99_ms']:.2f} ms, {told['mib_per_second']:.1f} MiB/s uploaded")
    result["good"] = result["weir"]["p50_ms"] <= result["nginx"]["p50_ms"]
    print(f"    the aim, a p50 of at most nginx's, is {'met' if result['good'] else 'missed'}", flush=True)
    return result


def weir(lab, binary, origin, sink, on):
    def to(port):
        return {"nodes": {f"127.0.0.1:{port}": 1}}

    routes = [{"id": "probe", "uri": "/*", "upstream": to(origin)}, {"id": "sink", "uri": "/sink", "upstream": to(sink)}]
    return start_weir(lab, binary, on, workers=len(on), resources={"routes": routes}).port


def nginx(lab, origin, sink, on):
    directory, port = lab.subdirectory("nginx"), free_port()
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(workers=len(on), directory=directory, origin=origin, sink=sink, port=port))
    process = lab.start("nginx", ["/usr/sbin/nginx", "-p", directory, "-e", "stderr", "-c", config], on)
    process.wait_for_port(port)
    return port


def measured(port, sink):
    uploads = [multiprocessing.Process(target=upload, args=(port,), daemon=True) for _ in range(UPLOADS)]
    for process in uploads:
        process.start()
    try:
        time.sleep(SETTLE_SECONDS)
        before, began = sink.received, time.monotonic()
        latencies = probe(port)
        took = time.monotonic() - began
        mib_per_second = (sink.received - before) / took / (1 << 20)
    finally:
        for process in uploads:
            process.kill()
            process.join()
    latencies.sort()
    p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
    return {"p50_ms": p50, "p99_ms": p99, "mib_per_second": mib_per_second}


def upload(port):
    """One body without end, as fast as it is taken."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(b"POST /sink HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            stream.sendall(CHUNKS)


def probe(port):
    """Milliseconds that each of many requests took, one after the other on one connection."""
    latencies = []
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(PROBES):
            began = time.perf_counter()
            stream.sendall(b"GET /checked-out HTTP/1.1\r\nHost: h\r\n\r\n")
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"response."):
                answer += stream.recv(65536)
            latencies.append((time.perf_counter() - began) * 1000)
    return latencies


class Sink:
    """An origin that takes bodies and answers nothing."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.received = self.listener.getsockname()[1], 0
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.take, args=(stream,), daemon=True).start()

    def take(self, stream):
        room = bytearray(RECEIVE_BYTES)
        with stream:
            while True:
                try:
                    count = stream.recv_into(room)
                except OSError:
                    return
                if count == 0:
                    return
                self.received += count
