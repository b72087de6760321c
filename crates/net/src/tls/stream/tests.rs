//! Writes of several slices, with TLS and without: their order, and the records that they make.

use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::*;
use crate::env;
use crate::transport::Transport;

/// A connection over loopback.
async fn pair() -> (Stream, Stream) {
    let listener = env::bind("127.0.0.1:0".parse::<SocketAddr>().unwrap(), false).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = env::Listener::attach(listener).unwrap();
    let (accepted, connected) = tokio::join!(listener.accept(), env::connect(address));
    (accepted.unwrap().0, connected.unwrap())
}

/// The same with TLS, behind its handshake. The server sends no tickets.
async fn tls_pair() -> (TlsStream, TlsStream) {
    let signed = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::Pkcs8(signed.signing_key.serialize_der().into());
    let certificate = signed.cert.der().clone();
    let mut server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    server.send_tls13_tickets = 0;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let server = ServerConnection::new(Arc::new(server)).unwrap();
    let client = ClientConnection::new(Arc::new(client), "a.example".try_into().unwrap()).unwrap();
    let (accepted, connected) = pair().await;
    let mut server = TlsStream::new(accepted, server.into());
    let mut client = TlsStream::new(connected, client.into());
    let handshakes =
        tokio::join!(poll_fn(|cx| server.poll_handshake(cx)), poll_fn(|cx| client.poll_handshake(cx)));
    handshakes.0.and(handshakes.1).unwrap();
    (server, client)
}

/// Slices of `bytes` with these lengths in turn, the first ones without the first `skipped` bytes.
fn slices<'a>(bytes: &'a [u8], lengths: &[usize], mut skipped: usize) -> Vec<IoSlice<'a>> {
    let (mut rest, mut slices) = (bytes, Vec::new());
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (slice, behind) = rest.split_at(rest.len().min(*length));
        let begin = skipped.min(slice.len());
        skipped -= begin;
        if begin < slice.len() {
            slices.push(IoSlice::new(&slice[begin..]));
        }
        rest = behind;
    }
    slices
}

#[test]
fn slices_arrive_in_order_whatever_the_socket_takes() {
    let body: Vec<u8> = (0..8_000_000_u32).map(|place| (place % 251) as u8).collect();
    env::block_on(async {
        let (server, client) = tls_pair().await;
        let (accepted, connected) = pair().await;
        for (mut from, mut to) in [
            (Transport::from(server), Transport::from(client)),
            (Transport::from(accepted), Transport::from(connected)),
        ] {
            // The reader begins when the socket is full, inside a slice.
            let (full, mut is_full) = tokio::sync::oneshot::channel();
            let mut full = Some(full);
            let send = async {
                let mut written = 0;
                while written < body.len() {
                    let slices = slices(&body, &[9, 16_384, 9, 1_000, 40, 70_000, 1], written);
                    written += poll_fn(|cx| {
                        let polled = from.poll_write_vectored(cx, &slices[..slices.len().min(60)]);
                        if polled.is_pending() {
                            full.take().into_iter().for_each(|full| full.send(()).unwrap());
                        }
                        polled
                    })
                    .await
                    .unwrap();
                }
            };
            let receive = async {
                (&mut is_full).await.unwrap();
                let (mut got, mut room) = (Vec::new(), vec![0; 10_001]);
                while got.len() < body.len() {
                    let count = poll_fn(|cx| to.poll_read(cx, &mut room)).await.unwrap();
                    got.extend_from_slice(&room[..count]);
                }
                got
            };
            assert!(tokio::join!(send, receive).1 == body, "{from:?}");
        }
    })
    .unwrap();
}

#[test]
fn several_slices_fill_records_whole() {
    const HEAD_BYTES: usize = 9;
    const RECORD: usize = RECORD_BYTES as usize;
    let body = vec![1; ENCRYPT_BYTES];
    env::block_on(async {
        let (mut server, mut client) = tls_pair().await;
        // Four frames with their heads, as an output of HTTP/2 that is full.
        let last = RECORD - 4 * HEAD_BYTES;
        let lengths = [HEAD_BYTES, RECORD, HEAD_BYTES, RECORD, HEAD_BYTES, RECORD, HEAD_BYTES, last];
        let slices = slices(&body, &lengths, 0);
        assert_eq!(slices.len(), lengths.len());
        let written = poll_fn(|cx| server.poll_write_vectored(cx, &slices)).await.unwrap();
        assert_eq!(written, ENCRYPT_BYTES);
        // In TLS 1.3 a record has a header of 5 bytes, a byte for its type, and a tag of 16 bytes.
        let record_bytes = 5 + RECORD + 1 + 16;
        let mut ciphertext = vec![0; 4 * record_bytes + 1];
        let mut got = 0;
        while got < 4 * record_bytes {
            got += poll_fn(|cx| client.stream.poll_read(cx, &mut ciphertext[got..])).await.unwrap();
        }
        assert_eq!(got, 4 * record_bytes);
        for record in ciphertext[..got].chunks(record_bytes) {
            assert_eq!(usize::from(u16::from_be_bytes([record[3], record[4]])), record_bytes - 5);
        }
    })
    .unwrap();
}
