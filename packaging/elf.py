"""Reads from an ELF file what a package must declare: its architecture, and the libraries that it loads."""

import re
import struct
from pathlib import Path

from tools import Failure

PT_INTERP = 3
PROGRAM_HEADER_BYTES = 56

# e_machine to the names that tar balls and RPM, Debian, and OCI have for it.
ARCHITECTURES = {62: ("x86_64", "amd64", "amd64"), 183: ("aarch64", "arm64", "arm64")}


class Elf:
    """The facts of one executable file of 64 bits, little-endian."""

    def __init__(self, path: Path):
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            raise Failure(f"{path}: not an ELF file of 64 bits, little-endian; --binary needs a program for Linux")
        machine = struct.unpack_from("<H", data, 18)[0]
        if machine not in ARCHITECTURES:
            raise Failure(f"{path}: machine {machine} of the ELF header has no package name; known are x86_64 and aarch64")
        self.machine, self.debian, self.oci = ARCHITECTURES[machine]
        offset = struct.unpack_from("<Q", data, 32)[0]
        count = struct.unpack_from("<H", data, 56)[0]
        kinds = [struct.unpack_from("<I", data, offset + n * PROGRAM_HEADER_BYTES)[0] for n in range(count)]
        # A program without an interpreter is loaded by the kernel alone.
        self.is_static = PT_INTERP not in kinds
        found = {int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?=\0)", data)}
        self.glibc = None if self.is_static else f"2.{max(found, default=17)}"
        self.needs_libgcc = not self.is_static and b"\0libgcc_s.so.1\0" in data
