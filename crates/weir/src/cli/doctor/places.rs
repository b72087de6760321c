//! Checks of the places that the settings name: the data folder, ports, files of certificates.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use control::source::store::RunningInstance;

use net::env;

use super::DoctorCheck;
use crate::boot;
use crate::settings::Settings;

/// Free space below which the store may fail to write.
const FREE_FAILED_BYTES: u64 = 64 << 20;
/// Free space below which a growing log or cache fills the disk soon.
const FREE_WANTED_BYTES: u64 = 1 << 30;

/// Whether the data folder can be written, and has space left.
pub(super) fn data_folder(data: &Path) -> DoctorCheck {
    let name = "data folder";
    if !data.exists() {
        return match parent_of(data) {
            Some(parent) => DoctorCheck::ok(
                name,
                format!("{} is made at the start, in {}", data.display(), parent.display()),
            ),
            None => DoctorCheck::failed(
                name,
                format!("{} cannot be made", data.display()),
                "name another one with --data",
            ),
        };
    }
    let probe = data.join(format!(".doctor.{}", std::process::id()));
    // A new file only: the folder may belong to another user, and a link to any file may lie there.
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    if let Err(error) = made.and_then(|_| fs::remove_file(&probe)) {
        let advice = "give the user of the gateway the right to write there, or name another folder";
        return DoctorCheck::failed(name, format!("{} cannot be written: {error}", data.display()), advice);
    }
    let Ok(space) = rustix::fs::statvfs(data) else { return DoctorCheck::ok(name, "it can be written") };
    space_left(data, space.f_bavail.saturating_mul(space.f_frsize))
}

/// Other users that may replace files in the data folder.
pub(super) fn data_writers(data: &Path) -> Option<DoctorCheck> {
    let writers = boot::other_writers(data)?;
    Some(DoctorCheck::attention(
        "data folder",
        format!("{}: {writers}", data.display()),
        boot::WRITERS_ADVICE,
    ))
}

fn space_left(data: &Path, free_bytes: u64) -> DoctorCheck {
    let found = format!("{} can be written, {} MiB are free", data.display(), free_bytes >> 20);
    let advice = "free space on its disk: writes of the configuration and logs fail when it is full";
    match free_bytes {
        0..FREE_FAILED_BYTES => DoctorCheck::failed("data folder", found, advice),
        FREE_FAILED_BYTES..FREE_WANTED_BYTES => DoctorCheck::attention("data folder", found, advice),
        _ => DoctorCheck::ok("data folder", found),
    }
}

/// The folder in which `data` would be made.
fn parent_of(data: &Path) -> Option<&Path> {
    let parent = data.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_usable = parent.is_dir() && rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok();
    is_usable.then_some(parent)
}

/// Whether the addresses of the settings can be listened on.
pub(super) fn check_ports(settings: &Settings, running: Option<&RunningInstance>) -> Vec<DoctorCheck> {
    if let Some(running) = running {
        let found = format!("not tried, because process {} runs on this data folder", running.process);
        return vec![DoctorCheck::ok("ports", found)];
    }
    let one = |name, address: &Option<SocketAddr>| address.map(|address| (name, address));
    let [stream_tcp @ .., (stream_udp, stream_datagrams)] = settings.stream_listeners();
    let lists = settings.proxy_listeners().into_iter().chain(stream_tcp);
    let proxy = lists.flat_map(|(name, list)| list.iter().map(move |address| (name, *address)));
    let others = [
        one("admin", &settings.admin),
        one("control", &settings.control),
        one("status", &settings.status),
        one("metrics", &settings.metrics),
    ];
    let all = proxy.chain(others.into_iter().flatten());
    let http3 = settings.proxy_tls_http3.iter().map(|address| datagram_port("proxy_tls_http3", *address));
    let datagrams = http3.chain(stream_datagrams.iter().map(|address| datagram_port(stream_udp, *address)));
    let ports = all.map(|(name, address)| port(name, address)).chain(datagrams);
    ports.chain(interception(settings)).collect()
}

/// Whether sockets may take connections to other destinations, where the settings ask for that.
fn interception(settings: &Settings) -> Option<DoctorCheck> {
    let address = settings.stream_tproxy.first()?;
    let Err(error) = env::try_transparent() else {
        return Some(DoctorCheck::ok("stream_tproxy", "this process may set IP_TRANSPARENT"));
    };
    let advice = "give the process CAP_NET_ADMIN or CAP_NET_RAW (for weir.service: examples/transparent.conf as a drop-in), or use \
                  stream_redirect";
    Some(DoctorCheck::failed("stream_tproxy", format!("{address}: {error}"), advice))
}

/// Listens for a moment.
fn port(name: &'static str, address: SocketAddr) -> DoctorCheck {
    found(name, &address.to_string(), TcpListener::bind(address).map(drop))
}

/// Takes a UDP port for a moment.
fn datagram_port(name: &'static str, address: SocketAddr) -> DoctorCheck {
    found(name, &format!("{address} (UDP)"), UdpSocket::bind(address).map(drop))
}

fn found(name: &'static str, address: &str, bound: io::Result<()>) -> DoctorCheck {
    let Err(error) = bound else { return DoctorCheck::ok(name, format!("{address} is free")) };
    let advice = match error.kind() {
        ErrorKind::AddrInUse => "end the process that listens there (ss -ltnp), or choose another port",
        ErrorKind::PermissionDenied => "give the process CAP_NET_BIND_SERVICE, or choose a port from 1024 on",
        ErrorKind::AddrNotAvailable => "choose an address of this machine",
        _ => "choose another address",
    };
    DoctorCheck::failed(name, format!("{address}: {error}"), advice)
}

/// Whether the files of certificates that the settings name can be read.
pub(super) fn check_certificate_files(settings: &Settings) -> Vec<DoctorCheck> {
    let files = [
        ("admin_tls_cert", &settings.admin_tls_cert),
        ("admin_tls_key", &settings.admin_tls_key),
        ("admin_tls_client_ca", &settings.admin_tls_client_ca),
        ("admin_ca", &settings.admin_ca),
        ("admin_client_cert", &settings.admin_client_cert),
        ("admin_client_key", &settings.admin_client_key),
        ("etcd_ca", &settings.etcd_ca),
        ("etcd_cert", &settings.etcd_cert),
        ("etcd_key", &settings.etcd_key),
        ("acme_ca", &settings.acme_ca),
        ("secret_ca", &settings.secret_ca),
    ];
    files.into_iter().filter_map(|(name, path)| Some(pem(name, path.as_deref()?))).collect()
}

fn pem(name: &'static str, path: &Path) -> DoctorCheck {
    match fs::read(path) {
        Ok(text) if text.windows(11).any(|part| part == b"-----BEGIN ") => {
            DoctorCheck::ok(name, path.display().to_string())
        }
        Ok(_) => {
            DoctorCheck::failed(name, format!("{} is no PEM file", path.display()), "name a file in PEM form")
        }
        Err(error) => {
            let advice = "name a file that the user of the gateway can read";
            DoctorCheck::failed(name, format!("{}: {error}", path.display()), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn port_in_use_fails() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        assert_eq!(port("proxy", address).state, CheckState::Failed);
        drop(held);
        assert_eq!(port("proxy", "127.0.0.1:0".parse().unwrap()).state, CheckState::Ok);
        let held = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(datagram_port("stream_udp", held.local_addr().unwrap()).state, CheckState::Failed);
    }

    #[test]
    fn folder_is_written_and_measured() {
        let folder = tempfile::tempdir().unwrap();
        assert_ne!(data_folder(folder.path()).state, CheckState::Failed);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(data_folder(&folder.path().join("new")).state, CheckState::Ok);
        assert_eq!(data_folder(&folder.path().join("no/new")).state, CheckState::Failed);
        assert_eq!(space_left(folder.path(), 1 << 20).state, CheckState::Failed);
        assert_eq!(space_left(folder.path(), 100 << 20).state, CheckState::Attention);
    }

    #[test]
    fn folder_that_others_write_needs_attention() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(data_writers(folder.path()), None);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(data_writers(folder.path()).unwrap().state, CheckState::Attention);
    }

    #[test]
    fn file_without_a_certificate_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        assert_eq!(pem("admin_ca", &path).state, CheckState::Failed);
        fs::write(&path, "text").unwrap();
        assert_eq!(pem("admin_ca", &path).state, CheckState::Failed);
        fs::write(&path, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert_eq!(pem("admin_ca", &path).state, CheckState::Ok);
    }
}
