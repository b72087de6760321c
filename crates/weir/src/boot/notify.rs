//! Messages to a service manager that set `NOTIFY_SOCKET` (sd_notify(3)). Never blocks.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The instance serves.
pub(super) const READY: &str = "READY=1";
/// The instance leaves its registries and drains; it ends within `limit` at the latest.
pub(super) fn stopping(limit: Duration) -> String {
    // Otherwise the manager kills the instance when a stop timeout that is shorter is over, such as
    // `TimeoutStopSec`.
    format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", limit.as_micros())
}

/// Names the successor as the process to watch from now on.
pub(super) fn main_process(process: u32) -> String {
    format!("MAINPID={process}")
}

/// Sends `state`; does nothing without `NOTIFY_SOCKET`.
pub(super) fn notify_service_manager(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&name, state) {
        tracing::warn!(%error, state, "cannot tell the service manager");
    }
}

fn send(name: &OsStr, state: &str) -> std::io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Non-blocking, so that a manager that does not read cannot block this process.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_says_how_long_it_takes() {
        assert_eq!(stopping(Duration::from_secs(70)), "STOPPING=1\nEXTEND_TIMEOUT_USEC=70000000");
    }

    #[test]
    fn path_and_abstract_sockets_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("weir-notify-{}", std::process::id());
        let by_path = (UnixDatagram::bind(&path).unwrap(), path.into_os_string());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into());
        for (socket, name) in [by_path, by_name] {
            send(&name, &main_process(42)).unwrap();
            let mut room = [0; 32];
            let length = socket.recv(&mut room).unwrap();
            assert_eq!(&room[..length], b"MAINPID=42", "{name:?}");
        }
        assert!(send(OsStr::new("/nowhere/at/all"), READY).is_err());
    }
}
