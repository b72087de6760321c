"""A gRPC server for the tests: echoes messages in the four kinds of call, with metadata, errors and delays on demand.

The first line of its output is its port. Arguments: optional paths of a certificate chain and its key, for TLS.
"""

import sys
import threading
from concurrent import futures

import grpc


def begin(context):
    """Echoes metadata, waits and fails as the request's metadata asks."""
    asked = dict(context.invocation_metadata())
    initial = [("seen-authority", asked.get("seen-authority", ""))] if "seen-authority" in asked else []
    initial += [(key, value) for key, value in asked.items() if key.startswith("echo-initial")]
    trailing = [(key, value) for key, value in asked.items() if key.startswith("echo-trailing")]
    remaining = context.time_remaining()
    if remaining is not None and remaining < 1e6:
        trailing.append(("remaining-ms", str(int(remaining * 1000))))
    if initial:
        context.send_initial_metadata(initial)
    if "details-bin" in asked:
        trailing.append(("grpc-status-details-bin", asked["details-bin"]))
    context.set_trailing_metadata(trailing)
    if "sleep-ms" in asked:
        # Until the call has ended: the thread of a sleeping call would keep the server from ending.
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(int(asked["sleep-ms"]) / 1000)
    if "fail-code" in asked:
        code = next(code for code in grpc.StatusCode if code.value[0] == int(asked["fail-code"]))
        context.abort(code, "why: 100 % ü")
    return asked


def unary(request, context):
    begin(context)
    return request


def sized(request, context):
    begin(context)
    return b"x" * int(request)


def client_stream(requests, context):
    asked = begin(context)
    if "stop-after" in asked:
        count = int(asked["stop-after"])
        return b"".join(next(requests) for _ in range(count))
    return b"".join(requests)


def server_stream(request, context):
    asked = begin(context)
    for number in range(int(asked.get("count", "3"))):
        yield request + str(number).encode()
    if "fail-after" in asked:
        context.abort(grpc.StatusCode.DATA_LOSS, "broke in the middle")


def repeat(request, context):
    """The request as it is, so that every message of the response is one of the same type."""
    asked = begin(context)
    for _ in range(int(asked.get("count", "3"))):
        yield request
    if "fail-after" in asked:
        context.abort(grpc.StatusCode.DATA_LOSS, "broke in the middle")


def bidi_stream(requests, context):
    begin(context)
    for request in requests:
        yield request


def health(request, context):
    """The health service: the name of the service is the path of a file with its status. A file that is not there is an
    unknown service. The message is protobuf: field 1 is a text, and the answer's field 1 an enumeration."""
    try:
        with open(request[2:].decode()) as file:
            return bytes([8, int(file.read())])
    except OSError:
        context.abort(grpc.StatusCode.NOT_FOUND, "no such service")


HEALTH = {"Check": grpc.unary_unary_rpc_method_handler(health)}

HANDLERS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Sized": grpc.unary_unary_rpc_method_handler(sized),
    "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
    "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
    "Repeat": grpc.unary_stream_rpc_method_handler(repeat),
    "BidiStream": grpc.stream_stream_rpc_method_handler(bidi_stream),
}


def main():
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=unlimited)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", HANDLERS),))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", HEALTH),))
    if len(sys.argv) > 2:
        with open(sys.argv[1], "rb") as chain, open(sys.argv[2], "rb") as key:
            credentials = grpc.ssl_server_credentials([(key.read(), chain.read())])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    # Ends with the test.
    sys.stdin.read()
    server.stop(grace=None)


main()
