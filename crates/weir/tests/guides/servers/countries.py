"""The SOAP service of docs/guide/transformation.md: it knows Spain."""

from http.server import BaseHTTPRequestHandler, HTTPServer

COUNTRY = (
    '<r:getCountryResponse xmlns:r="urn:countries"><r:country><r:name>Spain</r:name>'
    "<r:population>46704314</r:population><r:capital>Madrid</r:capital></r:country></r:getCountryResponse>"
)
FAULT = "<S:Fault><faultcode>S:Client</faultcode><faultstring>no such country</faultstring></S:Fault>"


class Countries(BaseHTTPRequestHandler):
    """Answers every POST with an envelope."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = self.rfile.read(int(self.headers["Content-Length"]))
        body = COUNTRY if b"Spain" in request else FAULT
        envelope = "http://schemas.xmlsoap.org/soap/envelope/"
        answer = f'<S:Envelope xmlns:S="{envelope}"><S:Body>{body}</S:Body></S:Envelope>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


server = HTTPServer(("127.0.0.1", 8080), Countries)
print("ready", flush=True)
server.serve_forever()
