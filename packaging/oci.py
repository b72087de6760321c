"""Builds the OCI image as an archive, without a container engine: one layer with the program and the few files that it
reads."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from archive import Member, compressed, tar
from libraries import beside
from product import SUMMARY, Product, text
from tools import Failure

# The user `nonroot` of many base images; no file but the data folder belongs to it.
USER_ID = 65532
# The authorities that upstreams' certificates are verified with, of Debian's package ca-certificates.
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Blob:
    """Content that is named by its digest."""

    kind: str
    data: bytes

    @property
    def digest(self) -> str:
        """The SHA-256 in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def descriptor(self, **more) -> dict:
        """The entry that points to the blob."""
        return {"mediaType": self.kind, "digest": f"sha256:{self.digest}", "size": len(self.data), **more}


def build(product: Product, out: Path) -> Path:
    """Writes weir-VERSION-oci.tar into a folder."""
    unpacked = tar(members(product), product.epoch)
    layer = Blob(LAYER, compressed(unpacked, product.is_fast))
    config = Blob(CONFIG, encoded(image(product, hashlib.sha256(unpacked).hexdigest())))
    manifest = Blob(
        MANIFEST,
        encoded(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config.descriptor(),
                "layers": [layer.descriptor()],
                "annotations": labels(product),
            }
        ),
    )
    entry = manifest.descriptor(
        platform={"architecture": product.elf.oci, "os": "linux"},
        # The second is the name that containerd gives an image when it loads the archive.
        annotations={
            "org.opencontainers.image.ref.name": product.version,
            "io.containerd.image.name": f"localhost/weir:{product.version}",
        },
    )
    index = encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})
    files = [Member("oci-layout", encoded({"imageLayoutVersion": "1.0.0"})), Member("index.json", index)]
    files += [Member(f"blobs/sha256/{blob.digest}", blob.data) for blob in (layer, config, manifest)]
    path = out / f"weir-{product.version}-oci.tar"
    path.write_bytes(tar(files, product.epoch))
    return path


def members(product: Product) -> list[Member]:
    """The files of the image."""
    if not AUTHORITIES.is_file():
        raise Failure(f"{AUTHORITIES} is missing; install ca-certificates, or run lab/install.sh package")
    passwd = f"root:x:0:0:root:/:/sbin/nologin\nweir:x:{USER_ID}:{USER_ID}:Weir API gateway:/data:/sbin/nologin\n"
    files = [
        Member("usr/bin/weir", product.program.read_bytes(), 0o755),
        Member("etc/passwd", passwd.encode()),
        Member("etc/group", f"root:x:0:\nweir:x:{USER_ID}:\n".encode()),
        # Names are looked up in /etc/hosts, then by DNS; the C library has other defaults without the file.
        Member("etc/nsswitch.conf", b"hosts: files dns\n"),
        Member("etc/weir/weir.yaml", text("packaging/oci/weir.yaml")),
        Member(AUTHORITIES.as_posix().lstrip("/"), AUTHORITIES.read_bytes()),
        Member("usr/share/doc/weir/LICENSE", text("LICENSE")),
        Member("usr/share/doc/weir/third-party-licenses.gz", product.third_party_licenses),
        Member("data/", mode=0o700, owner=USER_ID),
        Member("tmp/", mode=0o1777),
    ]
    return files + beside(product)


def image(product: Product, unpacked: str) -> dict:
    """The configuration of the image: user, command, ports, and the digest of the unpacked layer."""
    ports = ("9080/tcp", "9443/tcp", "9443/udp", "9180/tcp", "7085/tcp", "9091/tcp")
    return {
        "created": created(product),
        "architecture": product.elf.oci,
        "os": "linux",
        "config": {
            "User": f"{USER_ID}:{USER_ID}",
            "Entrypoint": ["/usr/bin/weir"],
            "Cmd": ["run"],
            "Env": ["PATH=/usr/bin", "WEIR_CONFIG=/etc/weir/weir.yaml", f"SSL_CERT_FILE={AUTHORITIES}"],
            "WorkingDir": "/data",
            "Volumes": {"/data": {}},
            "ExposedPorts": {port: {} for port in sorted(ports)},
            "StopSignal": "SIGTERM",
            "Labels": labels(product),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{unpacked}"]},
        "history": [{"created": created(product), "created_by": "packaging/oci.py", "comment": "program and settings"}],
    }


def labels(product: Product) -> dict[str, str]:
    """The annotations that registries and scanners read."""
    return {
        "org.opencontainers.image.title": "weir",
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.version": product.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": created(product),
    }


def created(product: Product) -> str:
    """The one time of the build."""
    return datetime.fromtimestamp(product.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def encoded(value: dict) -> bytes:
    """JSON with sorted keys."""
    return json.dumps(value, sort_keys=True).encode()
