"""Makes the profile that the compiler optimises the release program by: how often each branch and call ran while the
laboratory's scenarios passed through a program that counts them."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import program
from tools import REPOSITORY, Failure, require, run

# The most frequent work of gateways, with each protocol: the branches that these scenarios take are laid out as the way
# straight on. The laboratory's origin and load are the same program and are counted, too.
SCENARIOS = [
    "small", "page", "connections-256", "routes-1000", "short-connections", "slow-origin-20", "failing-origin", "changes",
    "up-100kb", "down-1mb", "stripped-prefix", "ten-plugins", "gzip", "cached", "tls-small", "tls-page", "tls-handshake-full",
    "tls-handshake-resumed", "h2-c32-m10", "h2-1mb", "h2c-c32-m10", "grpc-unary-c32-m10", "grpc-stream-100", "h3-8x10", "h3-1mb",
    "websocket", "tcp-messages", "tcp-connections", "udp-datagrams",
]  # fmt: skip
SECONDS = 2
# The programs with which the laboratory sends requests, besides itself.
LOADS = ["wrk", "h2load"]


def train() -> Path:
    """Builds the program that counts, passes the scenarios through it, and returns the profile."""
    llvm_profdata = tool("llvm-profdata")
    for load in LOADS:
        require(load)
    folder = REPOSITORY / "target/profile"
    counting = program.build_static(folder, f"-C profile-generate={folder}")
    with tempfile.TemporaryDirectory(prefix="counts-", dir=folder) as counts:
        pass_scenarios(counting, Path(counts))
        files = sorted(Path(counts).glob("*.profraw"))
        if not files:
            raise Failure("the laboratory ended without a profile")
        profile = folder / "weir.profdata"
        merge = [llvm_profdata, "merge", "--output", profile, *files]
        if subprocess.run(merge).returncode != 0:
            raise Failure("llvm-profdata could not read the counts; it says above why")
    return profile


def pass_scenarios(counting: Path, counts: Path) -> None:
    """Runs the laboratory; its programs write their counts when they end. Four files take those of all of them."""
    command = [counting, "lab", "run", "--no-install", "--no-pin", "--contender", "weir", "--baseline", "weir"]
    command += ["--rounds", "1", "--seconds", str(SECONDS), "--save", counts / "result.json", "--scenario", *SCENARIOS]
    environment = {**os.environ, "LLVM_PROFILE_FILE": f"{counts}/%4m.profraw"}
    done = subprocess.run([str(part) for part in command], cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"the laboratory ended with status {done.returncode}:\n{done.stdout}{done.stderr}")


def tool(name: str) -> str:
    """A tool of the compiler's own LLVM: others do not read its profiles."""
    sysroot = Path(run("rustc", "--print", "sysroot").strip())
    found = shutil.which(name, path=sysroot / "lib/rustlib" / program.TARGET / "bin")
    if found is None:
        raise Failure(f"{name} is missing; install it with: rustup component add llvm-tools")
    return found
