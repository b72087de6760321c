//! Unary gRPC calls to a server that a plugin's configuration names, over one kept HTTP/2 connection.
//! Messages are bytes here; the plugin knows their meaning.

use std::future::Future;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use message::Headers;
use model::outbound::OutboundPolicy;
use parking_lot::Mutex;

use super::adapter::Adapter;
use super::addresses::{Addresses, Connecting};
use super::client::more_telling;
use super::destination::{self, UriParts};
use super::error::{OutboundCause, OutboundError};
use super::open::{OpenFailure, open, within};
use super::tls::OutboundTls;
use net::endpoint::{EndpointProtocol, KeepAlive};
use net::env;
use net::resolver::Resolver;
use net::tls::identity::{ALPN_HTTP2, ClientIdentities};

/// A server for calls; its name is looked up in the background. The connection lives on the thread of the
/// first call, as long as the destination.
pub struct GrpcDestination {
    addresses: Addresses,
    uri: Box<str>,
    parts: UriParts,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct GrpcCall<'c> {
    /// `/package.Service/Method`.
    pub method: &'c str,
    /// Fields besides those of the protocol.
    pub headers: &'c Headers,
    /// The message.
    pub message: &'c [u8],
    /// The time for the whole call, in milliseconds.
    pub timeout_ms: u64,
    /// The longest reply, in bytes.
    pub max_reply_bytes: usize,
}

/// The end of a call.
#[derive(Debug)]
pub struct GrpcAnswer {
    /// The status; 0 is success.
    pub status: u32,
    /// The text of the status, as it was sent.
    pub message: String,
    /// The reply, with the five bytes before it.
    pub reply: Vec<u8>,
}

impl GrpcDestination {
    /// A destination at `uri`, of which scheme, host and port count.
    ///
    /// # Errors
    /// Why calls cannot reach it, a sentence.
    pub(crate) fn new(
        uri: &str,
        tls: &OutboundTls,
        identities: &ClientIdentities,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Result<GrpcDestination, String> {
        let parts = destination::read_uri_parts(uri)?;
        let connecting = Connecting {
            tls: parts.is_tls.then(|| identities.intern(tls.identity(ALPN_HTTP2))).transpose()?,
            protocol: EndpointProtocol::Raw,
            keep_alive: KeepAlive::default(),
        };
        let addresses = Addresses::follow(uri, &parts.host, parts.port, connecting, resolver, policy);
        Ok(GrpcDestination { addresses, uri: uri.into(), parts, connection: Mutex::default() })
    }

    /// The URI as it was written.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits until the name was looked up, with an address or without, at most `wait_ms` milliseconds; how
    /// many it has waited.
    pub async fn looked_up(&self, wait_ms: u64) -> u64 {
        self.addresses.looked_up(wait_ms).await
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The cause, the place and the side at fault. A status of gRPC is no error.
    pub async fn call(&self, call: &GrpcCall<'_>) -> Result<GrpcAnswer, OutboundError> {
        let made = async {
            let request = self.request(call)?;
            let mut sender = self.connect(call.timeout_ms).await?;
            let ready = sender.ready().await;
            ready.map_err(|error| (OutboundCause::Broken, error.to_string()))?;
            let response = sender.send_request(request).await;
            let (parts, body) = response.map_err(|error| broken(&error))?.into_parts();
            read(parts, body, call.max_reply_bytes).await
        };
        let (cause, detail) = match within(call.timeout_ms, Box::pin(made)).await {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(failed)) => failed,
            None => (OutboundCause::Timeout, format!("no whole answer within {} ms", call.timeout_ms)),
        };
        // It may be the connection that is at fault.
        *self.connection.lock() = None;
        Err(self.addresses.error(cause, detail))
    }

    /// The kept connection, or a new one.
    async fn connect(&self, timeout_ms: u64) -> Result<SendRequest<Full<Bytes>>, OpenFailure> {
        let kept = self.connection.lock().as_ref().filter(|sender| !sender.is_closed()).cloned();
        if let Some(sender) = kept {
            return Ok(sender);
        }
        let nodes = self.addresses.nodes().map_err(|error| (error.cause, error.detail))?;
        let mut failed = None;
        for node in &nodes.nodes {
            match open(&node.endpoint, &self.parts.host, timeout_ms).await {
                Ok(transport) => {
                    let made = Builder::new(Spawner).handshake(Adapter(transport)).await;
                    let (sender, machine) = made.map_err(|error| broken(&error))?;
                    // How it ends shows in the calls. It ends when the last sender is gone.
                    env::spawn(async move { drop(machine.await) });
                    *self.connection.lock() = Some(sender.clone());
                    return Ok(sender);
                }
                Err(reason) => failed = Some(more_telling(failed, reason)),
            }
        }
        Err(failed.expect("a destination without addresses was refused before"))
    }

    fn request(&self, call: &GrpcCall<'_>) -> Result<http::Request<Full<Bytes>>, OpenFailure> {
        let cannot = |what: &dyn std::fmt::Display| {
            (OutboundCause::BadRequest, format!("the call cannot be written: {what}"))
        };
        let length = u32::try_from(call.message.len()).map_err(|error| cannot(&error))?;
        let mut body = BytesMut::with_capacity(PREFIX_BYTES + call.message.len());
        // Not compressed.
        body.put_u8(0);
        body.put_u32(length);
        body.put_slice(call.message);
        let scheme = if self.parts.is_tls { "https" } else { "http" };
        let mut request = http::Request::builder()
            .method(http::Method::POST)
            .version(http::Version::HTTP_2)
            .uri(format!("{scheme}://{}{}", self.parts.authority, call.method))
            .body(Full::new(body.freeze()))
            .map_err(|error| cannot(&error))?;
        let fields = request.headers_mut();
        for field in call.headers.iter().filter(|field| !field.id.is_hop_by_hop()) {
            let name = HeaderName::from_bytes(field.name).map_err(|error| cannot(&error))?;
            fields.append(name, HeaderValue::from_bytes(field.value).map_err(|error| cannot(&error))?);
        }
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        fields.insert(header::TE, HeaderValue::from_static("trailers"));
        Ok(request)
    }
}

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Reads the reply up to its trailers.
async fn read(
    parts: http::response::Parts,
    mut body: Incoming,
    max_bytes: usize,
) -> Result<GrpcAnswer, OpenFailure> {
    if parts.status != http::StatusCode::OK {
        return Err((OutboundCause::BadResponse, format!("it answered with status {}", parts.status)));
    }
    // A call that fails at once has its status in the head.
    let mut ending = status_of(&parts.headers);
    let mut reply = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Some(data) = frame.data_ref() {
            if reply.len() + data.len() > max_bytes {
                let detail = format!("it answered with more than {max_bytes} bytes");
                return Err((OutboundCause::BodyTooLarge, detail));
            }
            reply.extend_from_slice(data);
        } else if let Some(trailers) = frame.trailers_ref() {
            ending = status_of(trailers).or(ending);
        }
    }
    let missing = || (OutboundCause::BadResponse, "it answered without a status of gRPC".to_owned());
    let (status, message) = ending.ok_or_else(missing)?;
    Ok(GrpcAnswer { status, message, reply })
}

fn status_of(fields: &HeaderMap) -> Option<(u32, String)> {
    let status = fields.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message =
        fields.get("grpc-message").map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
    Some((status, message.unwrap_or_default()))
}

fn broken(error: &hyper::Error) -> OpenFailure {
    (OutboundCause::Broken, format!("the connection broke: {error}"))
}

/// Runs the parts of a connection on its thread.
#[derive(Clone, Copy)]
struct Spawner;

impl<F: Future<Output = ()> + 'static> Executor<F> for Spawner {
    fn execute(&self, future: F) {
        env::spawn(future);
    }
}

#[cfg(test)]
mod tests;
