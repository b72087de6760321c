#!/usr/bin/env python3
"""Writes vectors.json: keys and tokens of every algorithm, for the tests of jwt.

Needs PyJWT and cryptography, so that another library than the one under test signs:
    pip install 'PyJWT[crypto]' && python3 vectors.py > vectors.json
The private keys are made anew each time and are not kept.
"""

import base64
import datetime
import hashlib
import hmac
import json

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "a-secret-of-more-than-64-bytes-0123456789-0123456789-0123456789-0123456789"
CLAIMS = {"key": "user-key", "exp": 4102444800, "nbf": 1700000000, "sub": "jack", "list": [1, {"a": "b"}]}
KEYS = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "rsa1024": rsa.generate_private_key(65537, 1024),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "p521": ec.generate_private_key(ec.SECP521R1()),
    "p256k": ec.generate_private_key(ec.SECP256K1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "ed448": ed448.Ed448PrivateKey.generate(),
}
JWK = {"rsa": RSAAlgorithm, "rsa1024": RSAAlgorithm, "p256": ECAlgorithm, "p384": ECAlgorithm,
       "p521": ECAlgorithm, "ed25519": OKPAlgorithm}
SIGNERS = {"RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa", "PS512": "rsa",
           "ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed25519"}


def pem(key, form=serialization.PublicFormat.SubjectPublicKeyInfo):
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def certificate(key):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, datetime.datetime(2026, 1, 1),
                                      datetime.datetime(2056, 1, 1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def forged(public_key):
    """A token that takes the text of a public key for the secret of HMAC."""
    message = base64url(b'{"alg":"HS256","typ":"JWT"}') + b"." + base64url(json.dumps(CLAIMS).encode())
    tag = hmac.new(public_key.encode(), message, hashlib.sha256).digest()
    return (message + b"." + base64url(tag)).decode()


def main():
    keys = {name: {"pem": pem(key)} for name, key in KEYS.items()}
    for name, algorithm in JWK.items():
        keys[name]["jwk"] = json.loads(algorithm.to_jwk(KEYS[name].public_key()))
    keys["rsa"]["pkcs1"] = pem(KEYS["rsa"], serialization.PublicFormat.PKCS1)
    for name in ["rsa", "p256"]:
        keys[name]["certificate"] = certificate(KEYS[name])
    header = {"kid": "k-1"}
    tokens = {name: {"key": "secret", "token": jwt.encode(CLAIMS, SECRET, name, headers=header)}
              for name in ["HS256", "HS384", "HS512"]}
    for name, key in SIGNERS.items():
        tokens[name] = {"key": key, "token": jwt.encode(CLAIMS, KEYS[key], name, headers=header)}
    none = base64url(b'{"alg":"none"}') + b"." + base64url(json.dumps(CLAIMS).encode()) + b"."
    attacks = {
        "hs256_with_public_key": forged(keys["rsa"]["pem"]),
        "none": none.decode(),
        "expired": jwt.encode({"key": "user-key", "exp": 1700000000}, SECRET, "HS256"),
        "early": jwt.encode({"key": "user-key", "nbf": 4102444800}, SECRET, "HS256"),
    }
    print(json.dumps({"tokens": tokens, "keys": keys, "secret": SECRET, "attacks": attacks}, indent=1))


if __name__ == "__main__":
    main()
