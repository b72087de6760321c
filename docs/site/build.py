#!/usr/bin/env python3
"""Builds the documentation site, `target/site`, from the pages of the repository, and checks all of its links.

    docs/site/build.py [--out FOLDER]

The generator is MkDocs with the theme Material; `lab/install.sh docs` installs both below target/. The site needs no server:
search works in pages that are opened from a folder."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from links import faults  # noqa: E402
from pages import GROUPS  # noqa: E402
from prepare import Source, check_order, pages_below, place  # noqa: E402

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


def title(page):
    """The title of a page."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith("# ")).removeprefix("# ")


def entry(label, page, pages):
    """The entry of a page; one that has pages below it is a folder that begins with its own page."""
    below = pages_below(page, pages)
    if not below:
        return {label: place(page)}
    return {label: [{"Overview": place(page)}] + [{title(inner): place(inner)} for inner in below]}


def navigation(pages):
    """The groups with their pages, as the generator takes them."""
    groups = []
    for name, listed in GROUPS:
        groups.append({name: [entry(label, page, pages) for label, page in listed if page in pages]})
    decisions = [page for page in pages if page.startswith("docs/decisions/0")]
    overview = {"Overview": place("docs/decisions/README.md")}
    groups[-1]["Project"].append({"Decisions": [overview] + [{title(page): place(page)} for page in decisions]})
    return groups


def settings(pages, source, out):
    """The generator's settings. JSON is YAML, so that no library is needed to write them."""
    colours = {"primary": "custom", "accent": "custom"}
    palette = [
        {"media": "(prefers-color-scheme)", **colours,
         "toggle": {"icon": "material/brightness-auto", "name": "Switch to the light theme"}},
        {"media": "(prefers-color-scheme: light)", "scheme": "default", **colours,
         "toggle": {"icon": "material/weather-sunny", "name": "Switch to the dark theme"}},
        {"media": "(prefers-color-scheme: dark)", "scheme": "slate", **colours,
         "toggle": {"icon": "material/weather-night", "name": "Follow the theme of the system"}},
    ]
    return {
        "site_name": "Weir",
        "site_description": "An API gateway and reverse proxy in one binary",
        "docs_dir": str(source),
        "site_dir": str(out),
        "use_directory_urls": False,
        "nav": navigation(pages),
        "theme": {
            "name": "material", "language": "en", "font": False, "palette": palette,
            "icon": {"logo": "material/waves"}, "favicon": "favicon.svg",
            "features": ["navigation.tabs", "navigation.prune", "navigation.top", "navigation.footer", "toc.follow", "search.suggest",
                         "search.highlight", "content.code.copy", "navigation.tabs.sticky"],
        },
        "extra": {"generator": False, "homepage": "index.html", "polyfills": ["iframe-worker.js"]},
        "extra_css": ["style.css"],
        "plugins": [{"search": {"lang": "en"}}, "offline"],
        "markdown_extensions": [
            "tables", "sane_lists", "md_in_html", "attr_list",
            {"toc": {"permalink": True, "toc_depth": "2-3", "slugify": "pymdownx.slugs.slugify(case=lower)"}},
            "pymdownx.superfences", {"pymdownx.highlight": {"anchor_linenums": False}}, "pymdownx.betterem",
        ],
    }


def configuration(values):
    """The settings as text, with the function that makes anchors as code hosts do."""
    text = json.dumps(values, indent=1)
    function = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
    return text.replace('"pymdownx.slugs.slugify(case=lower)"', function)


def main():
    """Prepares, builds and checks; the exit status is 1 if a link is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "target/site")
    out = parser.parse_args().out.resolve()
    program = REPOSITORY / "target/docs-python/bin/mkdocs"
    if not program.exists():
        raise SystemExit("the generator is missing: run lab/install.sh docs")
    work = out.parent / f"{out.name}-source"
    pages = check_order(REPOSITORY, GROUPS)
    source = Source(REPOSITORY, work / "pages", pages)
    source.write()
    for name in ("style.css", "iframe-worker.js", "favicon.svg"):
        shutil.copy(HERE / name, work / "pages" / name)
    (work / "mkdocs.yml").write_text(configuration(settings(pages, work / "pages", out)), encoding="utf-8")
    built = subprocess.run([program, "build", "--quiet", "--clean", "--strict", "--config-file", work / "mkdocs.yml"],
                           check=False, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})
    if built.returncode:
        return built.returncode
    # Both are for servers.
    for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):
        (out / name).unlink(missing_ok=True)
    broken, checked = faults(out)
    for fault in broken:
        print(fault, file=sys.stderr)
    print(f"{out}/index.html: {len(pages)} pages, {checked} links, {len(broken)} of them broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
