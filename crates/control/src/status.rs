//! The status listener (contract 2.6): whether the process is alive, and whether it can take traffic. It does
//! not know why the process is not ready.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use model::report::{Certificates, Readiness};
use serde_json::json;

use crate::certificates;
use crate::serve::{Handler, RefusalResponse, ResponseFuture, respond};
use crate::view::SharedView;

/// Answers `/status`, `/status/ready` and `/status/certificates`.
pub struct StatusHandler {
    readiness: Arc<dyn Readiness>,
    certificates: Arc<dyn Certificates>,
    /// None: faults of the configuration do not make the instance unready.
    view: Option<SharedView>,
}

impl StatusHandler {
    /// A status listener that asks `readiness` and `certificates`, and `view` for faults of the
    /// configuration.
    pub fn new(
        readiness: Arc<dyn Readiness>,
        certificates: Arc<dyn Certificates>,
        view: Option<SharedView>,
    ) -> StatusHandler {
        StatusHandler { readiness, certificates, view }
    }

    /// Whether the instance can take traffic.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn ready(&self) -> Result<(), String> {
        self.readiness.ready()?;
        let faults = self.view.as_ref().map(|view| view.load().unready.join("; ")).unwrap_or_default();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn get(&self, path: &str) -> Response<Bytes> {
        match path {
            "/status" => respond::json(StatusCode::OK, &json!({ "status": "ok" })),
            "/status/ready" => match self.ready() {
                Ok(()) => respond::json(StatusCode::OK, &json!({ "status": "ok" })),
                Err(missing) => respond::json(
                    StatusCode::SERVICE_UNAVAILABLE,
                    &json!({ "status": "error", "error": missing }),
                ),
            },
            "/status/certificates" => certificates::answer_certificate_status(&*self.certificates),
            _ => respond::error_response(StatusCode::NOT_FOUND, "not found"),
        }
    }
}

impl Handler for StatusHandler {
    fn admit(&self, head: &mut Parts, _peer: SocketAddr) -> Result<(), RefusalResponse> {
        if matches!(head.method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let mut refusal = respond::error_response(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
        refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        Err(Box::new(refusal))
    }

    fn too_large(&self, _size: Option<u64>, _limit: usize) -> Response<Bytes> {
        respond::error_response(StatusCode::PAYLOAD_TOO_LARGE, "no body is expected here")
    }

    fn max_body_bytes(&self, _: &Parts) -> usize {
        0
    }

    fn answer(&self, request: Request<Bytes>) -> ResponseFuture {
        let mut response = self.get(request.uri().path());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Box::pin(std::future::ready(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, block_on, reports};
    use crate::view::View;

    struct Missing(Option<&'static str>);

    impl Readiness for Missing {
        fn ready(&self) -> Result<(), String> {
            self.0.map_or(Ok(()), |missing| Err(missing.to_owned()))
        }
    }

    fn check(missing: Option<&'static str>, method: &str, path: &str, expected: (u16, &str)) {
        let status = StatusHandler::new(Arc::new(Missing(missing)), reports().certificates, None);
        let (code, _, body) = block_on(ask(&status, method, path, &[], ""));
        assert_eq!((code, body.as_str()), expected, "{method} {path}");
    }

    #[test]
    fn status_and_readiness_are_answered() {
        check(None, "GET", "/status", (200, "{\"status\":\"ok\"}\n"));
        check(Some("worker 1 waits"), "GET", "/status", (200, "{\"status\":\"ok\"}\n"));
        check(None, "GET", "/status/ready", (200, "{\"status\":\"ok\"}\n"));
        check(
            Some("worker 1 waits"),
            "GET",
            "/status/ready",
            (503, "{\"status\":\"error\",\"error\":\"worker 1 waits\"}\n"),
        );
        let listed = "{\"total\":1,\"list\":[{\"id\":\"1\",\"type\":\"server\",\"names\":[\"a.example\"],\"state\":\"faulty\"}]}\n";
        check(None, "GET", "/status/certificates", (200, listed));
        check(None, "GET", "/other", (404, "{\"error_msg\":\"not found\"}\n"));
        let view = SharedView::default();
        view.store(View { unready: vec!["route 1 is faulty: x".to_owned()], ..View::default() });
        let status = StatusHandler::new(Arc::new(Missing(None)), reports().certificates, Some(view));
        let (code, _, body) = block_on(ask(&status, "GET", "/status/ready", &[], ""));
        assert_eq!((code, &*body), (503, "{\"status\":\"error\",\"error\":\"route 1 is faulty: x\"}\n"));
        check(None, "PUT", "/status", (405, "{\"error_msg\":\"only GET and HEAD\"}\n"));
    }
}
