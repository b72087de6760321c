//! A server that takes spans as a list of JSON objects in POST requests. It knows neither spans nor requests.

use bytes::Bytes;
use exchange::plugin::batch::BatchEntry;
use exchange::plugin::outbound::{
    HttpClient, OutboundDestination, OutboundLimits, OutboundRequest, OutboundTls,
};
use exchange::plugin::services::Services;
use message::{Headers, Method};
use net::endpoint::KeepAlive;

/// The time for a request to the server, in milliseconds.
const TIMEOUT_MS: u64 = 10_000;
/// The longest answer that is read.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// How many bytes of a refusal are logged.
const EXCERPT_MAX_BYTES: usize = 200;

/// See the module.
pub(crate) struct JsonPost {
    destination: OutboundDestination,
    headers: Headers,
}

impl JsonPost {
    /// The server at `uri`.
    ///
    /// # Errors
    /// Why it cannot be reached, a sentence.
    pub(crate) fn new(services: &Services, uri: &str) -> Result<JsonPost, String> {
        let mut headers = Headers::new();
        headers.set("Content-Type", b"application/json").expect("a valid field");
        let destination = services.destination(uri, KeepAlive::default(), &OutboundTls::verifying(true))?;
        Ok(JsonPost { destination, headers })
    }

    /// Sends a body; a status of success means that it has arrived.
    ///
    /// # Errors
    /// The failure and its place, a sentence.
    pub(crate) async fn send(&self, client: &HttpClient, body: Bytes) -> Result<(), String> {
        let limits = OutboundLimits {
            connect_timeout_ms: TIMEOUT_MS,
            total_timeout_ms: TIMEOUT_MS,
            max_body_bytes: ANSWER_MAX_BYTES,
        };
        let request = OutboundRequest { method: Method::Post, headers: self.headers.clone(), body };
        let answer = client.send(&self.destination, &request, &limits).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let excerpt = &answer.body[..answer.body.len().min(EXCERPT_MAX_BYTES)];
        let (uri, status) = (self.destination.uri(), answer.status);
        Err(format!("{uri} answered with status {status}: {}", String::from_utf8_lossy(excerpt)))
    }
}

/// The entries as a JSON list.
pub(crate) fn join_json_list(batch: &[BatchEntry]) -> Bytes {
    [b"[", &*batch.join(&b','), b"]"].concat().into()
}

/// Appends a text as a JSON string; bytes that are no UTF-8 are replaced.
pub(crate) fn write_lossy_json_text(text: &[u8], buffer: &mut Vec<u8>) {
    serde_json::to_writer(buffer, &String::from_utf8_lossy(text)).expect("a vector takes every write");
}
