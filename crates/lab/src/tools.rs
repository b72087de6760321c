//! Other programs that the laboratory uses: whether they are installed, their Debian packages, and their
//! installation.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::bail;

use crate::scenario::Tool;
use crate::terminal::print_error;

/// Debian installs servers in folders that a plain user's PATH does not have.
const FURTHER_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The program of a load generator and its Debian package; `None` for the one in this program.
pub(crate) fn package(tool: Tool) -> Option<(&'static str, &'static str)> {
    match tool {
        Tool::Wrk => Some(("wrk", "wrk")),
        Tool::Ab => Some(("ab", "apache2-utils")),
        Tool::H2load => Some(("h2load", "nghttp2-client")),
        Tool::Weir => None,
    }
}

/// The path of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(FURTHER_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
}

/// Makes sure that a program is installed; installs its Debian package if allowed. Fails with the package's
/// name.
pub(crate) fn need(program: &str, package: &str, may_install: bool) -> anyhow::Result<PathBuf> {
    if let Some(file) = find(program) {
        return Ok(file);
    }
    let wish =
        format!("{program} is missing; it is in Debian's package {package}: apt-get install {package}");
    if !may_install || !rustix::process::geteuid().is_root() || find("apt-get").is_none() {
        bail!(wish);
    }
    print_error(format_args!("installing {package}"));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "DPkg::Lock::Timeout=300"]).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let install = ["install", "-y", "--no-install-recommends", package];
    // An outdated list of packages may name versions that no longer exist.
    if !apt(&install) {
        apt(&["update"]);
        apt(&install);
    }
    match find(program) {
        Some(file) => Ok(file),
        None => bail!("{wish} (tried, and it failed)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tool_is_reported_with_its_package() {
        assert!(need("sh", "dash", false).is_ok());
        let error = need("no-such-tool", "some-package", false).unwrap_err().to_string();
        assert_eq!(
            error,
            "no-such-tool is missing; it is in Debian's package some-package: apt-get install some-package"
        );
    }
}
