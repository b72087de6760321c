//! The line between two processes of an upgrade: datagrams of connections that the old process serves, which
//! the kernel gives to the new one. A message is one datagram, or a batch of the kernel, with where it came
//! from.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use quinn::udp::EcnCodepoint;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::connection_id::SocketLocation;
use super::process::QuicListeners;
use super::steering::SteeredDatagram;

/// The form of messages. A process that knows another form drops them.
const FORM: u8 = 1;
/// Bytes in front of the datagram.
const HEADER_BYTES: usize = 2 + 2 + 1 + 4 + 19 + 17 + 19;
/// The most bytes of a message: a batch of the kernel has 64 KiB at most.
const MESSAGE_BYTES: usize = HEADER_BYTES + 64 * 1024;

/// The end of a line in the new process.
#[derive(Debug)]
pub(super) struct UpgradeLine(OwnedFd);

impl UpgradeLine {
    pub(super) fn new(descriptor: OwnedFd) -> UpgradeLine {
        UpgradeLine(descriptor)
    }

    /// Both ends: of the old process, and for the new one.
    pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        // SEQPACKET keeps messages apart and shows the end of the other process.
        Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
    }

    /// Sends a datagram to the process before; false if it was dropped, because the line is full or closed.
    pub(super) fn send(
        &self,
        listener: SocketAddr,
        place: SocketLocation,
        datagram: &SteeredDatagram,
    ) -> bool {
        let message = encode(listener, place, datagram);
        send(&self.0, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

/// Passes on what comes by a line, until it is closed.
pub(super) fn receive_all(line: &OwnedFd, listeners: &QuicListeners) {
    let mut room = vec![0; MESSAGE_BYTES];
    loop {
        match recv(line, &mut room[..], RecvFlags::empty()) {
            Ok((0, _)) => return,
            Ok((count, _)) => {
                let message = room.get(..count).and_then(decode);
                if let Some((listener, place, datagram)) = message
                    && let Some(steering) = listeners.find(listener)
                {
                    // One that is dropped is sent again by its client.
                    let _ = steering.pass(place, datagram);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn encode(listener: SocketAddr, place: SocketLocation, datagram: &SteeredDatagram) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + datagram.bytes.len());
    out.extend_from_slice(&[FORM, place.slot]);
    out.extend_from_slice(&place.generation.to_be_bytes());
    out.push(datagram.ecn.map_or(0, |ecn| ecn as u8));
    out.extend_from_slice(&(datagram.stride as u32).to_be_bytes());
    put_address(&mut out, datagram.source.ip());
    out.extend_from_slice(&datagram.source.port().to_be_bytes()[..]);
    match datagram.destination {
        Some(address) => put_address(&mut out, address),
        None => out.extend_from_slice(&[0; 17]),
    }
    put_address(&mut out, listener.ip());
    out.extend_from_slice(&listener.port().to_be_bytes());
    out.extend_from_slice(&datagram.bytes);
    out
}

fn decode(message: &[u8]) -> Option<(SocketAddr, SocketLocation, SteeredDatagram)> {
    let mut rest = message;
    let [form, slot] = take(&mut rest)?;
    if form != FORM {
        return None;
    }
    let generation = u16::from_be_bytes(take(&mut rest)?);
    let [ecn] = take(&mut rest)?;
    let stride = u32::from_be_bytes(take(&mut rest)?) as usize;
    let source = SocketAddr::new(take_address(&mut rest)??, u16::from_be_bytes(take(&mut rest)?));
    let destination = take_address(&mut rest)?;
    let listener = SocketAddr::new(take_address(&mut rest)??, u16::from_be_bytes(take(&mut rest)?));
    let datagram = SteeredDatagram {
        source,
        destination,
        ecn: EcnCodepoint::from_bits(ecn),
        stride,
        bytes: rest.into(),
    };
    Some((listener, SocketLocation { generation, slot }, datagram))
}

/// A kind (4 or 6) and 16 bytes, of which IPv4 has the last four.
fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    let (kind, bytes) = match address {
        IpAddr::V4(address) => (4, address.to_ipv6_mapped().octets()),
        IpAddr::V6(address) => (6, address.octets()),
    };
    out.push(kind);
    out.extend_from_slice(&bytes);
}

/// The address, which may be none.
fn take_address(rest: &mut &[u8]) -> Option<Option<IpAddr>> {
    let [kind] = take(rest)?;
    let bytes = Ipv6Addr::from(take::<16>(rest)?);
    Some(match kind {
        4 => bytes.to_ipv4_mapped().map(IpAddr::V4),
        6 => Some(IpAddr::V6(bytes)),
        _ => None,
    })
}

fn take<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagram_survives_the_line() {
        let listener: SocketAddr = "[::1]:443".parse().unwrap();
        let place = SocketLocation { generation: 513, slot: 7 };
        for (source, destination) in [("192.0.2.1:5", None), ("[2001:db8::1]:65535", Some("192.0.2.9"))] {
            let sent = SteeredDatagram {
                source: source.parse().unwrap(),
                destination: destination.map(|address| address.parse().unwrap()),
                ecn: Some(EcnCodepoint::Ect0),
                stride: 1200,
                bytes: vec![5; 3000].into(),
            };
            let message = encode(listener, place, &sent);
            assert_eq!(message.len(), HEADER_BYTES + 3000);
            let (to, at, got) = decode(&message).unwrap();
            assert_eq!((to, at), (listener, place));
            assert_eq!(format!("{got:?}"), format!("{sent:?}"));
            for cut in 0..HEADER_BYTES {
                assert!(decode(&message[..cut]).is_none(), "cut at {cut}");
            }
        }
        assert!(decode(&[0; 200]).is_none(), "another form");
    }
}
