"""Finds the shared libraries that an image needs for a program that is not static, such as a debug build."""

import re
from pathlib import Path

from archive import Member
from product import Product
from tools import run


def beside(product: Product) -> list[Member]:
    """The libraries of the program at the paths where its loader finds them; none for a static program."""
    if product.elf.is_static:
        return []
    paths = re.findall(r"(/\S+) \(0x", run("ldd", product.program))
    return [Member(path.lstrip("/"), Path(path).read_bytes(), 0o755) for path in sorted(paths)]
