#!/usr/bin/env python3
"""Writes the README of the chart from values.yaml, so that both say the same; with --check it only compares them."""

import pathlib
import re
import sys

CHART = pathlib.Path(__file__).resolve().parent / "weir"

HEAD = """# The chart of Weir

Made from `values.yaml` by `packaging/helm/readme.py`; edit the values there. The guide is
[Weir on Kubernetes](../../../docs/guide/kubernetes.md).

```sh
helm install weir weir-chart-VERSION.tgz --values my-values.yaml
```

| value | default | |
|---|---|---|
"""


def entries(text):
    """Yields the path, the default and the description of every value with a comment that begins with `# -- `."""
    path, comment = [], []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            if stripped.startswith("# -- "):
                comment = [stripped[5:]]
            elif comment:
                comment.append(stripped.lstrip("# "))
            continue
        match = re.match(r"( *)([A-Za-z0-9]+):(.*)", line)
        if match:
            depth = len(match[1]) // 2
            path = path[:depth] + [match[2]]
            if comment:
                yield ".".join(path), match[3].strip(), " ".join(comment)
        comment = []


def page():
    """The text of the README."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    rows = []
    for name, default, description in entries(text):
        # A value with parts has its default in the file.
        shown = f"`{default}`" if default else "see the file"
        cells = [f"`{name}`", shown, description]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return HEAD + "\n".join(rows) + "\n"


def main():
    readme = CHART / "README.md"
    made = page()
    if sys.argv[1:] == ["--check"]:
        if not readme.exists() or readme.read_text(encoding="utf-8") != made:
            sys.exit("packaging/helm/weir/README.md is not that of values.yaml: run packaging/helm/readme.py")
    else:
        readme.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
