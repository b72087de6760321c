//! Messages through a gateway of layer 4, to check before it is measured that it forwards bytes unchanged, to
//! the end of the connection, and chooses by name where it should. Blocking sockets, no code of the load
//! generator except the ClientHello.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::load::client_hello;
use crate::load::tools::own::SERVER_NAME;
use crate::scenario::ScenarioProtocol;

/// One short message; returns what came back, which is the same.
pub(super) fn probe_layer4(protocol: ScenarioProtocol, address: SocketAddr) -> anyhow::Result<Vec<u8>> {
    let (sent, came) = match protocol {
        ScenarioProtocol::Udp => datagram(address, SHORT_BYTES)?,
        ScenarioProtocol::TlsByName => {
            let hello = client_hello(SERVER_NAME)?;
            let came = through(address, &hello)?;
            (hello, came)
        }
        _ => {
            let message = vec![b'm'; SHORT_BYTES];
            let came = through(address, &message)?;
            (message, came)
        }
    };
    match came == sent {
        true => Ok(came),
        false => bail!("of {} bytes came back {}, or others", sent.len(), came.len()),
    }
}

/// Checks long messages, and that a client with another name does not reach the origin.
pub(in crate::run) fn check_layer4_forwarding(
    protocol: ScenarioProtocol,
    address: SocketAddr,
) -> anyhow::Result<()> {
    match protocol {
        ScenarioProtocol::Udp => {
            let (sent, came) = datagram(address, LONG_DATAGRAM_BYTES)?;
            if came != sent {
                bail!("a datagram of {LONG_DATAGRAM_BYTES} bytes does not come back as it was");
            }
        }
        ScenarioProtocol::TlsByName => {
            let hello = client_hello(OTHER_NAME)?;
            // A gateway closes or resets; bytes of an alert are none of the origin's.
            if through(address, &hello).is_ok_and(|came| came == hello) {
                bail!("a client that asks for {OTHER_NAME} reaches the origin: the name is not looked at");
            }
        }
        _ => {
            let message: Vec<u8> = (0..LONG_BYTES).map(|at| (at % 251) as u8).collect();
            if through(address, &message)? != message {
                bail!("{LONG_BYTES} bytes do not come back as they were");
            }
        }
    }
    Ok(())
}

/// Sends bytes, reads as many, ends the sending side and reads to the end: a gateway need not keep a
/// connection after its client has ended one side. Sending has a thread of its own, because a gateway may
/// stop to read until bytes are taken.
fn through(address: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut writer = stream.try_clone()?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || writer.write_all(bytes));
        let mut came = Vec::new();
        let mut read = Read::by_ref(&mut stream).take(bytes.len() as u64).read_to_end(&mut came);
        if read.is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
            read = stream.read_to_end(&mut came);
        }
        // A gateway that closes early fails the sending side; the bytes that came tell the rest.
        let _ = sending.join();
        read.context("the connection does not end after its message")?;
        Ok(came)
    })
}

/// A datagram; returns what was sent and what came back.
fn datagram(address: SocketAddr, bytes: usize) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(DATAGRAM_LIMIT))?;
    socket.connect(address)?;
    socket.send(&sent)?;
    let mut came = vec![0; bytes + 1];
    let length = socket.recv(&mut came).context("the datagram does not come back")?;
    came.truncate(length);
    Ok((sent, came))
}

const SHORT_BYTES: usize = 64;
/// More than the buffers of a gateway and of the kernel hold.
const LONG_BYTES: usize = 5_000_000;
/// A datagram that a usual link carries in one piece.
const LONG_DATAGRAM_BYTES: usize = 1400;
/// A name that no gateway of the laboratory knows.
const OTHER_NAME: &str = "other.lab.invalid";
/// Time limit of one read or write.
const LIMIT: Duration = Duration::from_secs(5);
/// A datagram that is away so long is lost, for example because the gateway does not listen yet.
const DATAGRAM_LIMIT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo;

    #[test]
    fn origin_itself_passes_except_for_names() {
        let address = echo::start_echo((Ipv4Addr::LOCALHOST, 0).into()).unwrap().address;
        for protocol in [ScenarioProtocol::Tcp, ScenarioProtocol::Udp] {
            assert_eq!(probe_layer4(protocol, address).unwrap().len(), SHORT_BYTES);
            check_layer4_forwarding(protocol, address).unwrap();
        }
        probe_layer4(ScenarioProtocol::TlsByName, address).unwrap();
        let fault = check_layer4_forwarding(ScenarioProtocol::TlsByName, address).unwrap_err().to_string();
        assert!(fault.contains("the name is not looked at"), "{fault}");
    }

    #[test]
    fn silence_and_refusal_are_errors() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fault =
            format!("{:#}", probe_layer4(ScenarioProtocol::Udp, silent.local_addr().unwrap()).unwrap_err());
        assert!(fault.contains("does not come back"), "{fault}");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || drop(listener.accept()));
        assert!(probe_layer4(ScenarioProtocol::Tcp, address).is_err());
    }
}
