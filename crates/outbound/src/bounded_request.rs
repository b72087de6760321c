//! One bounded request (GET, or POST with a body) over HTTP/1.1, with TLS for https: its own connection, one
//! deadline for everything, a limit on the bytes that are read, no redirect, and no address outside of the
//! policy. It knows neither the server nor the purpose.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use model::outbound::OutboundPolicy;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connect::connect_tcp;
use crate::tls::Io;

/// A request.
#[derive(Debug)]
pub struct BoundedRequest {
    /// Scheme, host and port; if it has a path, that is put in front of `target`.
    pub base: String,
    /// The path and the query.
    pub target: String,
    /// Fields, their names in lower case; their values are secrets.
    pub headers: Vec<(&'static str, String)>,
    /// The body of a POST; none: it is a GET.
    pub body: Option<Vec<u8>>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct BoundedAnswer {
    /// The status of the response.
    pub status: u16,
    /// The body; empty with any status but 200.
    pub body: Vec<u8>,
}

/// The destination of a request.
struct Destination {
    host: String,
    port: u16,
    /// Whether the connection uses TLS.
    uses_tls: bool,
}

/// Sends the request and reads the answer. `tls` is called for https. Dropping the future closes the
/// connection.
///
/// # Errors
/// The reason of the failure, a sentence without the values of header fields.
pub async fn send_bounded(
    request: BoundedRequest,
    timeout: Duration,
    policy: &OutboundPolicy,
    tls: impl FnOnce() -> Result<TlsConnector, String>,
) -> Result<BoundedAnswer, String> {
    match tokio::time::timeout(timeout, ask(request, policy, tls)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no whole answer within {} ms", timeout.as_millis())),
    }
}

async fn ask(
    bounded: BoundedRequest,
    policy: &OutboundPolicy,
    tls: impl FnOnce() -> Result<TlsConnector, String>,
) -> Result<BoundedAnswer, String> {
    let (request, place) = prepare(&bounded)?;
    let stream = connect_tcp(&place.host, place.port, policy).await?;
    let stream: Box<dyn Io> =
        if place.uses_tls { connect_tls(stream, place.host, tls()?).await? } else { Box::new(stream) };
    let mut builder = Builder::new();
    builder.max_buf_size(HEAD_MAX_BYTES).max_headers(FIELDS_MAX);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| format!("no HTTP: {error}"))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))?;
        let status = response.status().as_u16();
        // The body of any other status is not used.
        if status != 200 {
            return Ok(BoundedAnswer { status, body: Vec::new() });
        }
        let body = Limited::new(response.into_body(), BODY_MAX_BYTES).collect().await;
        let body = body.map_err(|error| {
            format!("the answer broke off, or is longer than {BODY_MAX_BYTES} bytes: {error}")
        })?;
        Ok(BoundedAnswer { status, body: body.to_bytes().to_vec() })
    };
    tokio::pin!(answer, connection);
    let mut ended = false;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            // The end of the connection shows in the future that waits for the answer.
            _ = &mut connection, if !ended => ended = true,
        }
    }
}

fn prepare(bounded: &BoundedRequest) -> Result<(Request<Full<Bytes>>, Destination), String> {
    let uri: Uri = bounded.base.parse().map_err(|_| "its uri is no URI".to_owned())?;
    let authority = uri.authority().ok_or("its uri has no host")?;
    let (uses_tls, usual_port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        other => {
            let scheme = other.unwrap_or("none");
            return Err(format!("its uri has the scheme {scheme}; it is http or https"));
        }
    };
    if authority.as_str().contains('@') || uri.query().is_some() {
        return Err("its uri has a user or a query in it; write https://HOST:PORT".to_owned());
    }
    let target = format!("{}{}", uri.path().trim_end_matches('/'), bounded.target);
    let method = if bounded.body.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::builder().method(method).uri(target).header(header::HOST, authority.as_str());
    for (name, value) in &bounded.headers {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("what {name} would say cannot stand in a field"))?;
        value.set_sensitive(true);
        request = request.header(HeaderName::from_static(name), value);
    }
    let request = request
        .body(Full::from(bounded.body.clone().unwrap_or_default()))
        .map_err(|_| "its uri and the path make no request".to_owned())?;
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    Ok((request, Destination { host, port: authority.port_u16().unwrap_or(usual_port), uses_tls }))
}

/// A TLS connection to a server with a certificate for `host`.
async fn connect_tls(stream: TcpStream, host: String, tls: TlsConnector) -> Result<Box<dyn Io>, String> {
    let name = ServerName::try_from(host)
        .map_err(|error| format!("its uri has a host that no certificate can have: {error}"))?;
    let connected = tls.connect(name, stream).await;
    Ok(Box::new(connected.map_err(|error| {
        format!("no TLS with it: {error}; secret_ca names the certificate of whoever signed its own")
    })?))
}

/// Limit of an answer's head; a manager's head has some hundred bytes.
const HEAD_MAX_BYTES: usize = 16 * 1024;
const FIELDS_MAX: usize = 64;
/// Limit of an answer's body: a thousand fields of a kilobyte.
const BODY_MAX_BYTES: usize = 1024 * 1024;
