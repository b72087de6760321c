//! A thread's client: it keeps idle connections by endpoint, opens new ones through the seam, and makes one
//! call from the choice of an address to the last byte of the answer. What a call is about is its caller's
//! business.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use message::FieldId;
use stdx::hash::FastMap;

use super::connection::{ExchangeFault, OutboundConnection};
use super::destination::OutboundDestination;
use super::error::{OutboundCause, OutboundError};
use super::open::{OpenFailure, open, within};
pub use super::request::CopiedLine;
use super::request::{OutboundLimits, OutboundRequest, OutboundResponse};
use net::endpoint::Endpoint;
use net::env;
use net::nodes::NodeSet;

/// Calls under way to one endpoint on one thread. A peer that has a thousand of them to answer will not be
/// helped by more, and each holds a request of a client.
const IN_FLIGHT_MAX: u32 = 1_024;

/// See the module. Plugins reach their thread's through the worker, batches are handed theirs.
#[derive(Default)]
pub struct HttpClient {
    places: RefCell<FastMap<u64, EndpointUsage>>,
    /// Where the next call begins among the addresses of a name.
    next: Cell<usize>,
}

/// Connections and calls of one endpoint.
#[derive(Default)]
struct EndpointUsage {
    idle: Vec<OutboundConnection>,
    in_flight: u32,
}

impl HttpClient {
    /// Makes a call. Dropping the future ends it and closes its connection.
    ///
    /// # Errors
    /// The cause, the place and the side at fault. An answer of any status is no error.
    pub async fn send(
        &self,
        destination: &OutboundDestination,
        request: &OutboundRequest,
        limits: &OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        self.send_to(destination, destination.target(), request, limits).await
    }

    /// As [`HttpClient::send`], with `target` (path and query) in place of that of the destination's URI.
    ///
    /// # Errors
    /// As [`HttpClient::send`]; a target that cannot stand in a request line is one.
    pub async fn send_to(
        &self,
        destination: &OutboundDestination,
        target: &str,
        request: &OutboundRequest,
        limits: &OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        let head = head(destination, target, request)?;
        let nodes = destination.nodes()?;
        let call = self.to_any(&nodes, destination.host(), request, &head, limits);
        let failed = match within(limits.total_timeout_ms, call).await {
            Some(Ok(response)) => return Ok(response),
            Some(Err(failed)) => failed,
            None => {
                let detail = format!("no whole answer within {} ms", limits.total_timeout_ms);
                (OutboundCause::Timeout, detail)
            }
        };
        Err(destination.error(failed.0, failed.1))
    }

    /// Tries the addresses by turns, the next one only where no connection could be opened.
    async fn to_any(
        &self,
        nodes: &NodeSet,
        host: &str,
        request: &OutboundRequest,
        head: &http::Request<()>,
        limits: &OutboundLimits,
    ) -> Result<OutboundResponse, OpenFailure> {
        let first = self.next.get();
        self.next.set(first.wrapping_add(1));
        let mut failed = None;
        for turn in 0..nodes.nodes.len() {
            let node = &nodes.nodes[first.wrapping_add(turn) % nodes.nodes.len()];
            let _under_way = UnderWay::begin(self, node.endpoint.id)?;
            // A kept connection may be closed by the peer while the request is on its way; what can be
            // repeated is.
            while let Some(mut kept) = self.take(node.endpoint.id, host) {
                match self.exchange(&mut kept, request, head, limits).await {
                    Ok(response) => {
                        self.give(kept);
                        return Ok(response);
                    }
                    Err((OutboundCause::Broken, _)) if request.method.is_idempotent() => {}
                    Err(failed) => return Err(failed),
                }
            }
            match self.open(&node.endpoint, host, limits.connect_timeout_ms).await {
                Ok(mut fresh) => {
                    let response = self.exchange(&mut fresh, request, head, limits).await?;
                    self.give(fresh);
                    return Ok(response);
                }
                Err(reason) => failed = Some(more_telling(failed, reason)),
            }
        }
        Err(failed.expect("a destination without addresses was refused before"))
    }

    async fn open(
        &self,
        endpoint: &Arc<Endpoint>,
        host: &str,
        timeout_ms: u64,
    ) -> Result<OutboundConnection, OpenFailure> {
        let transport = open(endpoint, host, timeout_ms).await?;
        Ok(OutboundConnection::new(transport, endpoint.clone(), host))
    }

    async fn exchange(
        &self,
        connection: &mut OutboundConnection,
        request: &OutboundRequest,
        head: &http::Request<()>,
        limits: &OutboundLimits,
    ) -> Result<OutboundResponse, OpenFailure> {
        let address = connection.endpoint.address;
        let answer = connection.exchange(head, &request.body, limits.max_body_bytes).await;
        answer.map_err(|fault| match fault {
            ExchangeFault::Broken(error) => {
                (OutboundCause::Broken, format!("{address}: the connection broke: {error}"))
            }
            ExchangeFault::Malformed(reason) => (
                OutboundCause::BadResponse,
                format!("{address} answered with what is no good HTTP: {reason}"),
            ),
            ExchangeFault::TooLarge => {
                let detail = format!("{address} answered with more than {} bytes", limits.max_body_bytes);
                (OutboundCause::BodyTooLarge, detail)
            }
        })
    }

    /// The youngest idle connection that still serves; over TLS, of those that were opened for `host`.
    fn take(&self, endpoint_id: u64, host: &str) -> Option<OutboundConnection> {
        let mut places = self.places.borrow_mut();
        let idle = &mut places.get_mut(&endpoint_id)?.idle;
        let is_for_host = |connection: &OutboundConnection| {
            connection.server_name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(host))
        };
        while let Some(found) = idle.iter().rposition(is_for_host) {
            let mut connection = idle.remove(found);
            if connection.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    fn give(&self, mut connection: OutboundConnection) {
        let keep_alive = connection.endpoint.keep_alive;
        let spent = keep_alive.requests != 0 && connection.served >= keep_alive.requests;
        if spent || !connection.is_idle() {
            return;
        }
        let mut places = self.places.borrow_mut();
        let idle = &mut places.entry(connection.endpoint.id).or_default().idle;
        if idle.len() < keep_alive.size as usize {
            connection.idle_since_ms = now_ms();
            idle.push(connection);
        }
    }

    /// Sends a copy of a client's request: as [`HttpClient::send_to`], with the client's method and Host.
    ///
    /// # Errors
    /// As [`HttpClient::send_to`].
    pub async fn send_copy(
        &self,
        destination: &OutboundDestination,
        copy: &CopiedLine,
        request: &OutboundRequest,
        limits: &OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        let cannot = |what: &dyn std::fmt::Display| {
            destination.error(OutboundCause::BadRequest, format!("the request cannot be written: {what}"))
        };
        let mut head = head(destination, &copy.target, request)?;
        *head.method_mut() = http::Method::from_bytes(&copy.method).map_err(|error| cannot(&error))?;
        let host = HeaderValue::from_bytes(&copy.host).map_err(|error| cannot(&error))?;
        head.headers_mut().insert(header::HOST, host);
        let nodes = destination.nodes()?;
        let call = self.to_any(&nodes, destination.host(), request, &head, limits);
        match within(limits.total_timeout_ms, call).await {
            Some(result) => result.map_err(|failed| destination.error(failed.0, failed.1)),
            None => {
                let detail = format!("no whole answer within {} ms", limits.total_timeout_ms);
                Err(destination.error(OutboundCause::Timeout, detail))
            }
        }
    }

    /// Closes what has been idle for too long or was closed by its peer.
    pub fn sweep(&self) {
        let now_ms = now_ms();
        self.places.borrow_mut().retain(|_, place| {
            place.idle.retain_mut(|connection| {
                let timeout_ms = connection.endpoint.keep_alive.idle_timeout_ms;
                let expired =
                    timeout_ms != 0 && now_ms.saturating_sub(connection.idle_since_ms) >= timeout_ms;
                !expired && connection.is_idle()
            });
            !place.idle.is_empty() || place.in_flight > 0
        });
    }

    /// Closes every idle connection.
    pub fn clear(&self) {
        self.places.borrow_mut().retain(|_, place| {
            place.idle.clear();
            place.in_flight > 0
        });
    }

    #[cfg(test)]
    fn idle(&self) -> usize {
        self.places.borrow().values().map(|place| place.idle.len()).sum()
    }
}

/// Of the failures at two addresses of a name, the one that says more: a refused certificate rather than a
/// refused connection.
pub(super) fn more_telling(before: Option<OpenFailure>, last: OpenFailure) -> OpenFailure {
    match before {
        Some(before) if matches!(before.0, OutboundCause::Certificate | OutboundCause::Tls) => before,
        _ => last,
    }
}

/// A call under way, counted until it ends or is dropped.
struct UnderWay<'c> {
    client: &'c HttpClient,
    endpoint_id: u64,
}

impl<'c> UnderWay<'c> {
    fn begin(client: &'c HttpClient, endpoint_id: u64) -> Result<UnderWay<'c>, OpenFailure> {
        let mut places = client.places.borrow_mut();
        let place = places.entry(endpoint_id).or_default();
        if place.in_flight >= IN_FLIGHT_MAX {
            let detail = format!("{IN_FLIGHT_MAX} calls to it are under way on this worker");
            return Err((OutboundCause::Busy, detail));
        }
        place.in_flight += 1;
        Ok(UnderWay { client, endpoint_id })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.client.places.borrow_mut().get_mut(&self.endpoint_id) {
            place.in_flight -= 1;
        }
    }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

/// The request's head, checked.
fn head(
    destination: &OutboundDestination,
    target: &str,
    request: &OutboundRequest,
) -> Result<http::Request<()>, OutboundError> {
    let cannot = |what: &dyn std::fmt::Display| {
        destination.error(OutboundCause::BadRequest, format!("the request cannot be written: {what}"))
    };
    let mut head = http::Request::builder()
        .method(request.method.as_str())
        .uri(target)
        .body(())
        .map_err(|error| cannot(&error))?;
    let fields = head.headers_mut();
    for field in request.headers.iter().filter(|field| !is_about_the_connection(field.id)) {
        let name = HeaderName::from_bytes(field.name).map_err(|error| cannot(&error))?;
        fields.append(name, HeaderValue::from_bytes(field.value).map_err(|error| cannot(&error))?);
    }
    let host = HeaderValue::from_str(destination.authority()).map_err(|error| cannot(&error))?;
    fields.insert(header::HOST, host);
    fields.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
    Ok(head)
}

const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// Fields that the connection writes itself, or that would change what the connection does.
fn is_about_the_connection(id: FieldId) -> bool {
    id.is_hop_by_hop() || matches!(id, FieldId::Host | FieldId::ContentLength | FieldId::Expect)
}

#[cfg(test)]
mod tests;
