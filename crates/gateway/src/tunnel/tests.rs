//! The order of bytes when a transfer changes from moving to copying, with sockets of the real kernel.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::task::Poll;
use std::thread;

use super::*;
use net::env;
use stdx::buffer::Buffer;

/// Rounds of the event loop without room in a socket, after which it is full.
const QUIET_ROUNDS: usize = 1_000;

/// An end of a tunnel, and the peer of its socket.
fn end() -> (SocketEnd<Transport>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let stream = Transport::attach(listener.accept().unwrap().0).unwrap();
    (Duplex { stream, buffer: Buffer::none() }.into_end(), peer)
}

#[test]
fn piece_in_a_full_pipe_stays_in_front_of_later_ones() {
    env::block_on(async {
        let (mut from, mut sender) = end();
        let (mut to, mut receiver) = end();
        let filler = vec![b'.'; 64 * 1_024];
        let (mut filled, mut quiet_rounds) = (0, 0);
        // Until the kernel takes no more for the receiver: its window closes some time after the first
        // refusal.
        while quiet_rounds < QUIET_ROUNDS {
            let before = filled;
            poll_fn(|cx| {
                while let Poll::Ready(count) = to.poll_write(cx, &filler) {
                    filled += count.unwrap();
                }
                Poll::Ready(())
            })
            .await;
            quiet_rounds = if filled == before { quiet_rounds + 1 } else { 0 };
            env::yield_to_events().await;
        }
        // A bulk transfer of which the last piece is small.
        let mut way = Way { is_bulk: true, ..Way::default() };
        let mut moved = false;
        sender.write_all(&[b'a'; 2_000]).unwrap();
        poll_fn(|cx| from.stream.poll_read_ready(cx)).await.unwrap();
        poll_fn(|cx| {
            assert!(way.poll(cx, &mut from, &mut to, false, &mut moved).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!((way.is_bulk, way.bytes), (false, 0), "the piece waits in the pipe");
        sender.write_all(&[b'b'; 1_000]).unwrap();
        drop(sender);
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).unwrap();
            all
        });
        poll_fn(|cx| way.poll(cx, &mut from, &mut to, false, &mut moved)).await.ok().unwrap();
        drop(to);
        let all = reading.join().unwrap();
        assert_eq!(all.len(), filled + 3_000);
        assert_eq!(all[filled..], [[b'a'; 2_000].as_slice(), &[b'b'; 1_000]].concat());
    })
    .unwrap();
}
