//! Batches of datagrams over sockets of the real kernel.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::UdpSocket;

use net::env;
use net::env::udp::{
    ClientSocket, Datagram, DatagramBatch, DatagramSendFault, NodePoll, NodeSocket, Ready, ReceiveCounts,
    SLOTS, fault_of,
};

/// A client's socket, here one of a session, and the socket of a listener.
fn pair() -> (NodePoll, NodeSocket, ClientSocket) {
    let listener = env::bind_datagrams("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let listener = ClientSocket::attach(listener).unwrap();
    let poll = NodePoll::new().unwrap();
    let client = NodeSocket::connect(listener.address(), None, &poll, 7).unwrap();
    (poll, client, listener)
}

#[test]
fn segments_stay_together_both_ways() {
    env::block_on(async {
        let (poll, client, listener) = pair();
        let bytes: Vec<u8> = (0..2_500_u32).map(|index| index as u8).collect();
        client.send(&bytes, 1_000).unwrap();
        let mut batch = DatagramBatch::default();
        poll_fn(|cx| listener.poll_receive(cx, &mut batch)).await.unwrap();
        let count: u64 = batch.datagrams().iter().map(Datagram::count).sum();
        assert_eq!(count, 3);
        assert_eq!(batch.datagrams().len(), 1, "the kernel has put them together");
        assert_eq!(batch.bytes(&batch.datagrams()[0]), bytes);
        listener.send(&mut batch, |error| panic!("{error}"));
        let mut ready = Ready::default();
        poll_fn(|cx| poll.poll_ready(cx, &mut ready)).await.unwrap();
        assert_eq!(ready.tokens().collect::<Vec<_>>(), [7]);
        let answers = client.receive(&mut batch, 8, listener.address(), None).unwrap();
        assert_eq!(answers, ReceiveCounts { slots: 1, datagrams: 3, bytes: 2_500 });
    })
    .unwrap();
}

#[test]
fn refusal_of_a_peer_is_an_error_of_its_socket() {
    env::block_on(async {
        let dead = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let poll = NodePoll::new().unwrap();
        let client = NodeSocket::connect(dead, None, &poll, 9).unwrap();
        client.send(b"hello", 0).unwrap();
        poll_fn(|cx| poll.poll_ready(cx, &mut Ready::default())).await.unwrap();
        let error = client.receive(&mut DatagramBatch::default(), 8, dead, None).unwrap_err();
        assert_eq!((error.kind(), fault_of(&error)), (ErrorKind::ConnectionRefused, DatagramSendFault::Peer));
        let error = client.send(&vec![0; 65_508], 0).unwrap_err();
        assert_eq!(fault_of(&error), DatagramSendFault::TooLarge);
    })
    .unwrap();
}

#[test]
fn full_batch_leaves_the_rest_for_the_next_one() {
    env::block_on(async {
        let (_poll, client, listener) = pair();
        const COUNT: usize = SLOTS + 3;
        for number in 0..COUNT {
            client.send(&[number as u8], 0).unwrap();
        }
        let mut batch = DatagramBatch::default();
        let mut got = Vec::new();
        while got.len() < COUNT {
            batch.clear();
            poll_fn(|cx| listener.poll_receive(cx, &mut batch)).await.unwrap();
            got.extend(batch.datagrams().iter().map(|one| batch.bytes(one)[0]));
        }
        assert_eq!(got, (0..COUNT as u8).collect::<Vec<_>>());
    })
    .unwrap();
}
