#!/usr/bin/env python3
"""The origin of the checked requests: answers each with its own bytes, and remembers which came, whole and how often.

    checked_origin.py [SERVERS SERVICE_MS]

It prints `listening origin ADDRESS` and `ready`. It knows nothing of the gateway before it. `GET /seen` tells what came,
`GET /forget` begins anew. With SERVERS it serves so many requests at a time, each in SERVICE_MS, and the others wait;
the more wait, the slower it becomes, as what shares locks and caches does.
"""

import asyncio
import json
import sys
from collections import Counter

from checking import READ_AHEAD_BYTES, chunked, parse_head, pattern, read_body

# At least as many as any run opens at once.
BACKLOG = 4096
# This many waiting requests double the service time, twice as many triple it; it never grows further.
CROWD, SLOWEST_TIMES = 50, 3


class Origin:
    def __init__(self, servers=0, service_ms=0):
        self.servers, self.service_seconds, self.waiting = asyncio.Semaphore(servers), service_ms / 1000, 0
        self.forget()

    def forget(self):
        self.seen, self.uploads_that_differ, self.tunnels = Counter(), 0, 0

    async def serve(self, reader, writer):
        """One connection until it ends."""
        try:
            while await self.answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            # The gateway closed the connection, inside a request or between two; an incomplete request is not counted.
            pass
        finally:
            writer.close()

    async def answer(self, reader, writer):
        """One request; whether another may follow."""
        (_, target, _), fields = parse_head(await reader.readuntil(b"\r\n\r\n"))
        body = b""
        if "content-length" in fields or "transfer-encoding" in fields:
            body = await read_body(reader, fields)
        _, place, *parts = target.split("/")
        if place == "tunnel":
            return await self.echo(reader, writer)
        if place == "check":
            if self.service_seconds:
                await self.queue()
            self.check(writer, body, fields.get("x-asked", ""), *parts)
        else:
            writer.write(whole(self.report(place)))
        await writer.drain()
        return fields.get("connection") != "close"

    async def queue(self):
        """Waits for a server, and is served."""
        self.waiting += 1
        async with self.servers:
            self.waiting -= 1
            await asyncio.sleep(self.service_seconds * min(1 + self.waiting / CROWD, SLOWEST_TIMES))

    def check(self, writer, body, asked, identity, download, framing):
        self.seen[identity] += 1
        is_whole = body == pattern(identity, len(body))
        self.uploads_that_differ += not is_whole
        own = f"X-Identity: {identity}\r\nX-Upload: {'whole' if is_whole else 'differs'}\r\nX-Asked: {asked}\r\n"
        answer = pattern(identity, int(download))
        if framing == "chunks":
            writer.write(f"HTTP/1.1 200 OK\r\n{own}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked(answer))
        else:
            writer.write(whole(answer, own))

    async def echo(self, reader, writer):
        self.tunnels += 1
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        while piece := await reader.read(READ_AHEAD_BYTES):
            writer.write(piece)
            await writer.drain()
        return False

    def report(self, place):
        doubled = [identity for identity, times in self.seen.items() if times > 1]
        report = {
            "requests": self.seen.total(),
            "doubled": len(doubled),
            "examples": doubled[:5],
            "uploads_that_differ": self.uploads_that_differ,
            "tunnels": self.tunnels,
        }
        if place == "forget":
            self.forget()
        return json.dumps(report).encode()


def whole(body, more=""):
    return f"HTTP/1.1 200 OK\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def main():
    origin = Origin(*map(int, sys.argv[1:]))
    server = await asyncio.start_server(origin.serve, "127.0.0.1", 0, limit=READ_AHEAD_BYTES, backlog=BACKLOG)
    print(f"listening origin 127.0.0.1:{server.sockets[0].getsockname()[1]}\nready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
