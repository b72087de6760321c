"""Requests whose answers can be checked byte by byte: what client and origin agree on, and the client; starts nothing.

A request has an identity that no other has. Its path tells it, and both bodies repeat it from end to end, so that an
answer that belongs to another request, has a hole, or stops early is seen for what it is.
"""

import asyncio

# Small enough that a large body crosses the origin's buffers many times, large enough to cost little.
CHUNK_BYTES = 16 * 1024
# How far the reader goes ahead; a head is far below it.
READ_AHEAD_BYTES = 256 * 1024
# Longer than any step on a busy machine takes; a longer one counts as hung.
PATIENCE_SECONDS = 30
# The first piece of an answer that is taken before the client leaves.
TASTE_BYTES = 64 * 1024


class Fault(Exception):
    """A request without its own whole answer. `kind` is one of KINDS, `status` the answer's where there was one."""

    def __init__(self, kind, detail, status=None):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.status = kind, status


KINDS = {
    "refused": "no connection",
    "closed": "the connection ended before a byte of the answer",
    "broken": "the answer broke off, and could be seen to",
    "status": "an answer other than 200",
    "wrong": "an answer that looked whole and was not this request's, or of half a configuration",
    "hung": f"nothing for {PATIENCE_SECONDS} s",
}


def pattern(identity, length):
    """The body of so many bytes that belongs to an identity."""
    unit = f"{identity};".encode()
    return (unit * (length // len(unit) + 1))[:length]


def chunked(body):
    """The body in chunks, the last one included."""
    pieces = (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def parse_head(head):
    """(first line's words, fields by lower-case name) of a head as it came."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    return first.split(" ", 2), fields


async def read_body(reader, fields):
    """A body by its framing; IncompleteReadError where it broke off. One without framing is refused."""
    if fields.get("transfer-encoding") == "chunked":
        pieces = []
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            piece = await reader.readexactly(size + 2)
            if size == 0:
                return b"".join(pieces)
            pieces.append(piece[:-2])
    if "content-length" not in fields:
        raise ValueError("an answer without framing")
    return await reader.readexactly(int(fields["content-length"]))


class CheckedClient:
    """One connection at a time to the proxy, opened when it is needed."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, identity, upload=0, download=200, as_chunks=False, keep=True):
        """One request and its whole answer, checked; a Fault otherwise. It is sent once, whatever happens."""
        async with asyncio_timeout():
            await self.connect()
            began = False
            try:
                self.writer.write(question(identity, upload, download, as_chunks, keep))
                await self.writer.drain()
                head = await self.head()
                began = True
                (_, status, _), fields = head
                body = await read_body(self.reader, fields)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.leave()
                # A head that broke off counts as begun, too.
                began = began or bool(getattr(error, "partial", b""))
                raise Fault("broken" if began else "closed", f"{identity}: {error!r}") from None
            except ValueError as error:
                self.leave()
                raise Fault("wrong", f"{identity}: {error}") from None
            if not keep or fields.get("connection") == "close":
                self.leave()
            if status != "200":
                raise Fault("status", f"{identity}: {status} {body[:200]!r}", int(status))
            if fields.get("x-asked", "") != fields.get("x-told", ""):
                raise Fault("wrong", f"{identity}: half a change, the origin was asked for {fields.get('x-asked')}, told {fields.get('x-told')}")
            told = (fields.get("x-identity"), fields.get("x-upload"), body)
            if told != (identity, "whole", pattern(identity, download)):
                raise Fault("wrong", f"{identity}: told {told[:2]}, {len(body)} bytes: {body[:100]!r}")

    async def abandon_upload(self, identity, upload):
        """Leaves in the middle of a request's body."""
        async with asyncio_timeout():
            await self.connect()
            text = question(identity, upload, 200, False, True)
            self.writer.write(text[: len(text) - upload // 2])
            await self.writer.drain()
            # Closed in order, so that the gateway certainly reads the head.
            self.writer.close()
            await self.writer.wait_closed()
            self.reader = self.writer = None

    async def abandon_download(self, identity, download):
        """Leaves in the middle of an answer's body."""
        async with asyncio_timeout():
            await self.connect()
            self.writer.write(question(identity, 0, download, False, True))
            (_, status, _), _ = await self.head()
            if status != "200":
                raise Fault("status", f"{identity}: {status}", int(status))
            await self.reader.readexactly(TASTE_BYTES)
            self.leave()

    async def tunnel(self, identity, messages, pause_seconds):
        """Switches to a tunnel and has every message echoed before it leaves."""
        async with asyncio_timeout(PATIENCE_SECONDS + messages * pause_seconds):
            await self.connect()
            fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bGFib3JhdG9yeQ==\r\n"
            self.writer.write(f"GET /tunnel/{identity} HTTP/1.1\r\nHost: lab\r\n{fields}\r\n".encode())
            (_, status, _), _ = await self.head()
            if status != "101":
                raise Fault("status", f"{identity}: {status}", int(status))
            for number in range(messages):
                message = pattern(f"{identity}-{number}", 100 + 1000 * (number % 5))
                self.writer.write(message)
                if await self.reader.readexactly(len(message)) != message:
                    raise Fault("wrong", f"{identity}: message {number} came back otherwise")
                await asyncio.sleep(pause_seconds)
            self.leave()

    async def connect(self):
        # A connection that the gateway has closed in the meantime is not used again, as with any client.
        if self.reader is not None and self.reader.at_eof():
            self.leave()
        if self.writer is None:
            try:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=READ_AHEAD_BYTES)
            except OSError as error:
                raise Fault("refused", repr(error)) from None

    async def head(self):
        """The head of the next answer that is no interim one."""
        while True:
            found = parse_head(await self.reader.readuntil(b"\r\n\r\n"))
            if found[0][1] in ("101", *map(str, range(200, 600))):
                return found

    def leave(self):
        """Ends the connection at once."""
        if self.writer is not None:
            self.writer.transport.abort()
            self.reader = self.writer = None


def question(identity, upload, download, as_chunks, keep):
    """The text of a request."""
    body = pattern(identity, upload)
    framing = "Transfer-Encoding: chunked" if as_chunks else f"Content-Length: {upload}"
    framing = f"{framing}\r\n" if upload else ""
    close = "" if keep else "Connection: close\r\n"
    path = f"/check/{identity}/{download}/{'chunks' if as_chunks else 'length'}"
    head = f"{'POST' if upload else 'GET'} {path} HTTP/1.1\r\nHost: lab\r\n{framing}{close}\r\n"
    return head.encode() + (chunked(body) if as_chunks and upload else body)


class asyncio_timeout:  # noqa: N801, it reads as the function it stands for
    """asyncio.timeout, with a Fault at its end."""

    def __init__(self, seconds=PATIENCE_SECONDS):
        self.limit = asyncio.timeout(seconds)

    async def __aenter__(self):
        return await self.limit.__aenter__()

    async def __aexit__(self, kind, error, trace):
        try:
            return await self.limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Fault("hung", KINDS["hung"]) from None
