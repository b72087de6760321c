"""Names of figures and results, and the JSON file of a result; measures nothing."""

import argparse
import json
import re
from datetime import datetime, timezone

from common import RESULTS


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
