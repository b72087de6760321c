//! A gRPC call of streams in both directions goes on while the configuration changes, the gateway drains or
//! its binary is upgraded. The server is that of grpcio.

use std::net::TcpStream;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use serde_json::{Value, json};
use testkit::{Origin, Weir, wait_until};

use super::client::{Answer, Client, request_with, rest};
use crate::grpc::{Server, node, set};
use crate::support::BINARY;

const FIELDS: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

/// A message in its frame.
fn framed(message: &str) -> Bytes {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message.as_bytes()].concat().into()
}

/// A call to a server that echoes every message as it comes.
struct Call {
    client: Client,
    requests: SendStream<Bytes>,
    echoes: RecvStream,
}

impl Call {
    /// Begins a call and exchanges the first message.
    fn begin(weir: &Weir) -> Call {
        let mut client = Client::connect(weir.proxy());
        let (response, mut requests) =
            client.start(request_with("POST", "/test.Echo/BidiStream", &FIELDS), false);
        requests.send_data(framed("first"), false).unwrap();
        let response = client.run(response).unwrap();
        assert_eq!(response.status(), 200);
        let mut call = Call { client, requests, echoes: response.into_body() };
        call.receive("first");
        call
    }

    fn exchange(&mut self, message: &str) {
        self.requests.send_data(framed(message), false).unwrap();
        self.receive(message);
    }

    fn receive(&mut self, message: &str) {
        let (expected, echoes) = (framed(message), &mut self.echoes);
        let mut received = Vec::new();
        while received.len() < expected.len() {
            let piece = self.client.run(echoes.data()).expect("the stream goes on").unwrap();
            echoes.flow_control().release_capacity(piece.len()).unwrap();
            received.extend_from_slice(&piece);
        }
        assert_eq!(received, expected);
    }

    /// Ends the call and checks that its server ended it in order.
    fn finish(mut self) {
        self.requests.send_data(framed("last"), true).unwrap();
        let (body, trailers) = self.client.run(rest(self.echoes)).unwrap();
        assert_eq!(body, framed("last"));
        assert_eq!(trailers.expect("trailers")["grpc-status"], "0");
    }
}

/// A call of one message on a connection of its own.
fn unary(weir: &Weir) -> Answer {
    let mut client = Client::connect(weir.proxy());
    client.send(request_with("POST", "/test.Echo/Unary", &FIELDS), &framed("one"), None).unwrap()
}

fn to(server: &Server) -> Value {
    json!({"scheme": "grpc", "nodes": {node(server): 1}})
}

#[test]
fn stream_outlives_changes_and_ends_in_a_drain() {
    let server = Server::start(&[]);
    let mut weir = Weir::start(BINARY);
    set(&weir, to(&server), json!({}));
    let mut call = Call::begin(&weir);
    // New calls meet the changes; the stream keeps the configuration and the endpoint that it began with.
    set(&weir, to(&server), json!({"key-auth": {}}));
    wait_until("new calls need a key", || unary(&weir).header("grpc-status") == Some("16"));
    call.exchange("with a plugin");
    set(&weir, json!({"scheme": "grpc", "nodes": {Origin::nowhere().to_string(): 1}}), json!({}));
    wait_until("new calls fail", || unary(&weir).header("grpc-status") == Some("14"));
    call.exchange("without the endpoint");
    weir.delete("routes/g");
    wait_until("new calls find no route", || unary(&weir).header("grpc-status") == Some("12"));
    call.exchange("without the route");

    weir.terminate();
    let address = weir.proxy();
    wait_until("the gateway accepts no more", || TcpStream::connect(address).is_err());
    call.exchange("in the drain");
    assert!(weir.is_running(), "it waits for the call");
    call.finish();
    assert!(weir.wait_for_exit().success());
}

#[test]
fn stream_outlives_a_binary_upgrade() {
    let server = Server::start(&[]);
    let mut weir = Weir::builder(BINARY).arguments(&["--upgrade-grace", "60"]).start();
    set(&weir, to(&server), json!({}));
    let mut call = Call::begin(&weir);
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    call.exchange("in the old process");
    let answer = unary(&weir);
    assert_eq!((answer.status, &answer.body[..]), (200, &framed("one")[..]), "the new process serves calls");
    call.exchange("still in the old process");
    assert!(weir.is_running(), "it waits for the call");
    call.finish();
    assert!(weir.wait_until_gone().success());
    heir.terminate();
    heir.wait_until_gone();
}
