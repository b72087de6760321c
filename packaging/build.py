#!/usr/bin/python3
"""Builds the packages of Weir: Debian, RPM, a tar ball, an OCI image, an SBOM, the Helm chart, and their checksums.

Without --binary the static release program is built first. Two runs from one commit write the same bytes.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import checksums
import deb
import oci
import program
import rpm
import sbom
import tarball
from product import Product, default_version
from tools import REPOSITORY, Failure

BUILDERS = {"tar": tarball.build, "deb": deb.build, "rpm": rpm.build, "oci": oci.build, "spdx": sbom.build}


def main() -> int:
    options = arguments()
    # dpkg-deb refuses folders that others cannot read.
    os.umask(0o022)
    try:
        build(options)
    except Failure as failure:
        print(f"package: {failure}", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Builds the packages of Weir.")
    parser.add_argument("--binary", type=Path, help="pack this program instead of building the static one")
    parser.add_argument("--version", help="version of the packages; default: that of Cargo.toml")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "target/package", help="folder of the packages")
    parser.add_argument("--only", help=f"some of: {','.join(BUILDERS)}")
    parser.add_argument("--fast", action="store_true", help="compress quickly and less, for tests")
    return parser.parse_args()


def build(options: argparse.Namespace) -> None:
    """Writes the chosen packages, then the checksums of everything in the folder."""
    chosen = options.only.split(",") if options.only else list(BUILDERS)
    for name in chosen:
        if name not in BUILDERS:
            raise Failure(f"--only {name}: no such package; there are {', '.join(BUILDERS)}")
    version = options.version or default_version()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    binary = options.binary or program.build_static()
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as work:
        product = Product(binary, version, Path(work), options.fast)
        built = [BUILDERS[name](product, out) for name in chosen]
    built.append(checksums.write(out))
    width = max(len(path.name) for path in built)
    for path in built:
        print(f"{path.name:{width}}  {path.stat().st_size / 1e6:8.2f} MB")
    print(f"in {out}")


if __name__ == "__main__":
    sys.exit(main())
