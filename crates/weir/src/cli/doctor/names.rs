//! Checks of name servers: whether each one that the gateway would ask answers at all.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::DoctorCheck;
use crate::settings::Settings;

/// Longest wait for an answer; a server on the same network takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Servers that are asked; a resolver asks no more either.
const SERVERS_MAX: usize = 3;
/// A question for the addresses of `localhost` (RFC 1035 section 4.1), which every server answers, if only
/// with a refusal.
const QUESTION: &[u8] = b"\x57\x45\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01";

/// One check for each name server.
pub(super) fn check_name_servers(settings: &Settings) -> Vec<DoctorCheck> {
    let servers = if settings.dns_servers.is_empty() { of_system() } else { settings.dns_servers.clone() };
    if servers.is_empty() {
        let advice =
            "name servers in /etc/resolv.conf or in the setting dns_servers, or write addresses for nodes";
        return vec![DoctorCheck::attention("DNS", "there is no name server", advice)];
    }
    servers.into_iter().take(SERVERS_MAX).map(server).collect()
}

fn server(address: SocketAddr) -> DoctorCheck {
    match answers(address) {
        Ok(()) => DoctorCheck::ok("DNS", format!("{address} answers")),
        Err(error) => {
            let advice =
                "nodes and services with names are not found by it: repair /etc/resolv.conf or dns_servers";
            DoctorCheck::attention("DNS", format!("{address} does not answer: {error}"), advice)
        }
    }
}

fn answers(server: SocketAddr) -> std::io::Result<()> {
    let any =
        if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    socket.send(QUESTION)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    let is_answer = length >= 12 && answer[..2] == QUESTION[..2] && answer[2] & 0x80 != 0;
    if is_answer { Ok(()) } else { Err(std::io::Error::other("its answer is not one of DNS")) }
}

fn of_system() -> Vec<SocketAddr> {
    fs::read_to_string("/etc/resolv.conf").map(|text| read(&text)).unwrap_or_default()
}

/// The servers of a `resolv.conf`.
fn read(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let address = line.trim().strip_prefix("nameserver")?.split_whitespace().next()?;
        // A scope belongs to a link-local address of IPv6.
        let address = address.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address, 53))
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn servers_of_the_system_are_read() {
        let text = "# a\nnameserver 10.0.0.2\noptions ndots:5\nnameserver fe80::1%eth0\nnameserver x\n";
        let expected: Vec<SocketAddr> = vec!["10.0.0.2:53".parse().unwrap(), "[fe80::1]:53".parse().unwrap()];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn answer_of_a_server_is_awaited() {
        let stand_in = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = stand_in.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut question = [0; 512];
            let (length, peer) = stand_in.recv_from(&mut question).unwrap();
            question[2] |= 0x80;
            stand_in.send_to(&question[..length], peer).unwrap();
        });
        assert_eq!(server(address).state, CheckState::Ok);
        thread.join().unwrap();
    }
}
