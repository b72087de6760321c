"""Runs the programs that build packages; a missing one is named with its Debian package."""

import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGING = REPOSITORY / "packaging"

# The Debian package of each program; `lab/install.sh package` installs them.
PACKAGES = {
    "cargo": "a Rust toolchain",
    "dpkg-deb": "dpkg",
    "git": "git",
    "h2load": "nghttp2-client",
    "ldd": "libc-bin",
    "rpmbuild": "rpm",
    "rustc": "a Rust toolchain",
    "strip": "binutils",
    "wrk": "wrk",
}


class Failure(Exception):
    """A reason why packages cannot be built, for the user."""


def require(program: str) -> str:
    """The path of a program."""
    found = shutil.which(program)
    if found is None:
        raise Failure(f"{program} is missing; install {PACKAGES[program]}, or run lab/install.sh package")
    return found


def run(program: str, *arguments, cwd: Path | None = None, **environment: str) -> str:
    """Runs a program in the C locale and returns its output; its errors are those of the build."""
    command = [require(program), *map(str, arguments)]
    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC", **environment}
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def filled(template: str, values: dict[str, str]) -> str:
    """A template with each @NAME@ replaced."""
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def run_program(path: Path, *arguments) -> str:
    """Runs the packed program itself."""
    try:
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True)
    except OSError as error:
        raise Failure(f"{path} cannot be run on this machine, which makes the manual pages by it: {error}") from error
    if done.returncode != 0:
        raise Failure(f"{path} {' '.join(map(str, arguments))} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout
