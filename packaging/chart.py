#!/usr/bin/env python3
"""Packs the Helm chart with the version of the program, reproducibly: `build(out_dir, version)` writes weir-chart-VERSION.tgz."""

import gzip
import io
import os
import pathlib
import re
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent
CHART = ROOT / "helm" / "weir"


def files():
    """Yields the files of the chart by name; symbolic links to rules and dashboards are followed."""
    for folder, _, names in os.walk(CHART):
        for name in names:
            path = pathlib.Path(folder) / name
            if name != ".helmignore" and not name.endswith(("~", ".swp", ".orig")):
                yield path.relative_to(CHART).as_posix(), path.read_bytes()


def with_version(text, version):
    """Chart.yaml with both versions replaced. Helm asks for three numbers, so a shorter version is refused."""
    if not re.fullmatch(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?", version):
        raise ValueError(f"{version} is no version of a chart: it needs three numbers, such as 1.2.3")
    text, chart = re.subn(r"(?m)^version: .*$", f"version: {version}", text)
    text, program = re.subn(r"(?m)^appVersion: .*$", f'appVersion: "{version}"', text)
    if (chart, program) != (1, 1):
        raise ValueError("Chart.yaml needs one line `version:` and one line `appVersion:`")
    return text


def build(out_dir, version):
    """Writes the packed chart into `out_dir` and returns its path."""
    time = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files()):
            if name == "Chart.yaml":
                content = with_version(content.decode(), version).encode()
            entry = tarfile.TarInfo(f"weir/{name}")
            entry.size, entry.mtime, entry.mode = len(content), time, 0o644
            archive.addfile(entry, io.BytesIO(content))
    path = pathlib.Path(out_dir) / f"weir-chart-{version}.tgz"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a name and a time in the header, so that equal contents give equal bytes.
    with open(path, "wb") as out, gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as zipped:
        zipped.write(packed.getvalue())
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: chart.py OUT_DIR VERSION")
    print(build(sys.argv[1], sys.argv[2]))
