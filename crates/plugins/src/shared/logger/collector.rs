//! A log server that is reached over HTTP: its endpoints by turns, the fields of each request, and the
//! sentence for a response that refuses a batch. It knows no form of entries.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64;
use exchange::plugin::batch::BatchEntry;
use exchange::plugin::outbound::{
    HttpClient, OutboundDestination, OutboundError, OutboundLimits, OutboundRequest, OutboundResponse,
    OutboundTls, check_uri,
};
use exchange::plugin::services::Services;
use message::{Headers, Method};
use net::endpoint::KeepAlive;

use crate::shared::config;

/// The longest response that is read, in bytes: servers with a bulk interface answer with a line for each
/// entry.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes of a response in the log.
const EXCERPT_MAX_BYTES: usize = 200;
/// The pattern of URIs in schemas: a scheme, a name or an address, and perhaps a port. [`check_uri`] decides
/// the rest.
pub(crate) const URI_PATTERN: &str = r"^[^/]+://([0-9a-zA-Z.-]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?";

/// How a log server is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calling {
    /// Milliseconds for the whole call.
    pub(crate) timeout_ms: u64,
    /// Whether the certificate of an `https` server is verified.
    pub(crate) verifies: bool,
    /// How idle connections are kept.
    pub(crate) keep_alive: KeepAlive,
}

impl Calling {
    /// Calls within `timeout_s` seconds, over connections that are kept.
    pub(crate) fn within_s(timeout_s: u64, verifies: bool) -> Calling {
        let timeout_ms = timeout_s.saturating_mul(1_000);
        Calling { timeout_ms, verifies, keep_alive: KeepAlive::default() }
    }
}

/// See the module.
pub(crate) struct LogCollector {
    endpoints: Box<[OutboundDestination]>,
    /// Where the next call goes.
    next: AtomicUsize,
    headers: Headers,
    limits: OutboundLimits,
}

/// A response, and the endpoint that gave it.
pub(crate) struct CollectorResponse<'c> {
    pub(crate) endpoint: &'c OutboundDestination,
    pub(crate) response: OutboundResponse,
}

impl LogCollector {
    /// A server with the endpoints `uris`, which take turns.
    ///
    /// # Errors
    /// Why one of them cannot be reached, a sentence.
    pub(crate) fn new<'u>(
        services: &Services,
        uris: impl IntoIterator<Item = &'u str>,
        calling: Calling,
    ) -> Result<LogCollector, String> {
        let tls = OutboundTls::verifying(calling.verifies);
        let endpoints = uris.into_iter().map(|uri| {
            let destination = services.destination(uri, calling.keep_alive, &tls);
            destination.map_err(|reason| reason.replace(uri, without_path(uri)))
        });
        Ok(LogCollector {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            next: AtomicUsize::new(0),
            headers: Headers::new(),
            limits: OutboundLimits {
                connect_timeout_ms: calling.timeout_ms,
                total_timeout_ms: calling.timeout_ms,
                max_body_bytes: ANSWER_MAX_BYTES,
            },
        })
    }

    /// Sends the field `name` with each request. `attribute` is where the value was written, for the message.
    ///
    /// # Errors
    /// The value cannot stand in a field.
    pub(crate) fn set(&mut self, attribute: &str, name: &str, value: &str) -> Result<(), String> {
        let set = self.headers.set(name, value.as_bytes());
        set.map_err(|error| format!("{attribute} cannot stand in a field: {error}"))
    }

    /// Sends the field `name` once more with each request; otherwise as [`LogCollector::set`].
    ///
    /// # Errors
    /// The value cannot stand in a field.
    pub(crate) fn append(&mut self, attribute: &str, name: &str, value: &str) -> Result<(), String> {
        let added = self.headers.append(name, value.as_bytes());
        added.map_err(|error| format!("{attribute} cannot stand in a field: {error}"))
    }

    /// The fields of each request.
    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The next endpoint.
    pub(crate) fn endpoint(&self) -> &OutboundDestination {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.endpoints[turn % self.endpoints.len()]
    }

    /// Posts `body` to the next endpoint.
    ///
    /// # Errors
    /// There was no response.
    pub(crate) async fn post(
        &self,
        client: &HttpClient,
        body: Vec<u8>,
    ) -> Result<CollectorResponse<'_>, String> {
        let endpoint = self.endpoint();
        let request =
            OutboundRequest { method: Method::Post, headers: self.headers.clone(), body: body.into() };
        let limits = self.limits_of_call(endpoint).await;
        answer(endpoint, client.send(endpoint, &request, &limits).await)
    }

    /// Sends a request with `method`, `target` and `headers` to one of the endpoints.
    ///
    /// # Errors
    /// There was no response.
    pub(crate) async fn send<'c>(
        &'c self,
        client: &HttpClient,
        endpoint: &'c OutboundDestination,
        (method, target): (Method, &str),
        headers: Headers,
        body: Vec<u8>,
    ) -> Result<CollectorResponse<'c>, String> {
        let request = OutboundRequest { method, headers, body: body.into() };
        let limits = self.limits_of_call(endpoint).await;
        answer(endpoint, client.send_to(endpoint, target, &request, &limits).await)
    }

    /// Waits for the address of a name that is new, because the first batch would be lost otherwise; the
    /// limits of the call with the time that is left.
    async fn limits_of_call(&self, endpoint: &OutboundDestination) -> OutboundLimits {
        let waited_ms = endpoint.looked_up(self.limits.total_timeout_ms).await;
        let total_timeout_ms = self.limits.total_timeout_ms - waited_ms;
        OutboundLimits { total_timeout_ms, ..self.limits }
    }
}

fn answer(
    endpoint: &OutboundDestination,
    answer: Result<OutboundResponse, OutboundError>,
) -> Result<CollectorResponse<'_>, String> {
    match answer {
        Ok(response) => Ok(CollectorResponse { endpoint, response }),
        Err(error) => {
            let place = without_path(endpoint.uri()).into();
            Err(OutboundError { place, ..error }.to_string())
        }
    }
}

/// Scheme, host and port of a URI, for messages: path and query may hold a token.
fn without_path(uri: &str) -> &str {
    let authority = uri.find("://").map_or(0, |scheme_end| scheme_end + "://".len());
    let length = uri[authority..].find(['/', '?', '#']);
    length.map_or(uri, |length| &uri[..authority + length])
}

impl CollectorResponse<'_> {
    /// The status of the response.
    pub(crate) fn status(&self) -> u16 {
        self.response.status
    }

    /// The beginning of the body, for a message.
    pub(crate) fn body_excerpt(&self) -> String {
        let body = &self.response.body;
        let mut excerpt = String::new();
        for character in String::from_utf8_lossy(&body[..body.len().min(EXCERPT_MAX_BYTES)]).chars() {
            // A response must not forge lines of the log.
            if character.is_control() {
                excerpt.push(' ');
            } else {
                excerpt.push(character);
            }
        }
        if body.len() > EXCERPT_MAX_BYTES {
            let _ = write!(excerpt, "… ({} bytes)", body.len());
        }
        excerpt
    }

    /// Nothing if the status is below 400; otherwise a sentence.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn below_400(&self) -> Result<(), String> {
        if self.status() < 400 {
            return Ok(());
        }
        let (status, host, port) = (self.status(), self.endpoint.host(), self.endpoint.port());
        let excerpt = self.body_excerpt();
        Err(format!("server returned status code[{status}] host[{host}] port[{port}] body[{excerpt}]"))
    }
}

/// Checks the URI in the field `name`, unless it is a reference to a secret.
///
/// # Errors
/// Why plugins cannot reach it, a sentence.
pub(crate) fn check(name: &str, uri: &str) -> Result<(), String> {
    if config::is_reference(uri) {
        return Ok(());
    }
    check_uri(uri).map_err(|reason| format!("{name}: {reason}"))
}

/// How idle connections are kept, as the fields `keepalive`, `keepalive_pool` and `keepalive_timeout`
/// (milliseconds) say.
pub(crate) fn kept_connections(is_kept: bool, size: u32, idle_timeout_ms: u64) -> KeepAlive {
    let size = if is_kept { size } else { 0 };
    KeepAlive { size, idle_timeout_ms, ..KeepAlive::default() }
}

/// The field of HTTP's basic authentication (RFC 7617).
pub(crate) fn basic_authorization(username: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{username}:{password}").as_bytes()))
}

/// Entries as a JSON list.
pub(crate) fn json_list(batch: &[BatchEntry]) -> Vec<u8> {
    [b"[", &*batch.join(&b','), b"]"].concat()
}

/// For tests of sinks.
#[cfg(test)]
pub(crate) mod testing {
    use super::{CollectorResponse, Headers, OutboundDestination, OutboundResponse};

    /// A response of `endpoint`.
    pub(crate) fn answer<'c>(
        endpoint: &'c OutboundDestination,
        status: u16,
        body: &str,
    ) -> CollectorResponse<'c> {
        let response = OutboundResponse { status, headers: Headers::new(), body: body.as_bytes().to_vec() };
        CollectorResponse { endpoint, response }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_in_the_log_are_bounded_and_one_line() {
        let services = exchange::testing::services();
        let tls = OutboundTls::default();
        let place = services.destination("http://127.0.0.1:81/x", KeepAlive::default(), &tls).unwrap();
        let check = |status: u16, body: &str, expected: Result<(), &str>| {
            let got = testing::answer(&place, status, body).below_400();
            assert_eq!(got, expected.map_err(str::to_owned), "{status}");
        };
        check(200, "", Ok(()));
        check(399, "", Ok(()));
        let head = "server returned status code[500] host[127.0.0.1] port[81] ";
        check(500, "disk\r\nfull", Err(&format!("{head}body[disk  full]")));
        let long = "x".repeat(1_000);
        check(500, &long, Err(&format!("{head}body[{}… (1000 bytes)]", "x".repeat(200))));
    }

    #[test]
    fn failures_tell_neither_path_nor_query() {
        let services = exchange::testing::services();
        let address = testkit::Origin::nowhere();
        let uri = format!("http://{address}/in/secret?token=secret");
        let collector = LogCollector::new(&services, [&*uri], Calling::within_s(60, false)).unwrap();
        let client = HttpClient::default();
        let error = net::env::block_on(collector.post(&client, Vec::new())).unwrap().err().unwrap();
        assert!(error.starts_with(&format!("http://{address}: ")) && !error.contains("secret"), "{error}");
        let bad =
            LogCollector::new(&services, ["ftp://a/secret"], Calling::within_s(1, false)).err().unwrap();
        assert!(bad.starts_with("ftp://a: ") && !bad.contains("secret"), "{bad}");
        assert_eq!(without_path("https://[::1]:9?token=secret"), "https://[::1]:9");
    }

    #[test]
    fn endpoints_take_turns() {
        let services = exchange::testing::services();
        let calling = Calling::within_s(1, false);
        let uris = ["http://127.0.0.1:1/a", "http://127.0.0.1:2/b"];
        let collector = LogCollector::new(&services, uris, calling).unwrap();
        let turns: Vec<&str> = (0..3).map(|_| collector.endpoint().uri()).collect();
        assert_eq!(turns, [uris[0], uris[1], uris[0]]);
        let bad = LogCollector::new(&services, ["ftp://a"], calling).err().unwrap();
        assert!(bad.contains("ftp"), "{bad}");
    }
}
