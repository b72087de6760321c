//! Sessions with peers that misbehave: resets in the middle of a bulk transfer, sides that are half closed,
//! and a ClientHello that is too long.

use super::*;

/// More than all buffers between the two sides hold, so that a transfer is in progress for as long as nothing
/// reads.
const BULK_BYTES: usize = 16_000_000;
/// A length at which the transfer passes by `splice`.
const BEGUN_BYTES: usize = 2_000_000;

/// Closes the connection with a reset.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Sends [`BULK_BYTES`] from a thread of its own, or as many as the other side takes; whether all were taken.
fn send_bulk(stream: &TcpStream) -> thread::JoinHandle<bool> {
    let mut stream = stream.try_clone().unwrap();
    thread::spawn(move || stream.write_all(&vec![7; BULK_BYTES]).is_ok())
}

/// A session in which both sides have sent a byte.
fn begun(gateway: &Gateway, accepted: &Receiver<TcpStream>) -> (TcpStream, TcpStream) {
    let mut client = gateway.connect();
    client.write_all(b"q").unwrap();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(read_exact(&mut node, 1), b"q");
    node.write_all(b"a").unwrap();
    assert_eq!(read_exact(&mut client, 1), b"a");
    (client, node)
}

/// Whether reading ends with a reset, behind whatever arrived before.
fn ends_with_reset(stream: &mut TcpStream) -> bool {
    let mut room = vec![0; 65_536];
    loop {
        match stream.read(&mut room) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn reset_in_a_bulk_transfer_ends_both_sides() {
    let (address, accepted) = origin();
    let gateway = gateway(&[to(address)]);
    // The side that sends, the side that resets, and the end of the session.
    for (client_sends, cause) in [(true, "node_reset"), (false, "client_reset")] {
        let (client, node) = begun(&gateway, &accepted);
        let (mut sender, mut reader) = if client_sends { (client, node) } else { (node, client) };
        let sending = send_bulk(&sender);
        read_exact(&mut reader, BEGUN_BYTES);
        reset(reader);
        assert!(!sending.join().unwrap(), "{cause}: the rest has nowhere to go");
        assert!(ends_with_reset(&mut sender) || is_gone(&mut sender), "{cause}");
        gateway.wait_for_end(cause);
    }
}

#[test]
fn reset_of_the_bulk_sender_reaches_the_reader() {
    let (address, accepted) = origin();
    let gateway = gateway(&[to(address)]);
    for (client_sends, cause) in [(true, "client_reset"), (false, "node_reset")] {
        let (client, node) = begun(&gateway, &accepted);
        let (sender, mut reader) = if client_sends { (client, node) } else { (node, client) };
        let mut half = sender.try_clone().unwrap();
        let sending = thread::spawn(move || half.write_all(&vec![7; BEGUN_BYTES]).unwrap());
        read_exact(&mut reader, BEGUN_BYTES);
        sending.join().unwrap();
        reset(sender);
        assert!(ends_with_reset(&mut reader), "{cause}: the bytes must not look complete");
        gateway.wait_for_end(cause);
    }
}

#[test]
fn half_closed_side_still_gets_a_bulk_transfer() {
    let (address, accepted) = origin();
    let gateway = gateway(&[to(address)]);
    for client_closes in [true, false] {
        let (client, node) = begun(&gateway, &accepted);
        let (mut closed, mut sender) = if client_closes { (client, node) } else { (node, client) };
        closed.shutdown(Shutdown::Write).unwrap();
        assert_eq!(sender.read(&mut [0]).unwrap(), 0, "the end has arrived");
        let sending = send_bulk(&sender);
        read_exact(&mut closed, BULK_BYTES);
        assert!(sending.join().unwrap());
        sender.shutdown(Shutdown::Write).unwrap();
        assert_eq!(closed.read(&mut [0]).unwrap(), 0);
    }
    wait_until("both have ended in order", || gateway.ended("closed") == 2);
}

#[test]
fn silent_half_open_peers_end_by_the_idle_timeout() {
    let (address, accepted) = origin();
    let mut route = to(address);
    route["idle_timeout"] = json!(0.3);
    let gateway = gateway(&[route]);
    for client_closes in [true, false] {
        let (client, node) = begun(&gateway, &accepted);
        let (closed, mut other) = if client_closes { (&client, &node) } else { (&node, &client) };
        closed.shutdown(Shutdown::Write).unwrap();
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
        // Neither side closes its other direction, or sends.
        wait_until("it has ended", || gateway.ended("idle_timeout") == 1 + u64::from(!client_closes));
    }
}

#[test]
fn long_client_hello_is_refused() {
    const BYTES: usize = 64 * 1_024;
    let (address, accepted) = origin();
    let mut route = to(address);
    route["sni"] = json!("a.test");
    let gateway = gateway(&[route]);
    // One handshake message in records of the largest size, and one that its header says is as long.
    let message = [&[1, 0, 255, 250][..], &vec![0; BYTES - 6]].concat();
    let records: Vec<u8> = message
        .chunks(16_384)
        .flat_map(|part| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat())
        .collect();
    for piece in [records.len(), 1_000] {
        let mut client = gateway.connect();
        for part in records.chunks(piece) {
            // The gateway closes before it has seen all.
            if client.write_all(part).is_err() {
                break;
            }
        }
        assert!(is_gone(&mut client));
    }
    wait_until("both are counted", || gateway.ended("preread_fault") == 2);
    let hello = client_hello("a.test");
    let mut client = gateway.connect();
    client.write_all(&hello).unwrap();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(read_exact(&mut node, hello.len()), hello, "others are served");
}
