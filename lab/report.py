"""Turns measured rounds into medians, ratios, a table and a JSON file; measures nothing."""

import argparse
import json
import re
import statistics
from datetime import datetime, timezone

from common import RESULTS

# Below this the proxy was not what limited the run, and its figures flatter or wrong it.
SATURATED_PERCENT = 95.0
# Below this share of its busy core a contender was not alone on it: its CPU time per request still stands, its
# requests per second and latency do not. Interrupts, which count as nobody's, take a part of the rest.
OWN_PERCENT = 80.0
HEADINGS = ["", "req/s", "p50 ms", "p99 ms", "CPU µs/req", "user", "system", "x nginx", "x haproxy", "PSS MB", "failed", "core"]


def summarise(rounds):
    """One row per contender from its rounds: medians, and the CPU ratio to each peer within the same round."""
    rows = {}
    for name in rounds[0]:
        own = [one[name] for one in rounds]
        row = {key: statistics.median(run[key] for run in own) for key in own[0]}
        row["failed"] = sum(run["failed"] for run in own)
        row["requests"] = sum(run["requests"] for run in own)
        row["saturated"] = row["core_percent"] >= SATURATED_PERCENT
        row["spread"] = {key: [min(run[key] for run in own), max(run[key] for run in own)] for key in own[0]}
        row["ratio"] = {
            peer: {key: ratio([one[name][key] / one[peer][key] for one in rounds if one[peer][key]]) for key in RATIOS}
            for peer in ("nginx", "haproxy")
            if peer in rounds[0]
        }
        rows[name] = row
    return rows


RATIOS = ("cpu_us", "user_us", "system_us", "requests_per_second")


def ratio(values):
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def table(title, rows, warm_up_failed):
    """The rows of one scenario as aligned text."""
    lines = [HEADINGS]
    for name, row in rows.items():
        lines.append(
            [
                name,
                f"{row['requests_per_second']:,.0f}",
                f"{row['p50_ms']:.2f}",
                f"{row['p99_ms']:.2f}",
                f"{row['cpu_us']:.1f}",
                f"{row['user_us']:.1f}",
                f"{row['system_us']:.1f}",
                shown_ratio(row, "nginx", name),
                shown_ratio(row, "haproxy", name),
                f"{row['pss_bytes'] / 1e6:.1f}",
                f"{row['failed']:.0f}",
                f"{row['core_percent']:.0f} %" + ("" if row["saturated"] else " (!)"),
            ]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    text = [title]
    for line in lines:
        cells = [cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))]
        text.append("  " + "  ".join(cells).rstrip())
    for name, failed in warm_up_failed.items():
        if failed:
            text.append(f"  {name}: {failed} requests failed while warming up")
    for name, row in rows.items():
        if row["saturated"] and row["own_percent"] < OWN_PERCENT:
            text.append(f"  {name}: had only {row['own_percent']:.0f} % of its core, the rest went to something else on this machine")
    if not all(row["saturated"] for row in rows.values()):
        text.append(f"  (!) the proxy's core was less than {SATURATED_PERCENT:.0f} % busy: this row did not measure the proxy alone")
    return "\n".join(text)


def shown_ratio(row, peer, name):
    found = row["ratio"].get(peer, {}).get("cpu_us")
    if not found or name == peer:
        return "-"
    return f"{found['median']:.2f} ({found['min']:.2f}..{found['max']:.2f})"


def result_name(text):
    """The argument of --save: a plain file name without its ending."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no plain name (letters, digits, . _ -)")
    return text


def chosen(parser, names, figures):
    """Those of the figures that were named, all where none was; ends with a message for an unknown one."""
    unknown = set(names) - set(figures)
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(figures)}")
    return names or list(figures)


def save(kind, name, result):
    """Keeps a result as JSON under lab/results; the file's path."""
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    path = RESULTS / f"{name or f'{kind}-{stamp}'}.json"
    path.write_text(json.dumps({"kind": kind, "time": stamp, **result}, indent=1, ensure_ascii=False) + "\n")
    return path
