//! The metrics listener (contract 2.6): the metrics of the gateway and the configuration, as one text under
//! two paths.

mod etcd;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use model::report::MetricsText;
use stdx::open_metrics;

use crate::acme::Acme;
use crate::serve::{Handler, RefusalResponse, ResponseFuture, respond};
use crate::source::store;
use crate::verdict;
use crate::view::SharedView;

/// Answers `/metrics` and `/apisix/prometheus/metrics`.
#[derive(Clone)]
pub struct MetricsHandler {
    metrics: Arc<dyn MetricsText>,
    view: SharedView,
    acme: Option<Arc<Acme>>,
}

impl MetricsHandler {
    /// A metrics listener for `metrics`, for the configuration in `view` and for managed certificates.
    pub(crate) fn new(
        metrics: Arc<dyn MetricsText>,
        view: SharedView,
        acme: Option<Arc<Acme>>,
    ) -> MetricsHandler {
        MetricsHandler { metrics, view, acme }
    }
}

impl MetricsText for MetricsHandler {
    fn write_metrics(&self, text: &mut String) {
        self.metrics.write_metrics(text);
        let view = self.view.load();
        etcd::write_metrics(&view, text);
        store::write_store_metrics(text);
        verdict::write_verdict_metrics(&view, text);
        if let Some(acme) = &self.acme {
            acme.write_metrics(text);
        }
    }
}

impl Handler for MetricsHandler {
    fn admit(&self, head: &mut Parts, _peer: SocketAddr) -> Result<(), RefusalResponse> {
        let readable = matches!(head.method, Method::GET | Method::HEAD);
        if readable { Ok(()) } else { Err(Box::new(respond::empty(StatusCode::METHOD_NOT_ALLOWED))) }
    }

    fn too_large(&self, _size: Option<u64>, _limit: usize) -> Response<Bytes> {
        respond::empty(StatusCode::PAYLOAD_TOO_LARGE)
    }

    fn max_body_bytes(&self, _: &Parts) -> usize {
        0
    }

    fn answer(&self, request: Request<Bytes>) -> ResponseFuture {
        if !METRICS_PATHS.contains(&request.uri().path()) {
            return Box::pin(std::future::ready(respond::empty(StatusCode::NOT_FOUND)));
        }
        let metrics = self.clone();
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let is_open = open_metrics::is_wanted(accept.unwrap_or_default());
        Box::pin(async move {
            let text = respond::blocking(move || {
                let mut text = String::new();
                metrics.write_metrics(&mut text);
                if is_open { open_metrics::from_text(&text) } else { text }
            });
            match text.await {
                Ok(text) => {
                    let mut response = Response::new(Bytes::from(text));
                    let format = if is_open { OPEN_METRICS } else { TEXT_FORMAT };
                    response.headers_mut().insert(header::CONTENT_TYPE, format);
                    response
                }
                Err(refusal) => *refusal,
            }
        })
    }
}

/// The default path of scrapers, and the path of APISIX's exporter.
const METRICS_PATHS: [&str; 2] = ["/metrics", "/apisix/prometheus/metrics"];
/// The Prometheus text exposition format.
const OPEN_METRICS: HeaderValue = HeaderValue::from_static(open_metrics::CONTENT_TYPE);
const TEXT_FORMAT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, block_on};

    struct One;

    impl MetricsText for One {
        fn write_metrics(&self, text: &mut String) {
            text.push_str("apisix_up 1\n");
        }
    }

    #[test]
    fn metrics_are_served_under_both_paths() {
        let check = |method: &str, path: &str, expected: (u16, &str)| {
            let metrics = MetricsHandler::new(Arc::new(One), SharedView::default(), None);
            let (code, _, body) = block_on(ask(&metrics, method, path, &[], ""));
            // Metrics of the store and the configuration have tests of their own.
            let body = body.split("# HELP weir_store").next().unwrap_or_default();
            assert_eq!((code, body), expected, "{method} {path}");
        };
        check("GET", "/apisix/prometheus/metrics", (200, "apisix_up 1\n"));
        check("GET", "/apisix/prometheus/metrics?x=1", (200, "apisix_up 1\n"));
        check("GET", "/metrics", (200, "apisix_up 1\n"));
        check("HEAD", "/metrics", (200, "apisix_up 1\n"));
        check("GET", "/metrics/", (404, ""));
        check("GET", "/", (404, ""));
        check("POST", "/apisix/prometheus/metrics", (405, ""));
    }
}
