"""Calls the gRPC server of the tests through the gateway, and checks each answer.

Arguments: the address of the gateway, then the names of the checks to run.
"""

import sys
import time

import grpc

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Echo:
    """The methods of the server, over one channel."""

    def __init__(self, channel):
        self.unary = channel.unary_unary("/test.Echo/Unary")
        self.sized = channel.unary_unary("/test.Echo/Sized")
        self.client_stream = channel.stream_unary("/test.Echo/ClientStream")
        self.server_stream = channel.unary_stream("/test.Echo/ServerStream")
        self.bidi_stream = channel.stream_stream("/test.Echo/BidiStream")
        self.unknown = channel.unary_unary("/test.Echo/Unknown")


def failure(call):
    """The error of a call that has to fail."""
    try:
        result = call()
        list(result) if hasattr(result, "__next__") else None
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call succeeded")


def expect(error, code, text=""):
    assert error.code() == code, f"{error.code()} {error.details()}"
    assert text in error.details(), error.details()


@check
def unary(echo):
    for size in [0, 1, 100, 20_000]:
        assert echo.unary(b"m" * size, timeout=30) == b"m" * size


@check
def metadata(echo):
    sent = [
        ("echo-initial-text", "a b,c"),
        ("echo-initial-bin", b"\x00\x01\xff"),
        ("echo-trailing-text", "tail"),
        ("echo-trailing-bin", bytes(range(64))),
    ]
    _, call = echo.unary.with_call(b"m", metadata=sent, timeout=30)
    initial, trailing = dict(call.initial_metadata()), dict(call.trailing_metadata())
    assert initial["echo-initial-text"] == "a b,c", initial
    assert initial["echo-initial-bin"] == b"\x00\x01\xff", initial
    assert trailing["echo-trailing-text"] == "tail", trailing
    assert trailing["echo-trailing-bin"] == bytes(range(64)), trailing


@check
def client_stream(echo):
    messages = [b"%d," % number for number in range(1000)]
    assert echo.client_stream(iter(messages), timeout=60) == b"".join(messages)
    assert echo.client_stream(iter([]), timeout=30) == b""


@check
def server_stream(echo):
    got = list(echo.server_stream(b"m", metadata=[("count", "500")], timeout=60))
    assert got == [b"m%d" % number for number in range(500)]
    assert list(echo.server_stream(b"m", metadata=[("count", "0")], timeout=30)) == []
    assert list(echo.bidi_stream(iter([]), timeout=30)) == []


@check
def bidi_stream(echo):
    """Each message is sent after the answer to the one before: nothing may wait for the end of the stream."""
    import queue

    messages = queue.Queue()
    answers = echo.bidi_stream(iter(messages.get, None), timeout=60)
    for number in range(50):
        messages.put(b"%d" % number)
        assert next(answers) == b"%d" % number
    messages.put(None)
    assert list(answers) == []


@check
def big_messages(echo):
    message = b"0123456789abcdef" * (4 * 1024 * 1024 // 16)
    assert echo.unary(message, timeout=120) == message
    assert len(echo.sized(b"3000000", timeout=120)) == 3_000_000
    assert len(echo.client_stream(iter([message] * 3), timeout=120)) == 3 * len(message)


@check
def errors(echo):
    for code in [1, 3, 5, 7, 8, 13, 16]:
        wanted = next(one for one in grpc.StatusCode if one.value[0] == code)
        asked = [("fail-code", str(code))]
        expect(failure(lambda: echo.unary(b"m", metadata=asked, timeout=30)), wanted, "why: 100 % ü")
        stream = failure(lambda: echo.server_stream(b"m", metadata=asked, timeout=30))
        expect(stream, wanted, "why: 100 % ü")
    expect(failure(lambda: echo.unknown(b"m", timeout=30)), grpc.StatusCode.UNIMPLEMENTED)
    asked = [("count", "3"), ("fail-after", "1")]
    got = []

    def broken():
        for message in echo.server_stream(b"m", metadata=asked, timeout=30):
            got.append(message)

    expect(failure(broken), grpc.StatusCode.DATA_LOSS, "broke in the middle")
    assert len(got) == 3, got


@check
def early_answer(echo):
    """The server answers while the client is still sending."""

    def endless():
        while True:
            yield b"m" * 1000

    assert echo.client_stream(endless(), metadata=[("stop-after", "2")], timeout=60) == b"m" * 2000


@check
def deadlines(echo):
    started = time.monotonic()
    late = failure(lambda: echo.unary(b"m", metadata=[("sleep-ms", "20000")], timeout=0.5))
    expect(late, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert time.monotonic() - started < 10
    _, call = echo.unary.with_call(b"m", timeout=60)
    remaining = int(dict(call.trailing_metadata())["remaining-ms"])
    # A client rounds its timeout up, and the server measures from the arrival of the call.
    assert 1000 < remaining <= 60_500, remaining


@check
def cancelled(echo):
    call = echo.server_stream(b"m", metadata=[("count", "100000000")], timeout=60)
    next(call)
    call.cancel()
    assert echo.unary(b"m", timeout=30) == b"m"


@check
def many_at_once(echo):
    calls = [echo.unary.future(b"%d" % number, timeout=60) for number in range(300)]
    for number, call in enumerate(calls):
        assert call.result() == b"%d" % number


@check
def unavailable(echo):
    expect(failure(lambda: echo.unary(b"m", timeout=30)), grpc.StatusCode.UNAVAILABLE)


@check
def no_route(echo):
    expect(failure(lambda: echo.unary(b"m", timeout=30)), grpc.StatusCode.UNIMPLEMENTED)


@check
def unauthenticated(echo):
    expect(failure(lambda: echo.unary(b"m", timeout=30)), grpc.StatusCode.UNAUTHENTICATED, "API key")


@check
def permission_denied(echo):
    expect(failure(lambda: echo.unary(b"m", timeout=30)), grpc.StatusCode.PERMISSION_DENIED)


@check
def message_too_large(echo):
    too_large = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert echo.unary(b"m" * 1000, timeout=30) == b"m" * 1000
    expect(failure(lambda: echo.unary(b"m" * 1001, timeout=30)), too_large, "message")
    expect(failure(lambda: echo.sized(b"1001", timeout=30)), too_large, "message")
    several = iter([b"m" * 500, b"m" * 500])
    assert len(echo.client_stream(several, timeout=30)) == 1000


def main():
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(sys.argv[1], options=unlimited)
    echo = Echo(channel)
    for name in sys.argv[2:]:
        CHECKS[name](echo)
        print(f"{name}: ok", flush=True)
    channel.close()


main()
