//! Opening connections to endpoints, and the pools that they go to: a connection of its own for a request of
//! HTTP/1, a shared one for HTTP/2. It selects no endpoint and counts no attempt.

mod capacity;
mod websocket;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::connect_failure::{connect_cause, connect_timeout_failure, tls_failure};
use super::counted::CountedTransport;
use super::h1::{UpstreamConnection, UpstreamH1Stream};
use super::h2::driver;
use super::h2::link::H2Link;
use super::h2::pending::PendingConnect;
use super::h2::pool::{Join, SharedPools, TunnelLend};
use super::opening::{WantedConnection, WantedStream};
use super::pool::Pools;
use super::stream::PooledStream;
use crate::evict::{Evictor, lacks_descriptors};
use exchange::WorkerLocal;
use exchange::deadline::Deadline;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::observe::upstream_tls::{HandshakeOutcome, UpstreamTlsCounts};
use exchange::overload::wait_queue::WaitQueue;
use net::endpoint::{Endpoint, EndpointProtocol};
use net::env;
use net::tls::{self, client::ClientTls};
use net::transport::Transport;

/// How often a connection is tried again because an idle one gave way for it.
const OPENS_AGAIN: usize = 8;

/// A wait for an endpoint that allows no streams ends before the timeout of its caller by this part of it, so
/// that the failure says why.
const PART_OF_WAIT: u64 = 10;

/// The connections of one worker.
pub(crate) struct UpstreamConnector {
    local: Rc<WorkerLocal>,
    evictor: Rc<Evictor>,
    handshakes: Arc<UpstreamTlsCounts>,
    pub(crate) pools: RefCell<Pools>,
    pub(crate) shared: RefCell<SharedPools>,
    /// The worker drains: idle connections are closed. Requests of clients that are still connected may open
    /// others.
    is_draining: Cell<bool>,
}

impl UpstreamConnector {
    pub(crate) fn new(
        local: Rc<WorkerLocal>,
        evictor: Rc<Evictor>,
        handshakes: Arc<UpstreamTlsCounts>,
    ) -> Rc<UpstreamConnector> {
        Rc::new(UpstreamConnector {
            local,
            evictor,
            handshakes,
            pools: RefCell::default(),
            shared: RefCell::default(),
            is_draining: Cell::new(false),
        })
    }

    /// A stream to the endpoint, if it can be had without opening a connection.
    #[inline]
    pub(crate) fn lend(&self, wanted: WantedStream<'_>) -> Option<PooledStream> {
        let WantedStream { endpoint, server_name, is_upgrade, is_repeated, has_waited, .. } = wanted;
        if endpoint.protocol.is_http2() && is_upgrade {
            match self.shared.borrow_mut().lend_tunnel(wanted, self.local.now_ms()) {
                TunnelLend::Stream(stream) => return Some(PooledStream::Http2(PooledBox::new(stream))),
                TunnelLend::Refused if !wanted.needs_http2 => {}
                _ => return None,
            }
        } else if endpoint.protocol.is_http2() {
            let stream = self.shared.borrow_mut().lend(endpoint.id, server_name, is_repeated);
            if let Some(stream) = stream {
                return Some(PooledStream::Http2(PooledBox::new(stream)));
            }
            if endpoint.protocol == EndpointProtocol::Http2 {
                return None;
            }
        }
        // A repeated attempt gets a fresh connection, because the other idle ones may be closed as well.
        if is_repeated && !has_waited {
            return None;
        }
        self.pools.borrow_mut().lend(endpoint.id, server_name, |connection| self.begin(connection))
    }

    /// Opens a connection within `timeout_ms`, or waits for one that another request opens. `in_handshake`
    /// tells how far it came, to a caller that gives up.
    ///
    /// # Errors
    /// Why it could not be opened, and whether that is this machine's fault.
    pub(crate) async fn connect(
        self: &Rc<UpstreamConnector>,
        opening: WantedConnection,
        timeout_ms: u64,
        in_handshake: &Cell<bool>,
    ) -> Result<PooledStream, ExchangeFailure> {
        let endpoint = &opening.endpoint;
        if endpoint.protocol.is_http2() {
            if !opening.is_upgrade {
                return self.connect_shared(&opening, timeout_ms, in_handshake).await;
            }
            if let Some(stream) = self.connect_tunnel(&opening, timeout_ms, in_handshake).await? {
                return Ok(stream);
            }
            if opening.needs_http2 {
                let detail =
                    "the node takes no WebSocket over HTTP/2, and the upstream's scheme has no HTTP/1";
                return Err(ExchangeFailure::new(Cause::NotImplemented, detail));
            }
        }
        let tls = match &endpoint.tls {
            Some(tls) if endpoint.protocol.is_http2() => Some(tls.offering_http1()),
            Some(tls) => Some(ClientTls::clone(tls)),
            None => None,
        };
        let begin_handshake = || in_handshake.set(true);
        let name = opening.server_name.as_deref();
        let transport =
            self.open(endpoint, None, name, tls.as_ref(), opening.queue.as_ref(), &begin_handshake).await?;
        Ok(self.begin(UpstreamConnection::new(transport, opening.endpoint, opening.server_name)))
    }

    async fn connect_shared(
        self: &Rc<UpstreamConnector>,
        opening: &WantedConnection,
        timeout_ms: u64,
        in_handshake: &Cell<bool>,
    ) -> Result<PooledStream, ExchangeFailure> {
        let mut wanted = opening.wanted();
        let (endpoint_id, server_name) = (wanted.endpoint.id, wanted.server_name);
        loop {
            if let Some(stream) = self.lend(wanted) {
                return Ok(stream);
            }
            wanted.has_waited = true;
            let closed = self.shared.borrow().without_streams(endpoint_id, server_name);
            if let Some(link) = closed {
                // Another connection would allow none either, and RFC 9113 section 5.1.2 makes it a state of
                // a short time.
                let wait_ms = timeout_ms - timeout_ms / PART_OF_WAIT;
                if !link.wait_for_streams(wait_ms).await {
                    let detail = "it allows no streams (MAX_CONCURRENT_STREAMS is 0)";
                    return Err(ExchangeFailure::new(Cause::ConnectTimeout, detail));
                }
                continue;
            }
            self.join_shared(wanted, timeout_ms).wait(in_handshake).await?;
        }
    }

    /// A connect to the endpoint that is in progress, or one that this begins.
    fn join_shared(
        self: &Rc<UpstreamConnector>,
        wanted: WantedStream<'_>,
        timeout_ms: u64,
    ) -> Rc<PendingConnect> {
        let endpoint_id = wanted.endpoint.id;
        // Without HTTP/2 a connection serves one request at a time.
        let selects_http1 = self.shared.borrow().selects_http1(endpoint_id);
        let most = if selects_http1 { 1 } else { self.local.options.limits.upstream_http2.max_streams };
        match self.shared.borrow_mut().join(endpoint_id, wanted.server_name, most) {
            Join::Wait(pending) => pending,
            Join::Open(pending) => {
                let opening = WantedConnection::from(wanted);
                env::spawn(UpstreamConnector::open_shared(
                    self.clone(),
                    opening,
                    timeout_ms,
                    pending.clone(),
                ));
                pending
            }
        }
    }

    /// Opens a connection that requests share, and serves it until it ends.
    async fn open_shared(
        self: Rc<UpstreamConnector>,
        opening: WantedConnection,
        timeout_ms: u64,
        pending: Rc<PendingConnect>,
    ) {
        let WantedConnection { endpoint, server_name, queue, .. } = opening;
        let settling = Settling { connector: &self, endpoint_id: endpoint.id, pending: &pending };
        let begin_handshake = || pending.begin_handshake();
        let tls = endpoint.tls.as_deref();
        let open = self.open(&endpoint, None, server_name.as_deref(), tls, queue.as_ref(), &begin_handshake);
        let transport = match self.within(timeout_ms, &pending, open).await {
            Ok(transport) => transport,
            Err(failure) => return settling.settle(Err(failure)),
        };
        let has_selected = transport.tls().is_none_or(|tls| tls.alpn() == Some(b"h2"));
        if !has_selected && endpoint.protocol == EndpointProtocol::Http2OrHttp1 {
            self.shared.borrow_mut().note_http1(endpoint.id);
            // Also while the worker drains, because the request that it was opened for takes it from the
            // pool.
            let connection = UpstreamConnection::new(transport, endpoint.clone(), server_name);
            self.pools.borrow_mut().give(connection, self.local.now_ms());
            return settling.settle(Ok(()));
        }
        if !has_selected {
            let detail = "it did not select HTTP/2 (h2) by ALPN";
            return settling.settle(Err(ExchangeFailure::new(Cause::TlsFailed, detail)));
        }
        let assumed = self.shared.borrow_mut().assumed_streams(endpoint.id);
        let link = H2Link::new(transport, assumed, endpoint.clone(), server_name, self.local.clone());
        self.shared.borrow_mut().add(&endpoint, link.clone());
        settling.settle(Ok(()));
        // A task of its own, so that this one's state does not live as long as the connection.
        env::spawn(driver::drive(link));
    }

    /// Runs `open` for `timeout_ms` at most.
    async fn within(
        &self,
        timeout_ms: u64,
        pending: &PendingConnect,
        open: impl Future<Output = Result<CountedTransport, ExchangeFailure>>,
    ) -> Result<CountedTransport, ExchangeFailure> {
        let deadline = Deadline::new(&self.local);
        let (mut open, mut is_armed) = (pin!(open), false);
        poll_fn(|cx| {
            if let Poll::Ready(opened) = open.as_mut().poll(cx) {
                return Poll::Ready(opened);
            }
            if is_armed && deadline.expired() {
                return Poll::Ready(Err(connect_timeout_failure(pending.is_in_handshake())));
            }
            if !std::mem::replace(&mut is_armed, true) {
                deadline.set(cx, timeout_ms.max(1));
            }
            Poll::Pending
        })
        .await
    }

    /// Opens a socket to the endpoint, from `source` if it is there, and TLS over it with `tls`.
    async fn open(
        &self,
        endpoint: &Arc<Endpoint>,
        source: Option<IpAddr>,
        server_name: Option<&str>,
        tls: Option<&ClientTls>,
        queue: Option<&Arc<WaitQueue>>,
        begin_handshake: &impl Fn(),
    ) -> Result<CountedTransport, ExchangeFailure> {
        let place = self.connection_place(endpoint, queue).await?;
        let opened = self.open_socket(endpoint.address, source).await;
        let stream =
            opened.map_err(|error| ExchangeFailure::new(connect_cause(&error), error.to_string()))?;
        let Some(tls) = tls else { return Ok(CountedTransport::new(Transport::from(stream), place)) };
        begin_handshake();
        let mut counted = CountedHandshake { counts: &self.handshakes, outcome: HandshakeOutcome::GivenUp };
        let name = server_name.unwrap_or_default();
        // Boxed, so that connections without TLS do not pay for its size.
        let handshake = Box::pin(tls::client::run_client_handshake(stream, endpoint.address, name, tls));
        let shaken = handshake.await;
        counted.outcome = match &shaken {
            Ok(stream) if stream.is_resumed() => HandshakeOutcome::Resumed,
            Ok(_) => HandshakeOutcome::Full,
            Err(error) => HandshakeOutcome::Failed(tls::failure::of_handshake(error).0),
        };
        let transport = Transport::from(shaken.map_err(|error| tls_failure(&error))?);
        Ok(CountedTransport::new(transport, place))
    }

    /// Opens a socket to `address`, from `source` if it is there. Where no descriptor is left, idle
    /// connections of clients give way, and if there are none, this worker's idle connections to endpoints.
    async fn open_socket(&self, address: SocketAddr, source: Option<IpAddr>) -> io::Result<env::Stream> {
        for _ in 0..OPENS_AGAIN {
            match connect(address, source).await {
                Ok(stream) => {
                    self.evictor.keep_reserve(stream.descriptor());
                    return Ok(stream);
                }
                Err(error) if lacks_descriptors(&error) && self.free_descriptors().await => {}
                Err(error) => return Err(error),
            }
        }
        connect(address, source).await
    }

    /// Opens a connection to the endpoint that no request shares, for a session of layer 4, from `source` if
    /// it is there.
    ///
    /// # Errors
    /// Why it could not be opened, and whether that is this machine's fault.
    pub(crate) async fn open_for_session(
        &self,
        endpoint: &Arc<Endpoint>,
        source: Option<IpAddr>,
        server_name: Option<&str>,
        in_handshake: &Cell<bool>,
    ) -> Result<CountedTransport, ExchangeFailure> {
        let begin_handshake = || in_handshake.set(true);
        self.open(endpoint, source, server_name, endpoint.tls.as_deref(), None, &begin_handshake).await
    }

    fn begin(&self, connection: UpstreamConnection) -> PooledStream {
        let limits = self.local.options.limits.origin_head;
        PooledStream::Http1(PooledBox::make(|| UpstreamH1Stream::new(connection, limits)))
    }

    /// Keeps a connection of HTTP/1 for the next request, unless the worker drains.
    #[inline]
    pub(crate) fn give(&self, connection: UpstreamConnection) {
        if !self.is_draining.get() {
            self.pools.borrow_mut().give(connection, self.local.now_ms());
        }
    }

    /// Closes connections that have been idle for too long, all idle ones while the worker drains, and
    /// returns how many idle ones are left.
    pub(crate) fn sweep(&self, now_ms: u64) -> usize {
        if self.is_draining.get() {
            self.close_idle();
        }
        let (mut pools, mut shared) = (self.pools.borrow_mut(), self.shared.borrow_mut());
        pools.sweep(now_ms);
        shared.sweep(now_ms);
        pools.len() + shared.idle_count()
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        self.pools.borrow_mut().clear();
        self.shared.borrow_mut().close_idle(0, self.local.now_ms());
    }

    /// Closes every idle connection, and from now on those that become idle. Requests that still come, on
    /// connections of clients that do not know of the drain yet, share the others and open new ones.
    pub(crate) fn drain(&self) {
        self.is_draining.set(true);
        self.close_idle();
    }
}

/// A socket to `address`. Boxed with a source, so that other connections do not pay for its size.
async fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<env::Stream> {
    match source {
        None => env::connect(address).await,
        Some(source) => Box::pin(env::connect_as(source, address)).await,
    }
}

/// A handshake that is counted, also when its caller gives up.
struct CountedHandshake<'s> {
    counts: &'s UpstreamTlsCounts,
    outcome: HandshakeOutcome,
}

impl Drop for CountedHandshake<'_> {
    fn drop(&mut self) {
        self.counts.count(self.outcome);
    }
}

/// A connect that has to be settled, also when its task panics.
struct Settling<'c> {
    connector: &'c UpstreamConnector,
    endpoint_id: u64,
    pending: &'c Rc<PendingConnect>,
}

impl Settling<'_> {
    fn settle(self, outcome: Result<(), ExchangeFailure>) {
        self.connector.shared.borrow_mut().settle(self.endpoint_id, self.pending, outcome);
    }
}

impl Drop for Settling<'_> {
    /// Has no effect on one that is settled.
    fn drop(&mut self) {
        let failure = ExchangeFailure::new(Cause::ConnectFailed, "the connect was given up");
        self.connector.shared.borrow_mut().settle(self.endpoint_id, self.pending, Err(failure));
    }
}
