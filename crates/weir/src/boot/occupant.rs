//! The process that listens on an address of TCP or UDP, for the message that the address is in use. Reads
//! `/proc`, which shows root all processes, and other users their own; a unit with `ProtectProc=invisible`
//! sees no process of another user.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// State of a socket without a peer in `/proc/net/udp`.
const UNCONNECTED: &str = "07";

/// The processes that listen on an address which overlaps with `address`, as `process 812 (nginx)`; none if
/// they cannot be seen.
pub(super) fn listening_on(address: SocketAddr, is_udp: bool) -> Option<String> {
    let (tables, state) = match is_udp {
        true => (["/proc/net/udp", "/proc/net/udp6"], UNCONNECTED),
        false => (["/proc/net/tcp", "/proc/net/tcp6"], LISTENING),
    };
    let sockets: Vec<u64> = tables
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| {
            table.lines().filter_map(|line| socket_on(line, address, state)).collect::<Vec<_>>()
        })
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let process = processes.find(|process| holds(*process, &sockets))?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(format!("process {process} ({})", name.trim_end()))
}

/// The inode of the socket of a line of `/proc/net/tcp` or `/proc/net/udp`, if it is in that state and its
/// address overlaps with `wanted`.
fn socket_on(line: &str, wanted: SocketAddr, state: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let local = address(fields.nth(1)?)?;
    let is_listening = fields.nth(1)? == state;
    let inode = fields.nth(5)?.parse().ok()?;
    let is_same = local.ip() == wanted.ip() || local.ip().is_unspecified() || wanted.ip().is_unspecified();
    (is_listening && local.port() == wanted.port() && is_same).then_some(inode)
}

/// `0100007F:1F90` as an address: words of 32 bits in the order of this machine, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        _ => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Whether a process has one of the sockets open; false if its descriptors may not be read.
fn holds(process: u32, sockets: &[u64]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let is_one = |target: &str| {
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.and_then(|inode| inode.parse().ok()).is_some_and(|inode| sockets.contains(&inode))
    };
    descriptors
        .flatten()
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| target.to_str().is_some_and(is_one))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listener_of_this_process_is_found() {
        for own in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(own).unwrap();
            let address = listener.local_addr().unwrap();
            let found = listening_on(address, false).unwrap();
            assert!(found.starts_with(&format!("process {} (", std::process::id())), "{found}");
            let every = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
            assert_eq!(listening_on(every, false), Some(found), "{own}: every address overlaps");
        }
    }

    #[test]
    fn receiver_of_datagrams_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert!(listening_on(address, true).is_some());
        assert_eq!(listening_on(address, false), None, "another transport");
    }

    #[test]
    fn connection_is_not_taken_for_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        let accepted = listener.accept().unwrap();
        drop(listener);
        assert_eq!(listening_on(address, false), None);
        drop(accepted);
    }

    #[test]
    fn other_address_of_the_port_is_no_overlap() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1";
        let on = |address: &str| socket_on(line, address.parse().unwrap(), LISTENING);
        assert_eq!(on("127.0.0.1:8080"), Some(4711));
        assert_eq!(on("0.0.0.0:8080"), Some(4711));
        assert_eq!((on("127.0.0.2:8080"), on("127.0.0.1:8081")), (None, None));
        assert_eq!(
            socket_on("  sl  local_address rem_address   st", "127.0.0.1:1".parse().unwrap(), LISTENING),
            None
        );
    }
}
