"""Builds the static release program, in a target folder of its own."""

import os
import subprocess
from pathlib import Path

from tools import REPOSITORY, Failure, require

# Named although it is the host: with a target, the flags are not those of build scripts and procedural macros, which are
# loaded by the compiler and cannot be static.
TARGET = "x86_64-unknown-linux-gnu"
FOLDER = REPOSITORY / "target/static"


def build_static(folder: Path = FOLDER, more_flags: str = "") -> Path:
    """Runs cargo and returns the program; a run without changes takes a second."""
    command = [require("cargo"), "build", "--release", "--locked", "--package", "weir", "--target", TARGET]
    flags = f"{os.environ.get('RUSTFLAGS', '')} -C target-feature=+crt-static {more_flags}".strip()
    # Paths of this machine would be in panic messages, and differ from those of the next one.
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    flags += f" --remap-path-prefix={REPOSITORY}=/weir --remap-path-prefix={home}=/cargo"
    environment = {**os.environ, "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(folder)}
    if subprocess.run(command, cwd=REPOSITORY, env=environment).returncode != 0:
        raise Failure("the program could not be built; cargo says above why")
    return folder / TARGET / "release/weir"


def build_optimised(profile: Path) -> Path:
    """As `build_static`, optimised by this profile. Functions that the profile does not know are built as without it."""
    return build_static(REPOSITORY / "target/optimised", f"-C profile-use={profile.resolve()}")
