"""The product that is packed: versions, times, the stripped program, and the list of files that packages install."""

import gzip
import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import licenses
from elf import Elf
from tools import PACKAGING, REPOSITORY, Failure, run, run_program

SUMMARY = "API gateway and reverse proxy in one binary"
# Distributors set their own by WEIR_MAINTAINER.
MAINTAINER = os.environ.get("WEIR_MAINTAINER", "Weir maintainers <maintainers@weir.invalid>")
USER = "weir"

# A version of Semantic Versioning without build metadata, which file names of Debian cannot hold.
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")


@dataclass(frozen=True)
class File:
    """A file on the installed system."""

    path: str
    data: bytes
    mode: int = 0o644
    group: str = "root"
    # A file of /etc that keeps the changes of its administrator.
    is_config: bool = False


class Product:
    """A program with a version, and everything that is packed beside it."""

    def __init__(self, binary: Path, version: str, work: Path, is_fast: bool):
        if not VERSION.fullmatch(version):
            raise Failure(f"--version {version}: not a version such as 1.2.3 or 1.2.3-rc.1")
        self.version = version
        # A tilde sorts before the end, so that packages of 1.0.0 replace those of 1.0.0-rc.1.
        self.package_version = version.replace("-", "~")
        self.epoch = commit_time()
        self.work = work
        self.is_fast = is_fast
        self.program = work / "weir"
        if not binary.is_file():
            raise Failure(f"--binary {binary}: no such file")
        run("strip", "--strip-all", "-o", self.program, binary)
        self.elf = Elf(self.program)

    @property
    def xz_level(self) -> int:
        """The level of xz."""
        return 0 if self.is_fast else 6

    def gzip(self, data: bytes) -> bytes:
        """Compressed without a time or a name."""
        return gzip.compress(data, 9, mtime=0)

    @cached_property
    def manual_pages(self) -> dict[str, bytes]:
        """The manual pages by name, as the program writes them."""
        folder = self.work / "man"
        shutil.rmtree(folder, ignore_errors=True)
        run_program(self.program, "man", folder)
        return {page.name: page.read_bytes() for page in sorted(folder.iterdir())}

    def completions(self, shell: str) -> bytes:
        """The completion script of a shell."""
        return run_program(self.program, "completions", shell).encode()

    @cached_property
    def third_party_licenses(self) -> bytes:
        """The licence texts of all libraries, compressed."""
        return self.gzip(licenses.third_party())

    @cached_property
    def files(self) -> list[File]:
        """The files of the packages of distributions, sorted by path."""
        doc = "/usr/share/doc/weir"
        files = [
            File("/usr/bin/weir", self.program.read_bytes(), 0o755),
            File("/usr/lib/systemd/system/weir.service", text("packaging/systemd/weir.service")),
            File("/usr/lib/weir/take-over", text("packaging/systemd/take-over"), 0o755),
            File("/etc/weir/weir.yaml", text("packaging/weir.yaml"), is_config=True),
            File("/etc/weir/weir.env", text("packaging/systemd/weir.env"), 0o640, USER, is_config=True),
            File("/etc/logrotate.d/weir", text("packaging/logrotate/weir"), is_config=True),
            File("/usr/share/bash-completion/completions/weir", self.completions("bash")),
            File("/usr/share/zsh/vendor-completions/_weir", self.completions("zsh")),
            File("/usr/share/fish/vendor_completions.d/weir.fish", self.completions("fish")),
            File(f"{doc}/examples/weir.yaml", text("examples/weir.yaml")),
            File(f"{doc}/examples/low-ports.conf", text("packaging/systemd/weir.service.d/low-ports.conf")),
            File(f"{doc}/examples/transparent.conf", text("packaging/systemd/weir.service.d/transparent.conf")),
            File(f"{doc}/examples/plugin-runner.conf", text("packaging/systemd/weir.service.d/plugin-runner.conf")),
            File(f"{doc}/CHANGELOG.md.gz", self.gzip(text("CHANGELOG.md"))),
            File(f"{doc}/third-party-licenses.gz", self.third_party_licenses),
        ]
        for source in operators():
            files.append(File(f"{doc}/examples/{source}", text(f"packaging/{source}")))
        files += [File(f"/usr/share/man/man1/{name}.gz", self.gzip(page)) for name, page in self.manual_pages.items()]
        return sorted(files, key=lambda file: file.path)


def text(path: str) -> bytes:
    """A file of the repository."""
    return (REPOSITORY / path).read_bytes()


def operators() -> list[str]:
    """Dashboards and rules for operators, by their paths below packaging."""
    names = [*PACKAGING.glob("grafana/*.json"), *PACKAGING.glob("prometheus/*.yml")]
    return sorted(path.relative_to(PACKAGING).as_posix() for path in names if not path.stem.endswith("-test"))


def default_version() -> str:
    """The version in Cargo.toml."""
    found = re.search(r'^version = "(.+)"$', text("Cargo.toml").decode(), re.MULTILINE)
    if found is None:
        raise Failure("Cargo.toml has no line `version = \"…\"`; name one by --version")
    return found[1]


def commit_time() -> int:
    """The time that all files get: SOURCE_DATE_EPOCH, or that of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        if not given.isdigit():
            raise Failure(f"SOURCE_DATE_EPOCH={given}: not a number of seconds since 1970")
        return int(given)
    try:
        return int(run("git", "log", "-1", "--format=%ct", cwd=REPOSITORY))
    except Failure as failure:
        raise Failure(f"no time for the files: set SOURCE_DATE_EPOCH, because git has none ({failure})") from failure


def write_tree(files: list[File], root: Path, epoch: int) -> None:
    """Writes files below a folder, with their modes and the one time; owners are left to the archives."""
    for file in files:
        path = root / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
        os.utime(path, (epoch, epoch))
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o755)
        os.utime(folder, (epoch, epoch))
