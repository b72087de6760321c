"""Gathers the licence texts of the libraries in the program, because their licences ask that copies hold them."""

import re
from functools import cache

from dependencies import Library, crates, npm_packages
from tools import PACKAGING

# The texts of the dashboard's libraries. They are kept, because npm packages are not there where only Rust is built;
# `packaging/licenses.py` writes them anew from web/node_modules.
DASHBOARD = PACKAGING / "dashboard-licenses.txt"

NAMES = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)
RULE = "=" * 100


@cache
def third_party() -> bytes:
    """The texts of all libraries, each text once below the names of the libraries that it belongs to."""
    return (gathered(crates()) + DASHBOARD.read_text()).encode()


def gathered(libraries: list[Library]) -> str:
    """Names, licences and texts of libraries."""
    users: dict[str, list[Library]] = {}
    without = []
    for library in libraries:
        if library.checksum is None:
            continue
        texts = found_in(library)
        for text in texts:
            users.setdefault(text, []).append(library)
        if not texts:
            without.append(library)
    sections = []
    for text, owners in sorted(users.items(), key=lambda each: each[1][0].key):
        names = "\n".join(f"{library.name} {library.version} ({library.license})" for library in owners)
        sections.append(f"{RULE}\n{names}\n{RULE}\n\n{text}\n\n")
    if without:
        names = "\n".join(f"{library.name} {library.version} ({library.license})" for library in without)
        sections.append(f"{RULE}\nWithout a text of their own in what their authors publish:\n\n{names}\n\n")
    return "".join(sections)


def found_in(library: Library) -> list[str]:
    """The texts in the folder of a library."""
    if not library.folder.is_dir():
        return []
    # Crates of C libraries have their sources in folders below.
    holds_sources = library.name.endswith(("-sys", "-src"))
    paths = library.folder.rglob("*") if holds_sources else library.folder.iterdir()
    files = sorted(path for path in paths if path.is_file() and NAMES.match(path.name))
    texts = [path.read_text(errors="replace").strip() for path in files if path.suffix not in {".rs", ".js", ".json"}]
    return [text for text in texts if text]


if __name__ == "__main__":
    DASHBOARD.write_text(gathered(npm_packages()))
