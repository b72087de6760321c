//! What the tests of several files share: asking a handler without sockets. It refuses to know what is asked.

use std::future::Future;

use http::{HeaderMap, Request};
use http_body_util::Full;

use crate::serve::{Handler, respond};

/// Asks `handler` from the loopback address; gives back status, headers and body.
pub(crate) async fn ask(
    handler: &dyn Handler,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes::Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let response = respond(handler, request, "127.0.0.1:1".parse().unwrap()).await;
    let (head, body) = response.into_parts();
    (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
