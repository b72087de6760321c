"""A stand-in for a plugin runner of APISIX, on the library of FlatBuffers: the name of the plugin says how it behaves.

APISIX_LISTEN_ADDRESS names the socket. A configuration with the value `once` misbehaves for the first call only.
"""

import json
import os
import socket
import struct
import sys
import threading
import time

import flatbuffers
from flatbuffers import encode
from flatbuffers import number_types as numbers
from flatbuffers import packer
from flatbuffers.table import Table

ERROR, PREPARE_CONF, REQUEST, EXTRA_INFO, RESPONSE = range(5)
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE"]

tokens = {}
misbehaved = set()
lock = threading.Lock()


def root(message):
    return Table(bytearray(message), encode.Get(packer.uoffset, bytearray(message), 0))


def place(table, field):
    return table.Offset(4 + 2 * field)


def number(table, field, flags=numbers.Uint32Flags):
    offset = place(table, field)
    return table.Get(flags, offset + table.Pos) if offset else 0


def text(table, field):
    offset = place(table, field)
    return table.String(offset + table.Pos).decode() if offset else None


def octets(table, field):
    offset = place(table, field)
    if not offset:
        return b""
    start = table.Vector(offset)
    return bytes(table.Bytes[start : start + table.VectorLen(offset)])


def entries(table, field):
    offset = place(table, field)
    if not offset:
        return []
    start = table.Vector(offset)
    places = [table.Indirect(start + 4 * index) for index in range(table.VectorLen(offset))]
    return [(text(Table(table.Bytes, at), 0), text(Table(table.Bytes, at), 1)) for at in places]


def strings(builder, pairs):
    tables = []
    for name, value in pairs:
        name = builder.CreateString(name)
        value = builder.CreateString(value) if value is not None else None
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        if value is not None:
            builder.PrependUOffsetTRelativeSlot(1, value, 0)
        tables.append(builder.EndObject())
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


def finished(builder, table):
    builder.Finish(table)
    return bytes(builder.Output())


def simple(field_writer):
    builder = flatbuffers.Builder(64)
    builder.StartObject(1)
    field_writer(builder)
    return finished(builder, builder.EndObject())


def error(code):
    return simple(lambda builder: builder.PrependUint8Slot(0, code, 255))


def stop(call, status, body, headers=()):
    builder = flatbuffers.Builder(1024)
    body = builder.CreateByteVector(body)
    headers = strings(builder, headers)
    builder.StartObject(3)
    builder.PrependUint16Slot(0, status, 0)
    builder.PrependUOffsetTRelativeSlot(1, headers, 0)
    builder.PrependUOffsetTRelativeSlot(2, body, 0)
    return answer(builder, call, 1, builder.EndObject())


def rewrite(call, path=None, headers=(), args=(), response_headers=(), body=None):
    builder = flatbuffers.Builder(1024)
    path = builder.CreateString(path) if path is not None else None
    body = builder.CreateByteVector(body) if body is not None else None
    lists = [strings(builder, one) for one in (headers, args, response_headers)]
    builder.StartObject(5)
    if path is not None:
        builder.PrependUOffsetTRelativeSlot(0, path, 0)
    for field, one in enumerate(lists):
        builder.PrependUOffsetTRelativeSlot(1 + field, one, 0)
    if body is not None:
        builder.PrependUOffsetTRelativeSlot(4, body, 0)
    return answer(builder, call, 2, builder.EndObject())


def answer(builder, call, kind, action):
    builder.StartObject(3)
    builder.PrependUint32Slot(0, call, 0)
    builder.PrependUint8Slot(1, kind, 0)
    if action is not None:
        builder.PrependUOffsetTRelativeSlot(2, action, 0)
    return finished(builder, builder.EndObject())


def change(call, status=0, headers=(), body=None):
    builder = flatbuffers.Builder(1024)
    body = builder.CreateByteVector(body) if body is not None else None
    headers = strings(builder, headers)
    builder.StartObject(4)
    builder.PrependUint32Slot(0, call, 0)
    builder.PrependUint16Slot(1, status, 0)
    builder.PrependUOffsetTRelativeSlot(2, headers, 0)
    if body is not None:
        builder.PrependUOffsetTRelativeSlot(3, body, 0)
    return finished(builder, builder.EndObject())


def question(kind, name=None):
    builder = flatbuffers.Builder(64)
    name = builder.CreateString(name) if name else None
    builder.StartObject(1 if name else 0)
    if name:
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
    inner = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUint8Slot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, inner, 0)
    return finished(builder, builder.EndObject())


class Connection:
    def __init__(self, stream):
        self.stream = stream
        self.reader = stream.makefile("rb")

    def send(self, kind, message):
        self.stream.sendall(bytes([kind]) + struct.pack(">I", len(message))[1:] + message)

    def receive(self):
        head = self.reader.read(4)
        if len(head) < 4:
            raise EOFError
        return head[0], self.reader.read(int.from_bytes(head[1:], "big"))

    def ask(self, kind, name=None):
        self.send(EXTRA_INFO, question(kind, name))
        answered, message = self.receive()
        assert answered == EXTRA_INFO, answered
        return octets(root(message), 0)

    def serve(self):
        while True:
            kind, message = self.receive()
            table = root(message)
            if kind == PREPARE_CONF:
                with lock:
                    token = len(tokens) + 1
                    tokens[token] = entries(table, 0)
                print(f"prepared {text(table, 1)}", flush=True)
                self.send(kind, simple(lambda builder: builder.PrependUint32Slot(0, token, 0)))
                continue
            token = number(table, 6 if kind == REQUEST else 3)
            conf = tokens.get(token)
            if conf is None:
                self.send(ERROR, error(2))
                continue
            name, value = conf[0] if conf else ("pass", "")
            if value == "once":
                with lock:
                    is_known, _ = (token in misbehaved), misbehaved.add(token)
                name = "pass" if is_known else name
            if kind == REQUEST:
                self.request(name, value, token, table, number(table, 0))
            else:
                self.response(name, value, table, number(table, 0))

    def request(self, name, value, token, table, call):
        if name == "pass":
            self.send(REQUEST, answer(flatbuffers.Builder(64), call, 0, None))
        elif name == "echo":
            seen = {
                "method": METHODS[number(table, 2, numbers.Uint8Flags)],
                "path": text(table, 3),
                "args": entries(table, 4),
                "headers": entries(table, 5),
                "client": list(octets(table, 1)),
                "variables": {each: self.ask(1, each).decode() for each in value.split(",") if each},
                "body": self.ask(2).decode(),
                "response": self.ask(3).decode(),
            }
            self.send(REQUEST, stop(call, 0, json.dumps(seen).encode(), [("X-Seen", "1"), ("x-seen", "2")]))
        elif name == "rewrite":
            self.send(REQUEST, rewrite(call, **json.loads(value, object_hook=as_bytes)))
        elif name == "several questions":
            # All at once, as the runner for Java does.
            self.stream.sendall(b"".join(frame(EXTRA_INFO, question(1, each)) for each in ("uri", "host", "scheme")))
            told = [octets(root(self.receive()[1]), 0).decode() for _ in range(3)]
            self.send(REQUEST, stop(call, 200, " ".join(told).encode()))
        else:
            self.misbehave(REQUEST, name, token, call)

    def response(self, name, value, table, call):
        if name == "look":
            seen = {"status": number(table, 1, numbers.Uint16Flags), "fields": len(entries(table, 2))}
            self.send(RESPONSE, change(call, headers=[("X-Seen", json.dumps(seen))]))
        elif name == "replace":
            self.send(RESPONSE, change(call, 201, [("X-Same", "one"), ("X-Same", "two")], b"replaced"))
        elif name == "reverse":
            body = self.ask(3)
            self.send(RESPONSE, change(call, body=body[::-1], headers=[("X-Length", str(len(body)))]))
        else:
            self.misbehave(RESPONSE, name, 0, call)

    def misbehave(self, kind, name, token, call):
        if name == "hang":
            time.sleep(3600)
        elif name == "slow":
            time.sleep(0.2)
            self.send(kind, answer(flatbuffers.Builder(64), call, 0, None))
        elif name == "close":
            raise EOFError
        elif name == "die":
            os._exit(7)
        elif name == "half a head":
            self.stream.sendall(b"\x02\x00")
            raise EOFError
        elif name == "half a frame":
            self.stream.sendall(b"\x02\x00\x01\x00half")
            raise EOFError
        elif name == "huge length":
            self.stream.sendall(b"\x02\xff\xff\xff")
            raise EOFError
        elif name == "garbage":
            self.send(kind, bytes((7 * index) % 256 for index in range(512)))
        elif name == "empty":
            self.send(kind, b"")
        elif name == "wrong type":
            self.send(9, b"")
        elif name == "wrong id":
            self.send(kind, answer(flatbuffers.Builder(64), call + 1, 0, None))
        elif name == "line break":
            self.send(kind, rewrite(call, headers=[("X-A", "1\r\nX-B: 2")]))
        elif name == "no path":
            self.send(kind, rewrite(call, path="relative"))
        elif name == "bad request":
            self.send(ERROR, error(0))
        elif name == "endless questions":
            while True:
                self.ask(1, "uri")
        elif name == "forget":
            tokens.pop(token, None)
            self.send(ERROR, error(2))
        elif name == "surplus":
            message = frame(kind, answer(flatbuffers.Builder(64), call, 0, None))
            self.stream.sendall(message + message)
        else:
            raise ValueError(name)


def frame(kind, message):
    return bytes([kind]) + struct.pack(">I", len(message))[1:] + message


def as_bytes(fields):
    if isinstance(fields.get("body"), str):
        fields["body"] = fields["body"].encode()
    return fields


def serve(stream):
    with stream:
        try:
            Connection(stream).serve()
        except (EOFError, OSError):
            pass


def main():
    path = os.environ["APISIX_LISTEN_ADDRESS"].removeprefix("unix:")
    if os.path.exists(path):
        os.remove(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)
    print(f"stand-in listens, {os.environ.get('GREETING', 'no greeting')}", flush=True)
    secrets = [name for name in os.environ if name.startswith("WEIR_")]
    print(f"variables of the gateway: {secrets}", file=sys.stderr, flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


main()
