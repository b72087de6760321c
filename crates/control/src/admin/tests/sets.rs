//! Limits of whole sets: the length of a body, and one set at a time.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use tokio::sync::oneshot;

use super::Talk;
use crate::admin::server::max_set_bytes;
use crate::serve::respond_to_request;
use crate::testing::{MAX_SET_BYTES, Rig};

#[test]
fn memory_limit_bounds_whole_sets() {
    let mebibyte = 1 << 20;
    for (limit, expected) in
        [(0, 256 * mebibyte), (64 << 30, 256 * mebibyte), (512 << 20, 32 * mebibyte), (1, 3 * mebibyte / 2)]
    {
        assert_eq!(max_set_bytes(limit), expected, "{limit}");
    }
}

#[test]
fn set_over_the_limit_is_refused() {
    let talk = Talk::new();
    let large = " ".repeat(MAX_SET_BYTES + 1);
    let expected =
        format!("request size {} is greater than the maximum size {MAX_SET_BYTES} allowed", large.len());
    for (method, target) in
        [("POST", "weir/plan"), ("POST", "weir/apply"), ("PUT", "configs"), ("POST", "configs/validate")]
    {
        let (status, body) = talk.rig.ask(method, &format!("/apisix/admin/{target}"), &large);
        assert!(status == 400 && body.contains(&expected), "{target}: {status} {body}");
    }
}

/// A body that arrives when the test sends it.
struct Late(Option<oneshot::Receiver<Bytes>>);

impl Body for Late {
    type Data = Bytes;
    type Error = oneshot::error::RecvError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(receiver) = &mut self.0 else { return Poll::Ready(None) };
        let received = std::task::ready!(Pin::new(receiver).poll(context));
        self.0 = None;
        Poll::Ready(Some(received.map(Frame::data)))
    }
}

/// A request with a late body: the sender of the body, and the status of the answer.
fn send(rig: &Rig, target: &str) -> (oneshot::Sender<Bytes>, impl Future<Output = u16>) {
    let (sender, receiver) = oneshot::channel();
    let request = Request::post(format!("/apisix/admin/{target}")).header("X-API-KEY", "boss");
    let request = request.body(Late(Some(receiver))).unwrap();
    let peer = "127.0.0.1:1".parse().unwrap();
    let answer =
        async move { respond_to_request(&rig.admin, request, peer, &|_| ()).await.status().as_u16() };
    (sender, answer)
}

#[tokio::test]
async fn one_set_is_read_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let (first, first_answer) = send(&rig, "weir/plan");
    let (second, second_answer) = send(&rig, "configs/validate");
    let (object, object_answer) = send(&rig, "schema/validate/routes");
    for sender in [second, object] {
        sender.send(Bytes::from_static(b"{}")).unwrap();
    }
    let mut first_answer = std::pin::pin!(first_answer);
    let second_status = tokio::select! {
        biased;
        _ = first_answer.as_mut() => panic!("its body has not come"),
        status = second_answer => status,
    };
    assert_eq!(second_status, 503, "the first one kept it waiting for too long");
    assert_eq!(object_answer.await, 400, "bodies of single objects do not wait");
    first.send(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(first_answer.await, 200);
    let (third, third_answer) = send(&rig, "configs/validate");
    third.send(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(third_answer.await, 200, "the turn was given back");
}
