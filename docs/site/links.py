#!/usr/bin/env python3
"""Checks the links of built pages: each leads to a file, and each anchor to an element of it.

    docs/site/links.py FOLDER"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, file):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        link = values.get(ATTRIBUTES.get(tag, ""))
        if link is not None:
            self.links.append((link, self.getpos()[0]))


def faults(folder):
    """The broken links of all pages below a folder, and the number of links."""
    pages = {file: Page(file) for file in sorted(folder.rglob("*.html"))}
    found, checked = [], 0
    for file, page in pages.items():
        for link, line in page.links:
            parts = urlsplit(link)
            where = f"{file.relative_to(folder)}:{line}: {link}"
            if parts.scheme in ("mailto", "data") or parts.scheme.startswith("http") and parts.netloc:
                continue
            checked += 1
            target = file if not parts.path else (file.parent / unquote(parts.path)).resolve()
            if parts.scheme or parts.path.startswith("/"):
                found.append(f"{where} does not work from a folder")
            elif not target.is_file():
                found.append(f"{where} leads nowhere")
            elif target.suffix == ".html" and unquote(parts.fragment) not in pages[target].anchors | {"__top"}:
                found.append(f"{where} names no element of {target.name}")
    return found, checked


if __name__ == "__main__":
    broken, number = faults(Path(sys.argv[1]).resolve())
    print("\n".join([*broken, f"{number} links, {len(broken)} of them broken"]))
    sys.exit(1 if broken else 0)
