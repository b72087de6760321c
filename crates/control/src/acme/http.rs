//! The HTTP of an authority's answers, bounded: one connection a request, one deadline for it, limits on head
//! and body, no redirect, and no wait that the authority asks for is longer than a week. It does not know the
//! protocol inside.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HOST, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Limited};
use httpdate::parse_http_date;
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use model::outbound::OutboundPolicy;
use outbound::connect::connect_tcp;
use outbound::tls::{Io, trusting_authorities};
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

/// How authorities are reached; cheap to clone.
#[derive(Clone)]
pub(super) struct AcmeTransport {
    tls: TlsConnector,
    policy: OutboundPolicy,
}

/// The latest refusal of an authority, which the client library does not pass on.
#[derive(Debug, Clone, Default)]
pub(super) struct LastAnswer(Arc<Mutex<(u16, Option<Duration>)>>);

impl LastAnswer {
    /// The status of the last answer, and how long it asked to wait.
    pub(super) fn get(&self) -> (u16, Option<Duration>) {
        *self.0.lock()
    }
}

/// A client of one attempt.
struct Bounded {
    transport: AcmeTransport,
    /// The authority part of the directory's URL, if that is plain HTTP: the only one that may be asked so.
    plain: Option<Arc<str>>,
    last: LastAnswer,
}

impl AcmeTransport {
    /// A transport that trusts the certificates of `ca`, else the system's.
    ///
    /// # Errors
    /// A file that cannot be read or used, naming it.
    pub(super) fn new(ca: Option<&PathBuf>, policy: OutboundPolicy) -> Result<AcmeTransport, String> {
        let config = trusting_authorities(ca.map(PathBuf::as_path), "acme_ca")?.with_no_client_auth();
        Ok(AcmeTransport { tls: TlsConnector::from(Arc::new(config)), policy })
    }

    /// A client for one attempt at the authority with that directory, and its view of the last answer. The
    /// resources that the directory names must be https, because an authority could otherwise send requests
    /// to services of this machine; those of a directory with plain HTTP may be at the same host and port.
    pub(super) fn client(&self, directory: &str) -> (Box<dyn HttpClient>, LastAnswer) {
        let last = LastAnswer::default();
        let plain = plain_authority(directory);
        (Box::new(Bounded { transport: self.clone(), plain, last: last.clone() }), last)
    }

    async fn ask(
        &self,
        request: Request<BodyWrapper<Bytes>>,
        plain: Option<&str>,
    ) -> Result<Response<Bytes>, String> {
        let (mut head, body) = request.into_parts();
        let uri = std::mem::take(&mut head.uri);
        let stream = self.open(&uri, plain).await?;
        let authority = uri.authority().ok_or("its URL has no host")?;
        head.uri = uri
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .parse()
            .map_err(|_| "its URL has no path")?;
        head.version = Version::HTTP_11;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| "its URL has no host")?;
        head.headers.insert(HOST, host);
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let request = Request::from_parts(head, http_body_util::Full::new(body));
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_MAX_BYTES).max_headers(FIELDS_MAX);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|fault| format!("no HTTP: {fault}"))?;
        let answer = async {
            let response =
                sender.send_request(request).await.map_err(|fault| format!("no answer: {fault}"))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, BODY_MAX_BYTES).collect().await.map_err(|fault| {
                format!("the answer broke off, or is longer than {BODY_MAX_BYTES} bytes: {fault}")
            })?;
            let body = body.to_bytes();
            // The library reads the answer as JSON.
            jsonx::measure(&body, jsonx::Bounds::SMALL).map_err(|fault| format!("the answer has {fault}"))?;
            Ok(Response::from_parts(head, body))
        };
        tokio::pin!(answer, connection);
        let mut is_over = false;
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                // The reason of an end shows in the answer that waits for it.
                _ = &mut connection, if !is_over => is_over = true,
            }
        }
    }

    async fn open(&self, uri: &Uri, plain: Option<&str>) -> Result<Box<dyn Io>, String> {
        let authority = uri.authority().ok_or("its URL has no host")?;
        let host = authority.host().trim_matches(['[', ']']);
        let is_secure = is_secure(uri, plain)?;
        let port = authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = connect_tcp(host, port, &self.policy).await?;
        if !is_secure {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned())
            .map_err(|fault| format!("its URL has a host that no certificate can have: {fault}"))?;
        let secured = self.tls.connect(name, stream).await.map_err(|fault| {
            format!("no TLS with it: {fault}; acme_ca names the authority that has signed its certificate")
        })?;
        Ok(Box::new(secured))
    }
}

impl HttpClient for Bounded {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (transport, plain, last) = (self.transport.clone(), self.plain.clone(), self.last.clone());
        Box::pin(async move {
            *last.0.lock() = (0, None);
            let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            let answer = match tokio::time::timeout(TIMEOUT, transport.ask(request, plain.as_deref())).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no whole answer within {} s", TIMEOUT.as_secs())),
            };
            let mut response = answer.map_err(|reason| Error::Other(format!("{host}: {reason}").into()))?;
            let wait = bound_wait(response.headers_mut(), SystemTime::now());
            *last.0.lock() = (response.status().as_u16(), wait);
            let (parts, body) = response.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

/// The host and port of a directory with plain HTTP; none for https.
fn plain_authority(directory: &str) -> Option<Arc<str>> {
    let uri: Uri = directory.parse().ok()?;
    (uri.scheme_str() == Some("http")).then(|| uri.authority().map(|authority| authority.as_str().into()))?
}

/// Whether a URL is asked by TLS. Plain HTTP is for the host and port `plain` alone, and on this machine
/// only.
fn is_secure(uri: &Uri, plain: Option<&str>) -> Result<bool, String> {
    let authority = uri.authority().ok_or("its URL has no host")?;
    match uri.scheme_str() {
        Some("https") => Ok(true),
        Some("http")
            if plain == Some(authority.as_str())
                && is_loopback(authority.host().trim_matches(['[', ']'])) =>
        {
            Ok(false)
        }
        _ => Err("its URL is not https".to_owned()),
    }
}

/// Whether plain HTTP to that host stays on this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The wait that an answer asks for, and the field rewritten as seconds: the library adds any number to the
/// time of day, which ends the thread where the sum is out of range. A field that cannot be read is removed.
fn bound_wait(headers: &mut HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.remove(RETRY_AFTER)?;
    let text = value.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => WAIT_MAX,
        Err(_) => parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    let wait = wait.min(WAIT_MAX);
    headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
    Some(wait)
}

/// For one request, from the look-up of the name to the last byte: an authority answers within seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The head of an answer.
const HEAD_MAX_BYTES: usize = 32 * 1024;
const FIELDS_MAX: usize = 64;
/// The body of an answer: a chain of certificates has some ten KiB.
const BODY_MAX_BYTES: usize = 1024 * 1024;
/// The longest wait that an authority is granted, as long as the longest window of a rate limit.
const WAIT_MAX: Duration = Duration::from_secs(7 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_https_unless_the_directory_is_not() {
        let check = |directory: &str, resource: &str, expected: Option<bool>| {
            let found = is_secure(&resource.parse().unwrap(), plain_authority(directory).as_deref());
            assert_eq!(found.ok(), expected, "{directory} {resource}");
        };
        let (secure, plain) = ("https://acme.example/dir", "http://127.0.0.1:14000/dir");
        check(secure, "https://acme.example/order", Some(true));
        check(secure, "https://other.example/order", Some(true));
        check(secure, "http://127.0.0.1:9180/apisix/admin/routes", None);
        check(secure, "http://acme.example/order", None);
        check("https://127.0.0.1:14000/dir", "http://127.0.0.1:14000/order", None);
        check(plain, "http://127.0.0.1:14000/order", Some(false));
        check(plain, "https://127.0.0.1:14000/order", Some(true));
        check(plain, "http://127.0.0.1:9180/order", None);
        check(plain, "http://[::1]:14000/order", None);
        check("http://[::1]:14000/dir", "http://[::1]:14000/order", Some(false));
        check("http://acme.example/dir", "http://acme.example/order", None);
        check(plain, "ftp://127.0.0.1:14000/order", None);
    }

    #[test]
    fn waits_are_bounded_and_readable() {
        let now = parse_http_date("Fri, 31 Dec 1999 23:59:59 GMT").unwrap();
        let check = |value: &str, seconds: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            let wait = bound_wait(&mut headers, now);
            assert_eq!(wait.map(|wait| wait.as_secs()), seconds, "{value}");
            let field = headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(field, seconds.map(|seconds| seconds.to_string()), "{value}");
        };
        check("120", Some(120));
        check(" 0 ", Some(0));
        check("18446744073709551615", Some(604_800));
        check("99999999999999999999999999", Some(604_800));
        check("Sat, 01 Jan 2000 00:00:59 GMT", Some(60));
        check("Fri, 31 Dec 1999 23:00:00 GMT", Some(0));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(604_800));
        check("soon", None);
        check("-1", None);
        check("", None);
    }
}
