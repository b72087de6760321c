"""Builds the RPM package, by rpmbuild with a spec that names every file."""

import shutil
from datetime import datetime, timezone
from pathlib import Path

from product import MAINTAINER, File, Product, write_tree
from tools import PACKAGING, filled, run

# Fedora and SUSE read completions of zsh here; the other paths are those of Debian.
MOVED = {"/usr/share/zsh/vendor-completions/_weir": "/usr/share/zsh/site-functions/_weir"}
# Names of files in packaging/rpm, which are the names of the sections.
SCRIPTS = ("pre", "post", "preun", "postun")


def build(product: Product, out: Path) -> Path:
    """Writes weir-VERSION-1.ARCHITECTURE.rpm into a folder."""
    work = product.work / "rpm"
    shutil.rmtree(work, ignore_errors=True)
    files = [File(MOVED.get(each.path, each.path), each.data, each.mode, each.group, each.is_config) for each in product.files]
    files.append(File("/usr/share/licenses/weir/LICENSE", (PACKAGING.parent / "LICENSE").read_bytes()))
    write_tree(files, work / "root", product.epoch)
    spec = work / "weir.spec"
    spec.write_text(specification(product, files))
    defines = {
        "_topdir": work,
        "_rpmdir": out,
        "_rpmfilename": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
        "_binary_payload": "w1.gzdio" if product.is_fast else f"w{product.xz_level}.xzdio",
        # Without these two the package would hold the name of the machine and the time of the build.
        "_buildhost": "reproducible",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
        # The program is stripped and files are compressed before; rpmbuild changes none of them.
        "__os_install_post": "%{nil}",
        "debug_package": "%{nil}",
        "_build_id_links": "none",
    }
    options = [option for name, value in defines.items() for option in ("--define", f"{name} {value}")]
    target = f"{product.elf.machine}-linux"
    arguments = ["-bb", "--quiet", "--target", target, "--buildroot", work / "root", *options, spec]
    run("rpmbuild", *arguments, SOURCE_DATE_EPOCH=str(product.epoch))
    return out / f"weir-{product.package_version}-1.{product.elf.machine}.rpm"


def specification(product: Product, files: list[File]) -> str:
    """The spec: the template with the requirements, the scripts and the list of files."""
    values = {
        "RPM_VERSION": product.package_version,
        "REQUIRES": "".join(f"Requires: {each}\n" for each in requirements(product)),
        "FILES": "\n".join([*own_folders(files), *(listed(file) for file in files)]),
        "DATE": datetime.fromtimestamp(product.epoch, timezone.utc).strftime("%a %b %d %Y"),
        "MAINTAINER": MAINTAINER,
    }
    for name in SCRIPTS:
        script = (PACKAGING / "rpm" / name).read_text().removeprefix("#!/bin/sh\n")
        # A percent sign begins a macro in a spec, in comments of scripts as well.
        values[name.upper()] = filled(script, values).replace("%", "%%")
    return filled((PACKAGING / "rpm/weir.spec.in").read_text(), values)


def requirements(product: Product) -> list[str]:
    """The libraries of a program that is not static, as rpm names them."""
    if not product.elf.glibc:
        return []
    needed = [f"libc.so.6(GLIBC_{product.elf.glibc})(64bit)"]
    if product.elf.needs_libgcc:
        needed.append("libgcc_s.so.1()(64bit)")
    return needed


def own_folders(files: list[File]) -> list[str]:
    """The lines of folders that belong to no other package, and are removed with this one."""
    folders = {parent for file in files for parent in Path(file.path).parents if "weir" in parent.parts}
    return [f"%attr(0755, root, root) %dir {folder}" for folder in sorted(folders)]


def listed(file: File) -> str:
    """The line of a file, with its kind, mode and owner."""
    kinds = {"/usr/share/doc/": "%doc ", "/usr/share/licenses/": "%license "}
    kind = "%config(noreplace) " if file.is_config else ""
    kind += next((kind for prefix, kind in kinds.items() if file.path.startswith(prefix)), "")
    return f"%attr({file.mode:04o}, root, {file.group}) {kind}{file.path}"
