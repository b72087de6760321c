"""Processes, ports, CPU and memory accounting for the laboratory; knows no gateway and no load generator."""

import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "target" / "release" / "weir"
RESULTS = Path(__file__).resolve().parent / "results"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class LabError(Exception):
    """Something the person at the keyboard can put right; printed without a traceback."""


class Lab:
    """A temporary directory and every process started in it; both gone when the block ends, however it ends."""

    def __enter__(self):
        self.processes = []
        self.directory = Path(tempfile.mkdtemp(prefix="weir-lab-"))
        # nginx's workers give up root and still have to reach their files.
        self.directory.chmod(0o755)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return self

    def __exit__(self, *_):
        # An impatient second Ctrl-C must not leave processes behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def start(self, name, command, cores=None, environment=None):
        """Starts a process in its own group, pinned to `cores`, its output in files of the directory."""
        process = Process(self.directory, name, command, cores, environment)
        self.processes.append(process)
        return process

    def stop(self, process):
        process.stop()
        self.processes.remove(process)

    def subdirectory(self, name):
        """A fresh directory."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))
        path.chmod(0o755)
        return path


class Process:
    """One started program with all its descendants."""

    def __init__(self, directory, name, command, cores, environment):
        self.name = name
        self.output_file = Path(tempfile.mkstemp(prefix=f"{name}-", suffix=".out", dir=directory)[1])
        self.error_file = self.output_file.with_suffix(".err")
        if cores is not None:
            command = ["taskset", "-c", ",".join(map(str, cores)), *command]
        self.started = time.perf_counter()
        with open(self.output_file, "wb") as output, open(self.error_file, "wb") as errors:
            self.child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self):
        return self.child.pid

    def wait_for_lines(self, wanted, seconds=60, pause=0.01):
        """Reads standard output until the line `wanted`; all lines up to it."""
        deadline = time.monotonic() + seconds
        while True:
            lines = self.output_file.read_text(errors="replace").splitlines()
            if wanted in lines:
                return lines[: lines.index(wanted) + 1]
            self.check_alive()
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} did not print {wanted!r} within {seconds} s:\n{self.errors()}")
            time.sleep(pause)

    def wait_for_port(self, port, seconds=20):
        """Waits until something accepts on the port."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                self.check_alive()
                if time.monotonic() > deadline:
                    raise LabError(f"{self.name} does not listen after {seconds} s:\n{self.errors()}") from None
                time.sleep(0.02)

    def check_alive(self):
        if self.child.poll() is not None:
            raise LabError(f"{self.name} ended with status {self.child.returncode}:\n{self.errors()}")

    def errors(self):
        """The end of what it wrote to standard error."""
        return "\n".join(self.error_file.read_text(errors="replace").splitlines()[-20:])

    def stop(self):
        """Ends the whole group: in order first, then by force."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            if self.child.poll() is not None and not group_alive(self.pid):
                return
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                if self.child.poll() is not None and not group_alive(self.pid):
                    return
                time.sleep(0.02)

    def pids(self):
        """Its process id and those of all its descendants."""
        children = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                fields = stat_fields(entry)
                if fields:
                    children.setdefault(int(fields[1]), []).append(int(entry))
        found, queue = [], [self.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            queue.extend(children.get(pid, []))
        return found

    def cpu_seconds(self):
        """(user, system) seconds of all its processes, dead children that were waited for included."""
        user = system = 0
        for pid in self.pids():
            fields = stat_fields(pid)
            if fields:
                user += int(fields[11]) + int(fields[13])
                system += int(fields[12]) + int(fields[14])
        return user / TICKS_PER_SECOND, system / TICKS_PER_SECOND

    def memory_bytes(self):
        """(PSS, RSS) of all its processes: PSS counts a page shared by n processes as 1/n."""
        pss = rss = 0
        for pid in self.pids():
            try:
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        pss += int(line.split()[1]) * 1024
                    elif line.startswith("Rss:"):
                        rss += int(line.split()[1]) * 1024
            except OSError:
                # It ended between the listing and the reading.
                continue
        return pss, rss


def group_alive(group):
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def stat_fields(pid):
    """/proc/PID/stat behind the program's name, so that [0] is the state, [1] the parent, [11] utime, [12] stime."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def stolen_ticks(core):
    """Ticks of one core since boot in which a process wanted it and the hypervisor gave it to another machine."""
    return ticks(core)[7]


def ticks(core):
    """user, nice, system, idle, iowait, irq, softirq, steal (proc(5)); guests are in user already."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *numbers = line.split()
        if name == f"cpu{core}":
            return list(map(int, numbers[:8]))
    raise LabError(f"this machine has no core {core}")


def free_port():
    """A free port of 127.0.0.1."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def cores():
    """(the proxy's core, the load generator's, the origin's): the last two share one on a machine with two."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise LabError("at least two cores are needed: one for the proxy, one for load and origin")
    return usable[0], usable[1], usable[2 % len(usable)] if len(usable) > 2 else usable[1]


def need_programs(*names):
    """Stops with one message about everything that is missing."""
    missing = [name for name in names if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        raise LabError(f"missing: {', '.join(missing)}. lab/install.sh installs them (Debian)")


def need_binary(binary):
    if not os.access(binary, os.X_OK):
        raise LabError(f"{binary} is not there: cargo build --release")


def first_line(*command):
    """The first line a program says of itself, wherever it says it."""
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    return ((output.stdout or output.stderr).splitlines() or ["unknown"])[0]


def machine():
    """The machine that a figure depends on, besides the programs."""
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return {"kernel": platform.release(), "cpu": model, "cores": len(os.sched_getaffinity(0))}


def run_main(main):
    """Runs a program's main: errors as one line, Ctrl-C without a traceback."""
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
