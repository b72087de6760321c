//! Contenders of Debian at layer 4: bytes, datagrams, and TLS by the name in a ClientHello, in front of the
//! origin of `weir lab echo`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::gateway::{Gateway, is_installed};

#[test]
fn nginx_forwards_bytes_datagrams_and_names() {
    // Debian has the module in a package of its own.
    if std::path::Path::new("/usr/lib/nginx/modules/ngx_stream_module.so").exists() {
        forwards_bytes("nginx");
        forwards_by_name("nginx");
        let gateway = start("nginx", "udp");
        let address = gateway.address;
        expect(gateway, "a datagram", move || datagram(address).unwrap_or_default(), b"ping");
    }
}

#[test]
fn haproxy_forwards_bytes_and_names() {
    if is_installed("haproxy") {
        forwards_bytes("haproxy");
        forwards_by_name("haproxy");
    }
}

fn start(name: &str, protocol: &'static str) -> Gateway {
    let origin = lab::echo::start_echo("127.0.0.1:0".parse().unwrap()).unwrap().address;
    Gateway::start_with(name, protocol, vec![("ORIGIN", origin.to_string())])
}

fn expect(mut gateway: Gateway, what: &str, ask: impl Fn() -> Vec<u8>, wanted: &[u8]) {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let wanted = text(wanted);
    gateway.wait_until(|| text(&ask()), what, |came| came == wanted);
}

fn forwards_bytes(name: &str) {
    let gateway = start(name, "tcp");
    let address = gateway.address;
    expect(gateway, "the message", move || exchange(address, b"hello").unwrap_or_default(), b"hello");
}

fn forwards_by_name(name: &str) {
    let gateway = start(name, "tls-by-name");
    let (address, known) = (gateway.address, hello("origin.lab.example"));
    let sent = known.clone();
    let asked = move || {
        let other = exchange(address, &hello("other.lab.example")).unwrap_or_default();
        assert!(other.is_empty(), "another name reaches the origin");
        exchange(address, &sent).unwrap_or_default()
    };
    expect(gateway, "the ClientHello", asked, &known);
}

/// Sends bytes and reads as many, or as come before the end.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    stream.write_all(bytes).ok()?;
    let mut came = Vec::new();
    stream.take(bytes.len() as u64).read_to_end(&mut came).ok()?;
    Some(came)
}

fn datagram(address: SocketAddr) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
    socket.connect(address).ok()?;
    socket.send(b"ping").ok()?;
    let mut came = vec![0; 100];
    let bytes = socket.recv(&mut came).ok()?;
    came.truncate(bytes);
    Some(came)
}

/// The record of a ClientHello of TLS 1.2 with this name and one cipher suite (RFC 5246 7.4.1.2, RFC 6066 3).
fn hello(name: &str) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let names = sized(&[&[0][..], &sized(name.as_bytes())].concat());
    let extensions = sized(&[&[0, 0][..], &sized(&names)].concat());
    let body = [&[3, 3][..], &[7; 32], &[0], &sized(&[0xc0, 0x2f]), &[1, 0], &extensions].concat();
    let message = [&[1, 0][..], &sized(&body)].concat();
    [&[0x16, 3, 1][..], &sized(&message)].concat()
}
