"""Lists the libraries in the program: crates that are linked, and the npm packages of the dashboard's bundle."""

import base64
import json
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from program import TARGET
from tools import REPOSITORY, Failure, run

# mlua always names it, and compiles LuaJIT instead.
UNUSED_SOURCES = {"lua-src"}


@dataclass(frozen=True)
class Library:
    """A library with its licence in SPDX's form."""

    # cargo or npm.
    ecosystem: str
    name: str
    version: str
    license: str
    # SHA256 or SHA512, and its value in hexadecimal; none for crates of this repository.
    checksum: tuple[str, str] | None
    # The folder with its sources, if it is on this machine.
    folder: Path
    # Names with versions of the libraries that it uses.
    uses: tuple[str, ...] = field(default=())

    @property
    def key(self) -> str:
        """The name with the version."""
        return f"{self.name}@{self.version}"


@cache
def crates() -> list[Library]:
    """The crates in the program with its default features, and those with sources of C libraries that build scripts
    compile into it."""
    linked = tree("normal,no-proc-macro")
    built = tree("normal,build,no-proc-macro")
    linked |= {crate for crate in built if crate[0].endswith("-src") and crate[0] not in UNUSED_SOURCES}
    sums = checksums()
    options = ["--locked", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(run("cargo", "metadata", *options, cwd=REPOSITORY))
    by_id = {package["id"]: package for package in metadata["packages"]}
    found = []
    for node in metadata["resolve"]["nodes"]:
        package = by_id[node["id"]]
        name, version = package["name"], package["version"]
        if (name, version) not in linked:
            continue
        used = [by_id[dependency] for dependency in node["dependencies"]]
        uses = [f"{other['name']}@{other['version']}" for other in used if (other["name"], other["version"]) in linked]
        checksum = sums.get((name, version))
        found.append(
            Library(
                "cargo",
                name,
                version,
                expression(package["license"]),
                ("SHA256", checksum) if checksum else None,
                Path(package["manifest_path"]).parent,
                tuple(sorted(uses)),
            )
        )
    missing = linked - {(crate.name, crate.version) for crate in found}
    if missing:
        raise Failure(f"cargo tree names crates that cargo metadata does not: {sorted(missing)}")
    return sorted(found, key=lambda crate: crate.key)


def tree(edges: str) -> set[tuple[str, str]]:
    """Names and versions of the crates that the program reaches over some kinds of dependencies."""
    options = ["--locked", "--package", "weir", "--edges", edges, "--target", TARGET]
    lines = run("cargo", "tree", *options, "--prefix", "none", "--format", "{p}", cwd=REPOSITORY).splitlines()
    words = [line.split() for line in lines if line]
    return {(name, version.removeprefix("v")) for name, version, *_ in words}


def checksums() -> dict[tuple[str, str], str]:
    """The SHA-256 of each crate of a registry, as Cargo.lock has it."""
    lock = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())
    return {(each["name"], each["version"]): each["checksum"] for each in lock["package"] if "checksum" in each}


def expression(license: str | None) -> str:
    """A licence of Cargo.toml as an expression of SPDX: old manifests write a slash for OR."""
    if not license:
        return "NOASSERTION"
    # SPDX has no identifier for later versions of the MPL, which section 10.2 of version 2.0 allows anyway.
    return re.sub(r"\s*/\s*", " OR ", license).replace("MPL-2.0+", "MPL-2.0")


@cache
def npm_packages() -> list[Library]:
    """The packages that the dashboard needs when it runs. The bundle may hold less, because unused code is left out."""
    lock = json.loads((REPOSITORY / "web/package-lock.json").read_text())
    found = []
    for place, entry in lock["packages"].items():
        if not place or entry.get("dev"):
            continue
        algorithm, _, digest = entry["integrity"].partition("-")
        checksum = (algorithm.upper(), base64.b64decode(digest).hex())
        name = place.rpartition("node_modules/")[2]
        license = entry.get("license", "NOASSERTION")
        found.append(Library("npm", name, entry["version"], license, checksum, REPOSITORY / "web" / place))
    return sorted(found, key=lambda package: package.key)
