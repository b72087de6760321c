"""An OpenID provider with the addresses of Keycloak's realm `shop`, for docs/guide/openid-connect.md: it issues tokens for
alice and publishes its key. The signature is made by the command openssl, so that it needs no package."""

import json
import subprocess
import time
from base64 import urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

ISSUER = "http://127.0.0.1:8080/realms/shop"
KEY = "realm.key"


def openssl(*arguments, data=b""):
    """What the command prints."""
    return subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=True).stdout


def coded(data):
    """Base64 of URLs without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def token():
    """A signed token of alice."""
    head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "alice", "aud": "account", "azp": "gateway", "iat": now, "exp": now + 300,
              "scope": "openid email", "email": "alice@example.com"}
    signed = ".".join(coded(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{coded(openssl('dgst', '-sha256', '-sign', KEY, data=signed.encode()))}"


class Realm(BaseHTTPRequestHandler):
    """Answers the three addresses that a client asks for."""

    protocol_version = "HTTP/1.1"

    def answer(self, value, status=200):
        body = json.dumps(value, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        protocol = f"{ISSUER}/protocol/openid-connect"
        if self.path.endswith("/.well-known/openid-configuration"):
            self.answer({
                "issuer": ISSUER, "jwks_uri": f"{protocol}/certs", "token_endpoint": f"{protocol}/token",
                "authorization_endpoint": f"{protocol}/auth", "response_types_supported": ["code"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
            })
        elif self.path.endswith("/certs"):
            modulus = bytes.fromhex(openssl("rsa", "-in", KEY, "-noout", "-modulus").decode().split("=")[1])
            self.answer({"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": coded(modulus),
                                   "e": "AQAB"}]})
        else:
            self.answer({"error": "not_found"}, 404)

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if form.get("client_secret") == ["gateway-secret"] and form.get("password") == ["wonderland"]:
            self.answer({"access_token": token(), "token_type": "Bearer", "expires_in": 300})
        else:
            self.answer({"error": "invalid_grant"}, 401)


openssl("genrsa", "-out", KEY, "2048")
server = HTTPServer(("127.0.0.1", 8080), Realm)
print("ready", flush=True)
server.serve_forever()
