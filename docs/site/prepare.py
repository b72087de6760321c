"""Makes the generator's source below target/: copies the pages in one tree, and leads links that leave the documentation
to copies of their files."""

import re
import shutil
from pathlib import Path, PurePosixPath

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(\s*)```(\S*) (\S+)( faulty| foreign| object)?\s*$")
ITEM = re.compile(r"([-*]|\d+\.) ")


def place(path):
    """The place of a page of the repository in the site's source."""
    inner = path.removeprefix("docs/")
    if inner == "README.md":
        return "index.md" if path.startswith("docs/") else "project/readme.md"
    return inner if path.startswith("docs/") else f"project/{path.lower().replace('/', '-')}"


def relative(target, page):
    """The link from a page to a file of the site's source."""
    here, there = PurePosixPath(page).parent.parts, PurePosixPath(target).parts
    common = 0
    while common < min(len(here), len(there) - 1) and here[common] == there[common]:
        common += 1
    return "/".join([".."] * (len(here) - common) + list(there[common:]))


class Source:
    """The tree that the generator reads."""

    def __init__(self, repository, folder, pages):
        self.repository, self.folder, self.pages = repository, folder, set(pages)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def write(self):
        """Copies all pages and what they show."""
        for page in sorted(self.pages):
            file = self.folder / place(page)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.rewritten(page), encoding="utf-8")

    def copied(self, path):
        """The place of a copy of a file that is no page. Text gets an ending that browsers show."""
        source = self.repository / path
        is_shown = source.suffix in (".png", ".svg", ".json", ".html", ".txt")
        if path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            target = f"files/{path}" + ("" if is_shown else ".txt")
        if source.is_dir():
            target = f"files/{path}.txt"
            names = "\n".join(sorted(str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()))
            self.put(target, f"{path}:\n{names}\n".encode())
        else:
            self.put(target, source.read_bytes())
        return target

    def put(self, target, data):
        """Writes a file of the source."""
        file = self.folder / target
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def link(self, page, target):
        """A link of a page, as it is in the site."""
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return target
        found = (self.repository / page).parent.joinpath(path).resolve().relative_to(self.repository).as_posix()
        if found not in self.pages and (self.repository / found / "README.md").exists():
            found = f"{found}/README.md"
        to = place(found) if found in self.pages else self.copied(found)
        return relative(to, place(page)) + hash_ + anchor

    def rewritten(self, page):
        """The text of a page in the generator's dialect of Markdown."""
        lines, in_code, in_numbers = [], False, False
        for line in (self.repository / page).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(" ") and not in_code:
                in_numbers = re.match(r"\d+\. ", line) is not None
            if in_numbers and line.startswith("   "):
                # The content of an item is indented by four.
                line = f" {line}"
            if line.lstrip().startswith("```"):
                in_code = not in_code
                lines.append(self.fence(line))
                continue
            if in_code:
                lines.append(line)
                continue
            line = LINK.sub(lambda found: f"]({self.link(page, found[1])})", line)
            if line.startswith("|"):
                # The generator takes no bar in code for the end of a cell, and shows a backslash before one.
                line = re.sub(r"`[^`]*`", lambda found: found[0].replace("\\|", "|"), line)
            before = lines[-1] if lines else ""
            if ITEM.match(line) and before.strip() and not re.match(r"\s|[-*] |\d+\. ", before):
                # A list needs an empty line before it.
                lines.append("")
            # A list within a list is indented by four.
            lines.append(f"  {line}" if re.match(r"  [-*] ", line) else line)
        return "\n".join(lines) + "\n"

    @staticmethod
    def fence(line):
        """A fence with the name of its file as a title."""
        found = FENCE.match(line)
        if not found:
            return line
        is_file = "." in found[3] or "/" in found[3]
        return f"{found[1]}```{found[2]}" + (f' title="{found[3]}"' if is_file else "")


def pages_below(page, pages):
    """The pages in the folder with the name of a page."""
    folder = page.removesuffix(".md")
    return [other for other in pages if PurePosixPath(other).parent.as_posix() == folder]


def check_order(repository, groups):
    """All pages; ends with a message if a page is in no group, or is missing."""
    listed = [page for _, pages in groups for _, page in pages]
    missing = [page for page in listed if not (repository / page).exists()]
    there = {file.relative_to(repository).as_posix() for file in (repository / "docs").rglob("*.md")}
    decisions = {page for page in there if page.startswith("docs/decisions/")}
    below = {inner for page in listed for inner in pages_below(page, there)}
    lost = there - decisions - below - set(listed)
    if missing or lost:
        raise SystemExit(f"docs/site/pages.py: no file for {sorted(missing)}, no group for {sorted(lost)}")
    return listed + sorted(decisions | below)
