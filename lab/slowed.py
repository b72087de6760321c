#!/usr/bin/env python3
"""Weir with a slowdown that was planted: the gateway of $SLOWED_BINARY, and a process of the same tree and on the same
cores that burns $SLOWED_PERCENT percent of what the gateway takes. The gateway's own code is not touched. Give it to
`weir lab run --also NAME=lab/slowed.py`.
"""

import os
import sys
import time

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Interval of the loop: short, so that the load is spread evenly over a run, and long enough to cost nothing itself.
LOOK_SECONDS = 0.02


def main():
    binary, arguments = os.environ["SLOWED_BINARY"], sys.argv[1:]
    if arguments[:1] == ["run"] and not os.fork():
        share = float(os.environ["SLOWED_PERCENT"]) / 100
        burn_beside(os.getppid(), share)
        return
    os.execv(binary, [binary, *arguments])


def burn_beside(gateway, share):
    """Burns until the gateway is gone."""
    spent = time.process_time()
    while os.getppid() == gateway:
        while time.process_time() - spent < share * taken(gateway):
            for _ in range(1000):
                pass
        time.sleep(LOOK_SECONDS)


def taken(process):
    """CPU seconds of a process, all its threads included; 0 when it is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


if __name__ == "__main__":
    main()
