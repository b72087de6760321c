//! The socket of a runner: at a path that a setting gives, or in a folder of its own that only the user of
//! the runner may enter. The runner makes the socket itself.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::settings::RunnerSettings;

/// The name of the socket in its folder.
const NAME: &str = "runner.sock";
/// The longest path of a socket (unix(7), `sun_path`), without the zero behind it.
const PATH_BYTES_MAX: usize = 107;
/// Folders of former processes with the same id that are stepped over.
const TRIES: usize = 100;

/// See the module. Dropping it removes the folder.
pub(super) struct RunnerSocket {
    path: PathBuf,
    folder: Option<PathBuf>,
}

impl RunnerSocket {
    /// A place for the socket of a new runner. Folders are below that for temporary files, because paths of
    /// sockets are short.
    ///
    /// # Errors
    /// The folder cannot be made, or the path is too long.
    pub(super) fn make(settings: &RunnerSettings) -> Result<RunnerSocket, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if let Some(path) = &settings.socket {
            return Ok(RunnerSocket { path: checked(path.clone())?, folder: None });
        }
        let mut failed = None;
        for _ in 0..TRIES {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("weir-runner-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return RunnerSocket::within(folder, settings),
                // Another user may have made it: it is never used.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    failed = Some((folder, error))
                }
                Err(error) => {
                    return Err(format!(
                        "the folder {} of its socket cannot be made: {error}",
                        folder.display()
                    ));
                }
            }
        }
        let (folder, error) = failed.ok_or("its socket has no place")?;
        Err(format!("the folder {} of its socket cannot be made: {error}", folder.display()))
    }

    fn within(folder: PathBuf, settings: &RunnerSettings) -> Result<RunnerSocket, String> {
        let socket = RunnerSocket { path: folder.join(NAME), folder: Some(folder.clone()) };
        if let Some(user) = settings.user {
            std::os::unix::fs::chown(&folder, Some(user.uid), Some(user.gid)).map_err(|error| {
                format!("the folder {} of its socket cannot be given to its user: {error}", folder.display())
            })?;
        }
        checked(socket.path.clone())?;
        Ok(socket)
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunnerSocket {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // The runner may have removed its socket.
            let _ = std::fs::remove_file(&self.path);
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn checked(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().len() {
        0..=PATH_BYTES_MAX => Ok(path),
        bytes => Err(format!(
            "the path {} of its socket has {bytes} bytes, and {PATH_BYTES_MAX} are allowed",
            path.display()
        )),
    }
}
