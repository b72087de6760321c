//! Telling a service manager how the node is, where one wants to know (`NOTIFY_SOCKET`, sd_notify(3)). Waits for nobody.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It serves.
pub(super) const READY: &str = "READY=1";
/// It drains.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Another process is the one to watch from now on.
pub(super) fn main_process(process: u32) -> String {
    format!("MAINPID={process}")
}

/// Tells `state`; does nothing where nobody asked.
pub(super) fn tell(state: &str) {
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
    // A manager that does not read is not waited for.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_address_are_reached() {
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
