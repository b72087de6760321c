"""The gRPC service of docs/guide/grpc.md: every order is 17 and costs 12.50."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import grpc

# Order {id: "17", cents: 1250}, as Protocol Buffers write it.
ORDER = b"\x0a\x0217\x10\xe2\x09"


class Orders(grpc.GenericRpcHandler):
    """Answers `shop.Orders/Get` without generated code."""

    def service(self, details):
        if details.method != "/shop.Orders/Get":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: ORDER)


server = grpc.server(ThreadPoolExecutor(max_workers=2), handlers=[Orders()])
for address in ("10.0.0.1:50051", "10.0.0.2:50051"):
    server.add_insecure_port(address)
server.start()
print("ready", flush=True)
Event().wait()
