"""Writes the software bill of materials, in SPDX 2.3 as JSON."""

import hashlib
import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from dependencies import Library, crates, npm_packages
from product import Product
from tools import run

ROOT = "SPDXRef-weir"


def build(product: Product, out: Path) -> Path:
    """Writes weir-VERSION.spdx.json into a folder."""
    path = out / f"weir-{product.version}.spdx.json"
    path.write_bytes(document(product))
    return path


def document(product: Product) -> bytes:
    """The document: the program, its libraries, and which library uses which."""
    created = datetime.fromtimestamp(product.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    libraries = crates() + npm_packages()
    packages = [program(product)] + [described(library) for library in libraries] + runtimes(product)
    relationships = [relation("SPDXRef-DOCUMENT", "DESCRIBES", ROOT)]
    relationships += [relation(ROOT, "CONTAINS", package["SPDXID"]) for package in packages[1:]]
    by_key = {crate.key: crate for crate in crates()}
    for crate in crates():
        relationships += [relation(identifier(crate), "DEPENDS_ON", identifier(by_key[key])) for key in crate.uses]
    text = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"weir-{product.version}",
        "creationInfo": {"created": created, "creators": [f"Tool: packaging/sbom.py-{product.version}"]},
        "packages": packages,
        "relationships": relationships,
    }
    digest = hashlib.sha256(json.dumps(text).encode()).hexdigest()
    # A name and no address: the digest makes it one of its own for each content, as SPDX wants.
    text["documentNamespace"] = f"https://spdx.org/spdxdocs/weir-{product.version}-{digest[:32]}"
    return json.dumps(text, indent=1).encode() + b"\n"


def program(product: Product) -> dict:
    """The entry of the program itself."""
    return {
        "SPDXID": ROOT,
        "name": "weir",
        "versionInfo": product.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "APPLICATION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(product.program.read_bytes()).hexdigest()}],
    }


def described(library: Library) -> dict:
    """The entry of a library."""
    entry = {
        "SPDXID": identifier(library),
        "name": library.name,
        "versionInfo": library.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": library.license,
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "LIBRARY",
    }
    if library.checksum:
        algorithm, value = library.checksum
        entry["checksums"] = [{"algorithm": algorithm, "checksumValue": value}]
        locator = f"pkg:{library.ecosystem}/{quote(library.name, safe='/')}@{quote(library.version, safe='')}"
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}
        entry["externalRefs"] = [reference]
    return entry


def runtimes(product: Product) -> list[dict]:
    """Entries of Rust's standard library, and of the C library if it is in the program."""
    compiler = re.search(r"\d+\.\d+\.\d+", run("rustc", "--version"))
    found = [("rust-std", compiler[0] if compiler else "NOASSERTION", "MIT OR Apache-2.0")]
    if product.elf.is_static:
        version = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc NOASSERTION").split()[-1]
        found.append(("glibc", version, "LGPL-2.1-or-later"))
    return [described(Library("generic", name, version, license, None, Path())) for name, version, license in found]


def identifier(library: Library) -> str:
    """The identifier of a library in the document; it may hold letters, digits, dots and hyphens only."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", library.key).strip("-")
    return f"SPDXRef-{library.ecosystem}-{name}"


def relation(element: str, kind: str, related: str) -> dict:
    """A relationship of two elements."""
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}
