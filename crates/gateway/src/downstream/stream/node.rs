//! The node of a session: chosen, connected within the connect timeout, and another one tried where that
//! failed, for no byte of the client has been sent by then. A PROXY protocol header goes first where the
//! route asks for one.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use smallvec::SmallVec;

use super::opened::OpenedConnection;
use super::original;
use super::record::SessionRecord;
use crate::context::WorkerContext;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::runtime::stream_route::StreamRoute;
use crate::upstream::authority::strip_port;
use crate::upstream::connect_failure::connect_timeout_failure;
use crate::upstream::counted::CountedTransport;
use crate::upstream::protection::hold::UpstreamPlace;
use crate::upstream::session_node::SessionNode;
use crate::upstream::wanted::WantedNode;
use crate::upstream::{PassHost, Upstream};
use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::plugin::stream::{StreamSession, StreamTransport};
use net::proxy_protocol::{Addresses, ProxyHeaderVersion, Said, SaidTls, encode_proxy_header};
use net::tls::facts::ClientVerdict;
use stdx::buffer::Buffer;

/// A node that is connected.
pub(super) struct ConnectedNode {
    pub(super) stream: CountedTransport,
    pub(super) held: HeldSessionNode,
    /// Bytes of the client that were taken from its connection.
    pub(super) first_bytes: Buffer,
    pub(super) idle_timeout_ms: u64,
    pub(super) session_timeout_ms: u64,
}

/// The session's places at its node and its upstream, given back when it ends.
pub(in crate::downstream) struct HeldSessionNode {
    upstream: Arc<Upstream>,
    node: Option<SessionNode>,
    context: Rc<WorkerContext>,
    _place: Option<UpstreamPlace>,
    /// When the node was chosen.
    started_ns: u64,
    /// Microseconds until it was connected or has answered; 0 before, and where it has failed.
    head_us: u64,
    failed: Option<Cause>,
}

impl HeldSessionNode {
    /// A node that was chosen for a session, and the time from now on.
    pub(in crate::downstream) fn new(
        context: &Rc<WorkerContext>,
        upstream: &Arc<Upstream>,
        node: SessionNode,
    ) -> HeldSessionNode {
        HeldSessionNode {
            upstream: upstream.clone(),
            node: Some(node),
            context: context.clone(),
            _place: None,
            started_ns: context.local.clock_ns(),
            head_us: 0,
            failed: None,
        }
    }

    /// Counts that the node has answered, or why it has not: for ejection, the breaker and passive health
    /// checks.
    pub(in crate::downstream) fn note_answer(&mut self, failed: Option<Cause>) {
        let elapsed_us = self.context.local.clock_ns().saturating_sub(self.started_ns) / 1_000;
        self.failed = failed;
        self.head_us = if failed.is_none() { elapsed_us.max(1) } else { 0 };
        if let Some(node) = &mut self.node {
            let attempt = attempt(&self.upstream, node, (self.started_ns, self.head_us, elapsed_us), failed);
            self.context.upstreams.note_connect(&self.upstream, node, &attempt);
        }
    }

    /// The session at the node has ended in order or not; the node was connected.
    pub(in crate::downstream) fn end(mut self, context: &WorkerContext) {
        let total_us = context.local.recent_ns().saturating_sub(self.started_ns) / 1_000;
        if let Some(node) = self.node.take() {
            let attempt =
                attempt(&self.upstream, &node, (self.started_ns, self.head_us, total_us), self.failed);
            context.upstreams.session_ended(&self.upstream, node, &attempt);
        }
    }
}

/// The record of an attempt at the node, with its start in nanoseconds, and the microseconds to its answer
/// and its end. The session does not keep it, because it is needed for two moments only.
fn attempt(
    upstream: &Upstream,
    node: &SessionNode,
    times: (u64, u64, u64),
    failed: Option<Cause>,
) -> Attempt {
    let (started_ns, head_us, total_us) = times;
    let mut attempt = upstream.attempt(node.address(), node.endpoint_id(), started_ns);
    (attempt.head_us, attempt.total_us, attempt.failed) = (head_us, total_us, failed);
    attempt
}

impl Drop for HeldSessionNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.context.upstreams.session_given_up(&self.upstream, node);
        }
    }
}

/// Connects the session to a node of `upstream`.
///
/// # Errors
/// No node could be reached: the failure of the last one.
pub(super) async fn connect_session_node(
    opened: &mut OpenedConnection,
    record: &mut SessionRecord,
    route: &StreamRoute,
    upstream: Arc<Upstream>,
    taken: Buffer,
) -> Result<ConnectedNode, ExchangeFailure> {
    let context = opened.timer.context.clone();
    let session = &mut record.session;
    session.upstream = Some(upstream.identity.clone());
    let wanted = WantedNode::of_session(&upstream, session);
    let mut place = None;
    let mut tried: SmallVec<[u64; 4]> = SmallVec::new();
    let mut last = None;
    let began_ms = context.local.now_ms();
    let header = route
        .sends_proxy
        .version(opened.identity.listener.listener.wanted().protocols.proxy_protocol_to_nodes);
    let retries = retries_of(&context, &upstream);
    loop {
        let node = match SessionNode::original(&upstream, session.local) {
            Some(node) => Ok(node),
            None => context.upstreams.choose_for_session(&upstream, &wanted, &tried, &mut place),
        };
        let node = node.map_err(|none| last.take().unwrap_or(none))?;
        tried.push(node.endpoint_id());
        session.attempts += 1;
        session.node = Some(node.address());
        let mut held = HeldSessionNode::new(&context, &upstream, node);
        match try_node(&opened.timer, session, &upstream, &mut held, header).await {
            Ok(stream) => {
                if upstream.original.is_some() {
                    note_opened(&context, session, &stream)?;
                }
                session.connect_us = held.head_us;
                held._place = place.take();
                return Ok(ConnectedNode {
                    stream,
                    held,
                    first_bytes: taken,
                    idle_timeout_ms: route.idle_timeout_ms,
                    session_timeout_ms: route.session_timeout_ms,
                });
            }
            Err(failure) => {
                held.end(&context);
                let may_retry = failure.cause.blame() == Blame::Upstream
                    && tried.len() <= retries as usize
                    && (upstream.retry_timeout_ms == 0
                        || context.local.now_ms().saturating_sub(began_ms) < upstream.retry_timeout_ms);
                let route = session.route_id.as_ref();
                context.upstream_warnings.note(route, &upstream, &failure, context.local.now_ms());
                if !may_retry {
                    return Err(failure);
                }
                last = Some(failure);
            }
        }
    }
}

/// Looks whether the connection to the destination of the client has come back to this process.
fn note_opened(
    context: &WorkerContext,
    session: &mut StreamSession,
    stream: &CountedTransport,
) -> Result<(), ExchangeFailure> {
    let own = stream.local_address();
    let own = own.map_err(|error| ExchangeFailure::new(Cause::ConnectFailed, error.to_string()))?;
    original::opened(context, session, own)
}

/// How many nodes more than one may be tried: as many as there are, if the upstream does not say it.
pub(in crate::downstream) fn retries_of(context: &WorkerContext, upstream: &Upstream) -> u32 {
    upstream.retries.unwrap_or_else(|| {
        u32::try_from(context.upstreams.node_count(upstream)).unwrap_or(u32::MAX).saturating_sub(1)
    })
}

/// Opens the connection to the node, and counts the result.
async fn try_node(
    timer: &ConnectionTimer,
    session: &StreamSession,
    upstream: &Upstream,
    held: &mut HeldSessionNode,
    sends_proxy: Option<ProxyHeaderVersion>,
) -> Result<CountedTransport, ExchangeFailure> {
    let context = &timer.context;
    let Some(node) = &held.node else { return Err(ExchangeFailure::new(Cause::NoNode, "there is none")) };
    let in_handshake = Cell::new(false);
    let name = node.endpoint.tls.as_ref().map(|_| server_name(session, upstream, &node.host));
    let opening = async {
        let source = upstream.transparent_source.then_some(session.client_address);
        let opening = context.upstreams.open_for_session(node, source, name.as_deref(), &in_handshake);
        let mut stream = opening.await?;
        if let Some(version) = sends_proxy {
            send_header(&mut stream, version, session).await?;
        }
        Ok(stream)
    };
    let opened = within(timer, upstream.timeouts.connect_ms, opening).await;
    let opened = opened.unwrap_or_else(|| Err(connect_timeout_failure(in_handshake.get())));
    let address = node.address();
    // The time to connect is what is known of the node's speed.
    held.note_answer(opened.as_ref().err().map(|failure| failure.cause));
    opened.map_err(|failure| failure.at(address))
}

/// Runs `step` for `timeout_ms` at most; none if it took longer. Nothing is read of the client meanwhile, so
/// that it is not seen whether it has gone.
async fn within<T>(timer: &ConnectionTimer, timeout_ms: u64, step: impl Future<Output = T>) -> Option<T> {
    let mut step = pin!(step);
    let mut is_armed = false;
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = step.as_mut().poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        if is_armed && timer.deadline.expired() {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut is_armed, true) {
            timer.deadline.set(cx, timeout_ms.max(1));
        }
        Poll::Pending
    })
    .await
}

/// The server name for TLS to the node: the client's, where it has asked for one and the upstream passes it
/// on.
fn server_name(session: &StreamSession, upstream: &Upstream, node_host: &str) -> String {
    let name_of = |host: &str| String::from_utf8_lossy(strip_port(host.as_bytes())).into_owned();
    match (&upstream.pass_host, &session.sni) {
        (PassHost::Rewrite(host), _) => name_of(host),
        (PassHost::Pass, Some(name)) => name.to_string(),
        (PassHost::Pass | PassHost::Node, _) => name_of(node_host),
    }
}

/// The PROXY protocol header for a node of the session.
pub(in crate::downstream) fn proxy_header(version: ProxyHeaderVersion, session: &StreamSession) -> Vec<u8> {
    let tls = session.tls.as_ref().map(|tls| SaidTls {
        version: tls.facts.version,
        cipher: tls.facts.cipher,
        verified: match &tls.facts.client {
            ClientVerdict::None => None,
            verdict => Some(*verdict == ClientVerdict::Verified),
        },
    });
    let said = Said {
        is_datagrams: session.transport == StreamTransport::Udp,
        server_name: session.sni.as_deref(),
        alpn: session.alpn.first().map(|name| &**name),
        tls,
    };
    let source = (session.client_address, session.client_port).into();
    encode_proxy_header(version, Addresses { source, destination: session.local }, &said)
}

/// Sends the PROXY protocol header.
async fn send_header(
    stream: &mut CountedTransport,
    version: ProxyHeaderVersion,
    session: &StreamSession,
) -> Result<(), ExchangeFailure> {
    let header = proxy_header(version, session);
    let mut rest = &header[..];
    while !rest.is_empty() {
        let written = poll_fn(|cx| stream.poll_write(cx, rest)).await;
        let count = written.map_err(|error| ExchangeFailure::new(Cause::SendFailed, error.to_string()))?;
        rest = &rest[count..];
    }
    Ok(())
}
