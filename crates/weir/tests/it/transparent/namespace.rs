//! A network namespace for a test, with the addresses of clients and servers at its loopback device.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::support::BINARY;

/// The address that connections of clients come from; rules are about it, so that the gateway's own are
/// exempt.
pub(super) const CLIENT: &str = "10.9.0.2";
/// The same of IPv6.
pub(super) const CLIENT_V6: &str = "fd00::2";
/// The addresses of a namespace. Those of IPv6 can be bound at once only without the search for duplicates.
const ADDRESSES: [&str; 6] = [
    "10.9.0.2/32",
    "198.51.100.7/32",
    "198.51.100.8/32",
    "203.0.113.7/32",
    "fd00::2/128 nodad",
    "fd00::7/128 nodad",
];
/// Set for the run in the namespace.
const INSIDE: &str = "WEIR_TEST_IS_IN_A_NAMESPACE";
/// Both kinds of rules.
const PROBE: &str = "iptables -t nat -A OUTPUT -p tcp -j REDIRECT --to-ports 1 && ip6tables -t nat -A OUTPUT -p tcp -j REDIRECT \
                     --to-ports 1 && iptables -t mangle -A PREROUTING -p tcp -j TPROXY --on-port 1 --tproxy-mark 1";

/// Runs `inside` in a namespace of its own, as the test of that name in another process. Where the machine
/// lacks the means, the test says so and does nothing.
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
pub(super) fn in_namespace(test: &str, inside: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", script]);
        command
    };
    match unshared(PROBE).output() {
        Ok(output) if output.status.success() => {}
        why => {
            eprintln!("skipped: this machine gives no network namespace with rules of `iptables`: {why:?}");
            return;
        }
    }
    let addresses: String =
        ADDRESSES.iter().map(|address| format!("ip addr add {address} dev lo && ")).collect();
    let output = unshared(&format!("ip link set lo up && {addresses}exec \"$0\" --exact \"$1\" --nocapture"))
        .arg(std::env::current_exe().unwrap())
        .arg(format!("transparent::{test}"))
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
}

/// Runs a command, which has to succeed.
pub(super) fn must(command: &str) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// A connection from this address of the namespace.
pub(super) fn connect_from(address: &str, destination: SocketAddr) -> std::io::Result<TcpStream> {
    let own: IpAddr = address.parse().unwrap();
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let made = socket(family, SocketType::STREAM, None)?;
    bind(&made, &SocketAddr::new(own, 0))?;
    connect(&made, &destination)?;
    Ok(TcpStream::from(made))
}

/// A program that starts the gateway without these capabilities, such as `net_admin`.
pub(super) fn without_capabilities(names: &[&str], folder: &Path) -> String {
    let dropped: Vec<String> = names.iter().map(|name| format!("-{name}")).collect();
    let path = folder.join(names.concat());
    let script = format!("#!/bin/sh\nexec setpriv --bounding-set={} '{BINARY}' \"$@\"\n", dropped.join(","));
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}
