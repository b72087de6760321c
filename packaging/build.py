#!/usr/bin/python3
"""Builds the packages of Weir: Debian, RPM, a tar ball, an OCI image, an SBOM, the Helm chart, and their checksums.

Without --binary the static release program is built first. Two runs from one commit write the same bytes; with --train
the second one needs the profile of the first, as --profile.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import chart
import checksums
import deb
import oci
import program
import rpm
import sbom
import tarball
import train
from product import Product, default_version
from tools import REPOSITORY, Failure

BUILDERS = {
    "tar": tarball.build,
    "deb": deb.build,
    "rpm": rpm.build,
    "oci": oci.build,
    "spdx": sbom.build,
    "chart": lambda product, out: chart.build(out, product.version, product.epoch),
}


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
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--binary", type=Path, help="pack this program instead of building the static one")
    train_help = "build the program twice, and optimise the second by what the first does in the laboratory"
    source.add_argument("--train", action="store_true", help=train_help)
    profile_help = "optimise the program by this profile of an earlier --train, of the same commit and compiler"
    source.add_argument("--profile", type=Path, help=profile_help)
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
    binary = options.binary or build_program(options, version, out)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as work:
        product = Product(binary, version, Path(work), options.fast)
        built = [BUILDERS[name](product, out) for name in chosen]
    built.append(checksums.write(out))
    width = max(len(path.name) for path in built)
    for path in built:
        print(f"{path.name:{width}}  {path.stat().st_size / 1e6:8.2f} MB")
    print(f"in {out}")


def build_program(options: argparse.Namespace, version: str, out: Path) -> Path:
    """The static program; the profile that it is optimised by, if any, is beside the packages."""
    profile = train.train() if options.train else options.profile
    if profile is None:
        return program.build_static()
    if not profile.is_file():
        raise Failure(f"--profile {profile}: no such file")
    kept = out / f"weir-{version}.profdata"
    if profile.resolve() != kept:
        shutil.copyfile(profile, kept)
    return program.build_optimised(kept)


if __name__ == "__main__":
    sys.exit(main())
