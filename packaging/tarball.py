"""Builds the tar ball: one folder with the program and everything to install it by hand."""

from pathlib import Path

import licenses
from archive import Member, compressed, tar
from product import Product, operators, text

# Files of the repository and their places in the tar ball.
COPIED = {
    "LICENSE": "LICENSE",
    "README.md": "README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "packaging/weir.yaml": "weir.yaml",
    "packaging/systemd/weir.service": "systemd/weir.service",
    "packaging/systemd/weir.env": "systemd/weir.env",
    "packaging/systemd/weir.service.d/low-ports.conf": "systemd/weir.service.d/low-ports.conf",
    "packaging/systemd/weir.service.d/plugin-runner.conf": "systemd/weir.service.d/plugin-runner.conf",
    "packaging/systemd/weir.service.d/transparent.conf": "systemd/weir.service.d/transparent.conf",
    "packaging/logrotate/weir": "logrotate/weir",
    "examples/weir.yaml": "examples/weir.yaml",
}


def build(product: Product, out: Path) -> Path:
    """Writes weir-VERSION-ARCHITECTURE-linux.tar.gz into a folder."""
    folder = f"weir-{product.version}-{product.elf.machine}-linux"
    members = [Member("weir", product.program.read_bytes(), 0o755)]
    members += [Member(place, text(source)) for source, place in COPIED.items()]
    members += [Member(source, text(f"packaging/{source}")) for source in operators()]
    members += [Member(f"man/man1/{name}", page) for name, page in product.manual_pages.items()]
    members += [
        Member("completions/weir.bash", product.completions("bash")),
        Member("completions/_weir", product.completions("zsh")),
        Member("completions/weir.fish", product.completions("fish")),
        Member("THIRD-PARTY-LICENSES", licenses.third_party()),
    ]
    within = [Member(f"{folder}/{each.name}", each.data, each.mode) for each in members]
    path = out / f"{folder}.tar.gz"
    path.write_bytes(compressed(tar(within, product.epoch), product.is_fast))
    return path
