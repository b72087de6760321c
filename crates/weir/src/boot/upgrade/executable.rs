//! How this process was started, so that the program at the same path can be started again.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path and the arguments of this process.
#[derive(Clone, Debug)]
pub(in crate::boot) struct Executable {
    path: PathBuf,
    name: OsString,
    arguments: Vec<OsString>,
}

impl Executable {
    /// The program and arguments of the running process. To be called at its start, because the file may be
    /// replaced later.
    ///
    /// # Errors
    /// The system does not tell the path of the running program.
    pub(in crate::boot) fn of_this_process() -> std::io::Result<Executable> {
        let running = std::env::current_exe()?;
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_else(|| running.clone().into());
        // The path as it was called is kept, because versions are often switched by a symbolic link.
        let called = candidates(Path::new(&name)).into_iter().find(|path| is_same_file(path, &running));
        Ok(Executable { path: called.unwrap_or(running), name, arguments: arguments.collect() })
    }

    /// The path of the program.
    pub(in crate::boot) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that starts the program in the way in which this process was started.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.name).args(&self.arguments);
        command
    }
}

/// The paths at which a shell would have looked for `name`.
fn candidates(name: &Path) -> Vec<PathBuf> {
    if name.components().count() > 1 {
        return std::path::absolute(name).into_iter().collect();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .collect()
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    identity(one).is_some_and(|found| Some(found) == identity(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_the_running_program() {
        let executable = Executable::of_this_process().unwrap();
        assert!(executable.path().is_absolute());
        assert!(is_same_file(executable.path(), Path::new("/proc/self/exe")), "{executable:?}");
    }

    #[test]
    fn symbolic_link_is_kept_as_called() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("weir-1"), folder.path().join("weir"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(is_same_file(&link, &file));
        assert_eq!(candidates(&link), std::slice::from_ref(&link));
        assert!(!is_same_file(&link, &folder.path().join("nothing")));
    }
}
