//! Sends batches of spans to a collector: OTLP over HTTP or gRPC. What may succeed later is repeated with
//! growing waits, as the specification of OTLP says; the rest is given up at once. It knows neither requests
//! nor how a span is written.

use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, Sink};
use exchange::plugin::outbound::{
    GrpcCall, GrpcDestination, HttpClient, OutboundDestination, OutboundLimits, OutboundRequest, OutboundTls,
};
use exchange::plugin::services::Services;
use message::{Headers, Method};
use net::endpoint::KeepAlive;
use net::env;
use serde_json::Value;

use super::metadata::{OtlpCollectorConfig, OtlpProtocol};
use super::otlp::OtlpEnvelope;

/// The waits before a batch is sent again, in milliseconds.
const WAITS_MS: [u64; 3] = [1_000, 2_000, 4_000];
/// The longest wait that a collector may ask for with `Retry-After`.
const WAIT_MAX_MS: u64 = 30_000;
/// The longest answer that is read.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// How many bytes of a refusal are logged.
const EXCERPT_MAX_BYTES: usize = 200;
/// The path of OTLP over HTTP, and the method of OTLP over gRPC.
const HTTP_PATH: &str = "/v1/traces";
const GRPC_METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Statuses of gRPC that may pass: CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, OUT_OF_RANGE,
/// UNAVAILABLE, DATA_LOSS.
const GRPC_RETRIABLE: [u32; 7] = [1, 4, 8, 10, 11, 14, 15];

/// A collector.
pub(super) struct Exporter {
    way: Way,
    headers: Headers,
    timeout_ms: u64,
    frame: OtlpEnvelope,
}

enum Way {
    Http(OutboundDestination),
    Grpc(GrpcDestination),
}

/// A batch that was not taken.
struct ExportRefusal {
    reason: String,
    /// Milliseconds after which it may be taken; none if it never will be.
    again_ms: Option<u64>,
}

impl Exporter {
    /// The collector of the metadata; batches have this frame.
    ///
    /// # Errors
    /// Why it cannot be reached, or a field that cannot be sent.
    pub(super) fn new(
        services: &Services,
        collector: &OtlpCollectorConfig,
        frame: OtlpEnvelope,
    ) -> Result<Exporter, String> {
        let mut headers = fields(collector)?;
        let uri = uri(&collector.address);
        let tls = OutboundTls::verifying(true);
        let way = match collector.protocol {
            OtlpProtocol::Http => {
                headers.set("Content-Type", b"application/x-protobuf").expect("a valid field");
                Way::Http(services.destination(&uri, KeepAlive::default(), &tls)?)
            }
            OtlpProtocol::Grpc => Way::Grpc(services.grpc_destination(&uri, &tls)?),
        };
        let timeout_ms = collector.request_timeout.saturating_mul(1_000);
        Ok(Exporter { way, headers, timeout_ms, frame })
    }

    async fn send(&self, client: &HttpClient, body: &bytes::Bytes) -> Result<(), ExportRefusal> {
        match &self.way {
            Way::Http(destination) => self.post(client, destination, body.clone()).await,
            Way::Grpc(destination) => self.call(destination, body).await,
        }
    }

    async fn post(
        &self,
        client: &HttpClient,
        destination: &OutboundDestination,
        body: bytes::Bytes,
    ) -> Result<(), ExportRefusal> {
        let limits = OutboundLimits {
            connect_timeout_ms: self.timeout_ms,
            total_timeout_ms: self.timeout_ms,
            max_body_bytes: ANSWER_MAX_BYTES,
        };
        let request = OutboundRequest { method: Method::Post, headers: self.headers.clone(), body };
        let answer = client.send(destination, &request, &limits).await;
        let answer =
            answer.map_err(|error| ExportRefusal { reason: error.to_string(), again_ms: Some(0) })?;
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let excerpt = String::from_utf8_lossy(&answer.body[..answer.body.len().min(EXCERPT_MAX_BYTES)]);
        let reason = format!("{} answered with status {}: {excerpt}", destination.uri(), answer.status);
        let again_ms = matches!(answer.status, 429 | 502 | 503 | 504).then(|| asked_wait_ms(&answer.headers));
        Err(ExportRefusal { reason, again_ms })
    }

    async fn call(&self, destination: &GrpcDestination, body: &[u8]) -> Result<(), ExportRefusal> {
        let call = GrpcCall {
            method: GRPC_METHOD,
            headers: &self.headers,
            message: body,
            timeout_ms: self.timeout_ms,
            max_reply_bytes: ANSWER_MAX_BYTES,
        };
        let answer = destination.call(&call).await;
        let answer =
            answer.map_err(|error| ExportRefusal { reason: error.to_string(), again_ms: Some(0) })?;
        if answer.status == 0 {
            return Ok(());
        }
        let excerpt: String = answer.message.chars().take(EXCERPT_MAX_BYTES).collect();
        let reason = format!("{} answered with gRPC status {}: {excerpt}", destination.uri(), answer.status);
        Err(ExportRefusal { reason, again_ms: GRPC_RETRIABLE.contains(&answer.status).then_some(0) })
    }
}

impl Sink for Exporter {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let body = bytes::Bytes::from(self.frame.request(batch));
            let mut waits = WAITS_MS.iter();
            loop {
                let Err(refusal) = self.send(client, &body).await else { return Ok(()) };
                match (refusal.again_ms, waits.next()) {
                    (Some(asked_ms), Some(wait_ms)) => env::sleep_ms(asked_ms.max(*wait_ms)).await,
                    _ => return Err(DeliveryFailure::last(refusal.reason)),
                }
            }
        })
    }
}

/// The URI of the collector; APISIX takes `http` where the address has no scheme.
fn uri(address: &str) -> String {
    let has_scheme = address.starts_with("http://") || address.starts_with("https://");
    let scheme = if has_scheme { "" } else { "http://" };
    format!("{scheme}{}{HTTP_PATH}", address.trim_end_matches('/'))
}

/// Checks the parts of the collector that a schema cannot.
///
/// # Errors
/// The field that cannot be used, and why.
pub(super) fn check(collector: &OtlpCollectorConfig) -> Result<(), String> {
    let checked = exchange::plugin::outbound::check_uri(&uri(&collector.address));
    checked.map_err(|reason| format!("collector.address: {reason}"))?;
    fields(collector).map(drop)
}

fn fields(collector: &OtlpCollectorConfig) -> Result<Headers, String> {
    let mut headers = Headers::new();
    for (name, value) in &collector.request_headers {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // The value may be a secret.
        let set = headers.set(name, value.as_bytes());
        set.map_err(|error| format!("collector.request_headers.{name} cannot be sent: {error}"))?;
    }
    Ok(headers)
}

/// The wait of `Retry-After` in milliseconds, if it is a number of seconds.
fn asked_wait_ms(headers: &Headers) -> u64 {
    let seconds =
        headers.get("retry-after").and_then(|value| str::from_utf8(value).ok()?.trim().parse().ok());
    seconds.map_or(0, |seconds: u64| seconds.saturating_mul(1_000).min(WAIT_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_becomes_the_uri_of_traces() {
        for (address, expected) in [
            ("127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://c:1/", "http://c:1/v1/traces"),
            ("https://c/otlp", "https://c/otlp/v1/traces"),
        ] {
            assert_eq!(uri(address), expected);
        }
    }

    #[test]
    fn collector_may_ask_for_a_wait_within_bounds() {
        for (value, expected) in [("2", 2_000), ("86400", WAIT_MAX_MS), ("soon", 0), ("-1", 0)] {
            let mut headers = Headers::new();
            headers.set("Retry-After", value.as_bytes()).unwrap();
            assert_eq!(asked_wait_ms(&headers), expected, "{value}");
        }
    }

    #[test]
    fn unusable_collectors_are_refused_with_the_field() {
        let collector = |address: &str, name: &str| {
            let mut collector =
                OtlpCollectorConfig { address: address.into(), ..OtlpCollectorConfig::default() };
            collector.request_headers.insert(name.into(), "a\nsecret".into());
            check(&collector).unwrap_err()
        };
        assert!(collector("a b", "X").starts_with("collector.address"));
        let reason = collector("a:1", "X");
        assert!(reason.starts_with("collector.request_headers.X") && !reason.contains("secret"), "{reason}");
    }
}
