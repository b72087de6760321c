//! The addresses of the process that holds a data directory, kept in a file beside its lock, so that commands
//! find the process on any port. The lock decides whether there is such a process; the file of a process that
//! has ended is ignored. It does not know the requests.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lock::{DirectoryLock, LockError};

/// The process that runs on a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningInstance {
    pub process: u32,
    /// Its addresses; none where it has not announced them, because it is starting or is of an older version.
    pub listeners: Option<Vec<InstanceListener>>,
}

/// One address of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceListener {
    /// The name of the setting: `admin`, `control`, `status`, `metrics`.
    pub name: String,
    /// The address, with the real port where the setting asked for port 0.
    pub address: SocketAddr,
    /// The certificate (PEM file) that it presents; none where it speaks plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Announced {
    process: u32,
    listeners: Vec<InstanceListener>,
}

impl RunningInstance {
    /// Announces the addresses of this process, which holds the lock.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn announce(lock: &DirectoryLock, listeners: Vec<InstanceListener>) -> io::Result<()> {
        let announced = Announced { process: std::process::id(), listeners };
        let path = path(lock.directory());
        // The name has the process id, because in an upgrade two processes may write at the same time.
        let unfinished = path.with_extension(format!("{}.unfinished", announced.process));
        std::fs::write(&unfinished, serde_json::to_vec(&announced)?)?;
        std::fs::rename(unfinished, path)
    }

    /// The process that runs on `directory`; none if there is none. Waits up to `STARTING_WITHIN` for a
    /// process that is just starting or taking over.
    ///
    /// # Errors
    /// The lock cannot be read.
    pub fn running(directory: &Path) -> Result<Option<RunningInstance>, LockError> {
        let deadline = Instant::now() + STARTING_WITHIN;
        loop {
            let Some(process) = DirectoryLock::holder(directory)? else { return Ok(None) };
            let listeners = announced(directory, process);
            if listeners.is_some() || Instant::now() >= deadline {
                return Ok(Some(RunningInstance { process, listeners }));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The address to connect to for the listener of that name; none if it is off, or not announced.
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        Some(reachable(self.listener(name)?.address))
    }

    /// The certificate that the listener of that name presents; none if it speaks plain HTTP or has not said.
    pub fn certificate(&self, name: &str) -> Option<&Path> {
        self.listener(name)?.certificate.as_deref()
    }

    fn listener(&self, name: &str) -> Option<&InstanceListener> {
        self.listeners.iter().flatten().find(|listener| listener.name == name)
    }
}

/// The listeners that `process` has announced in `directory`.
pub(super) fn announced(directory: &Path, process: u32) -> Option<Vec<InstanceListener>> {
    let text = std::fs::read(path(directory)).ok()?;
    let announced: Announced = serde_json::from_slice(&text).ok()?;
    (announced.process == process).then_some(announced.listeners)
}

/// The address to connect to: loopback for a listener on every address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Name of the file in the data directory.
const FILE: &str = "instance.json";
/// Time that a command waits for the process that holds the lock to announce its addresses.
const STARTING_WITHIN: Duration = Duration::from_secs(1);
/// Interval of the checks in that time.
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, address: &str) -> InstanceListener {
        InstanceListener { name: name.to_owned(), address: address.parse().unwrap(), certificate: None }
    }

    #[test]
    fn holder_of_the_lock_is_found_with_its_addresses() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(RunningInstance::running(directory.path()).unwrap(), None);
        let lock = DirectoryLock::take(directory.path()).unwrap();
        let listeners = vec![listener("admin", "0.0.0.0:1234"), listener("control", "[::]:5")];
        RunningInstance::announce(&lock, listeners.clone()).unwrap();
        let found = RunningInstance::running(directory.path()).unwrap().unwrap();
        assert_eq!(found, RunningInstance { process: std::process::id(), listeners: Some(listeners) });
        assert_eq!(found.address("admin"), Some("127.0.0.1:1234".parse().unwrap()));
        assert_eq!(found.address("control"), Some("[::1]:5".parse().unwrap()));
        assert_eq!(found.address("status"), None);
        let refusal = DirectoryLock::take(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains("(admin 0.0.0.0:1234, control [::]:5)"), "{refusal}");
        assert!(!refusal.contains("stop"), "{refusal}");
        drop(lock);
        assert_eq!(RunningInstance::running(directory.path()).unwrap(), None, "a dead process left the file");
    }

    #[test]
    fn announcement_of_another_process_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = DirectoryLock::take(directory.path()).unwrap();
        for left in [r#"{"process":1,"listeners":[{"name":"admin","address":"127.0.0.1:1"}]}"#, "{", ""] {
            std::fs::write(path(directory.path()), left).unwrap();
            let found = RunningInstance::running(directory.path()).unwrap().unwrap();
            assert_eq!(found, RunningInstance { process: std::process::id(), listeners: None }, "{left}");
        }
    }
}
