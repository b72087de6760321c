//! Bytes that the process at the other end of a connection on this machine has not read yet, as the kernel
//! counts them. It knows no protocol.

use std::net::{SocketAddr, TcpStream};

use crate::wait::wait_until;

/// The table of IPv4 sockets (proc(5)).
const TABLE: &str = "/proc/net/tcp";

/// Waits until the process at the other end has read all that was sent on `stream`, which is a connection
/// over IPv4. Bytes that are sent afterwards come with another read.
pub fn wait_until_read(stream: &TcpStream) {
    let own = hexadecimal(stream.local_addr().expect("a connected socket"));
    let peer = hexadecimal(stream.peer_addr().expect("a connected socket"));
    wait_until("the peer has read everything", || unread_bytes(&peer, &own) == Some(0));
}

/// The receive queue of the socket at `local` that is connected to `remote`; none if there is no such socket.
fn unread_bytes(local: &str, remote: &str) -> Option<u64> {
    let table = std::fs::read_to_string(TABLE).expect("the kernel has a table of sockets");
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        if words.next()? != local || words.next()? != remote {
            return None;
        }
        let queues = words.nth(1)?;
        u64::from_str_radix(queues.split_once(':')?.1, 16).ok()
    })
}

/// An address as the table has it: the bytes of the address as one number of this machine, and the port.
fn hexadecimal(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address} is not of IPv4") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn unread_bytes_are_counted_until_they_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        let (own, peer) =
            (hexadecimal(client.local_addr().unwrap()), hexadecimal(client.peer_addr().unwrap()));
        wait_until("the bytes have arrived", || unread_bytes(&peer, &own) == Some(5));
        let mut room = [0; 5];
        server.read_exact(&mut room).unwrap();
        wait_until_read(&client);
        drop((client, server));
        assert_eq!(unread_bytes(&hexadecimal(listener.local_addr().unwrap()), &peer), None);
    }
}
