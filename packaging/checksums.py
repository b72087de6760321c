"""Writes SHA256SUMS, in the form that `sha256sum --check` reads."""

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def write(out: Path) -> Path:
    """Writes the sums of all packages in a folder, sorted by name."""
    packages = sorted(path for path in out.iterdir() if path.is_file() and path.name != NAME)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in packages]
    sums = out / NAME
    sums.write_text("".join(lines))
    return sums
