"""Builds the Debian package, by dpkg-deb."""

import hashlib
import os
import shutil
from email.utils import formatdate
from pathlib import Path

from product import MAINTAINER, File, Product, write_tree
from tools import PACKAGING, filled, run

SCRIPTS = ("preinst", "postinst", "prerm", "postrm")


def build(product: Product, out: Path) -> Path:
    """Writes weir_VERSION_ARCHITECTURE.deb into a folder."""
    root = product.work / "deb"
    shutil.rmtree(root, ignore_errors=True)
    doc = "/usr/share/doc/weir"
    files = product.files + [
        File(f"{doc}/changelog.gz", product.gzip(changelog(product))),
        File(f"{doc}/copyright", (PACKAGING / "deb/copyright").read_bytes()),
    ]
    write_tree(files, root, product.epoch)
    write_control(product, files, root / "DEBIAN")
    path = out / f"weir_{product.package_version}_{product.elf.debian}.deb"
    # One thread, because the number of threads decides where xz divides its input.
    compression = ["-Zgzip", "-z1"] if product.is_fast else ["-Zxz", f"-z{product.xz_level}", "--threads-max=1"]
    run("dpkg-deb", *compression, "--root-owner-group", "--build", root, path, SOURCE_DATE_EPOCH=str(product.epoch))
    return path


def write_control(product: Product, files: list[File], folder: Path) -> None:
    """Writes the control file, the scripts, the list of conffiles and the sums of all other files."""
    folder.mkdir()
    installed = sum((len(file.data) + 1023) // 1024 for file in files)
    values = {
        "DEB_VERSION": product.package_version,
        "DEB_ARCH": product.elf.debian,
        "MAINTAINER": MAINTAINER,
        "INSTALLED_SIZE": str(installed),
        "DEPENDS": ", ".join(dependencies(product)),
    }
    for name in ("control", *SCRIPTS):
        source = PACKAGING / "deb" / ("control.in" if name == "control" else name)
        (folder / name).write_text(filled(source.read_text(), values))
        (folder / name).chmod(0o755 if name in SCRIPTS else 0o644)
    configs = [file.path for file in files if file.is_config]
    (folder / "conffiles").write_text("".join(f"{path}\n" for path in configs))
    sums = [(file.path.lstrip("/"), hashlib.md5(file.data).hexdigest()) for file in files if not file.is_config]
    (folder / "md5sums").write_text("".join(f"{digest}  {path}\n" for path, digest in sorted(sums)))
    for path in folder.iterdir():
        os.utime(path, (product.epoch, product.epoch))


def dependencies(product: Product) -> list[str]:
    """The packages that the program and the scripts need: useradd, and libraries if the program is not static."""
    needed = ["passwd"]
    if product.elf.glibc:
        needed.append(f"libc6 (>= {product.elf.glibc})")
    if product.elf.needs_libgcc:
        needed.append("libgcc-s1")
    return needed


def changelog(product: Product) -> bytes:
    """The changelog in Debian's form: one entry, which points to the changes in the project's own form."""
    date = formatdate(product.epoch, usegmt=False).replace("-0000", "+0000")
    return (
        f"weir ({product.package_version}) stable; urgency=medium\n\n"
        f"  * Changes of this version: /usr/share/doc/weir/CHANGELOG.md.gz\n\n"
        f" -- {MAINTAINER}  {date}\n"
    ).encode()
