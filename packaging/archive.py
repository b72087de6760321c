"""Writes tar archives that depend on nothing but their content: sorted names, one time, owners by number."""

import gzip
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Member:
    """A file, or a folder if its name ends with a slash."""

    name: str
    data: bytes = b""
    mode: int = 0o644
    owner: int = 0
    # The target, if it is a symbolic link.
    link: str = ""


def tar(members: list[Member], epoch: int) -> bytes:
    """An archive of members and of the folders above them."""
    given = {member.name: member for member in members}
    for member in members:
        for parent in Path(member.name).parents:
            name = f"{parent}/"
            if name != "./" and name not in given:
                given[name] = Member(name, mode=0o755)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(given):
            archive.addfile(information(given[name], epoch), io.BytesIO(given[name].data))
    return buffer.getvalue()


def information(member: Member, epoch: int) -> tarfile.TarInfo:
    """The header of a member."""
    header = tarfile.TarInfo(member.name.rstrip("/"))
    header.size = len(member.data)
    header.mode = member.mode
    header.mtime = epoch
    header.uid = header.gid = member.owner
    # Numbers decide when names are empty, whatever users the unpacking machine has.
    header.uname = header.gname = "root" if member.owner == 0 else ""
    if member.name.endswith("/"):
        header.type = tarfile.DIRTYPE
    elif member.link:
        header.type = tarfile.SYMTYPE
        header.linkname = member.link
    return header


def compressed(data: bytes, is_fast: bool) -> bytes:
    """Gzip without a time or a name."""
    return gzip.compress(data, 1 if is_fast else 9, mtime=0)
