//! One session: its node with a connected socket, its counts, and how it ends. A node that refuses datagrams
//! (ICMP) before it has answered one is left for another one; one that has answered ends the session, and the
//! next datagram begins another.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::plugin::stream::SessionEnd;
use net::env::udp::{DatagramBatch, DatagramSendFault, NodePoll, NodeSocket, ReceiveCounts, fault_of};
use net::proxy_protocol::ProxyHeaderVersion;

use super::port::{Port, count_of};
use super::table::SessionKey;
use crate::context::WorkerContext;
use crate::downstream::stream::node::{HeldSessionNode, proxy_header, retries_of};
use crate::downstream::stream::open::{fail_session, upstream_of};
use crate::downstream::stream::record::SessionRecord;
use crate::observe::datagram_counts::DropReason;
use crate::runtime::stream_route::{DatagramOptions, StreamRoute};
use crate::upstream::Upstream;
use crate::upstream::connect_failure::connect_cause;
use crate::upstream::protection::hold::UpstreamPlace;
use crate::upstream::wanted::WantedNode;

/// Datagrams of one session that wait for the decision of a plugin, at most; a client sends few before it has
/// an answer.
const WAITING_MAX: usize = 8;
/// Their bytes, at most.
const WAITING_MAX_BYTES: usize = 16 * 1_024;

/// An idle timeout of sessions of a closed listener: they do not keep the process, or the address, for
/// minutes. Datagrams have no end of a session, so that any shorter time cuts off clients that wait:
/// resolvers ask again after 5 s.
const CLOSING_IDLE_MS: u64 = 5_000;

/// The parts of a worker that sessions use.
#[derive(Clone, Copy)]
pub(super) struct Seam<'a> {
    pub(super) context: &'a Rc<WorkerContext>,
    pub(super) nodes: &'a NodePoll,
}

impl Seam<'_> {
    fn dropped(self, reason: DropReason, count: u64) {
        self.context.status.datagrams.dropped(reason, count);
    }
}

/// Bytes of a datagram, or of several of the length behind them.
type WaitingDatagram = (Vec<u8>, u16);

/// See the module. What each datagram needs is here, the rest in a box.
pub(super) struct DatagramSession {
    port: Rc<Port>,
    client: SocketAddr,
    /// The address that answers are sent from, where the port has several.
    local: Option<IpAddr>,
    state: DatagramSessionState,
    idle_timeout_ms: u64,
    /// When it ends, whatever passes.
    ends_ms: u64,
    /// Datagrams of the client, and their bytes.
    requests: u64,
    received_bytes: u64,
    /// Datagrams of nodes, and their bytes.
    responses: u64,
    sent_bytes: u64,
    limits: DatagramOptions,
    parts: Box<DatagramSessionParts>,
}

enum DatagramSessionState {
    /// Plugins have not decided; these datagrams wait.
    Deciding(Vec<WaitingDatagram>),
    /// It has no node: none was needed so far, or the last one has refused it.
    WithoutNode,
    /// It has a node. The header of the PROXY protocol goes in front of the next datagram.
    AtNode(NodeSocket, Option<ProxyHeaderVersion>),
}

struct DatagramSessionParts {
    route: Arc<StreamRoute>,
    /// None while the decision of plugins has it.
    record: Option<SessionRecord>,
    upstream: Option<Arc<Upstream>>,
    held: Option<HeldSessionNode>,
    place: Option<UpstreamPlace>,
    /// Nodes that were tried, the one in use included.
    tried: SmallVec<[u64; 2]>,
}

impl DatagramSession {
    pub(super) fn new(
        port: &Rc<Port>,
        key: &SessionKey,
        route: Arc<StreamRoute>,
        record: Option<SessionRecord>,
        now_ms: u64,
    ) -> DatagramSession {
        let or_never = |timeout_ms: u64| if timeout_ms == 0 { u64::MAX } else { timeout_ms };
        DatagramSession {
            port: port.clone(),
            client: key.client,
            local: port.has_addresses().then_some(key.local),
            state: if record.is_some() {
                DatagramSessionState::WithoutNode
            } else {
                DatagramSessionState::Deciding(Vec::new())
            },
            idle_timeout_ms: or_never(route.idle_timeout_ms),
            ends_ms: now_ms.saturating_add(or_never(route.session_timeout_ms)),
            requests: 0,
            received_bytes: 0,
            responses: 0,
            sent_bytes: 0,
            limits: route.datagrams,
            parts: Box::new(DatagramSessionParts {
                route,
                record,
                upstream: None,
                held: None,
                place: None,
                tried: SmallVec::new(),
            }),
        }
    }

    /// The socket that its client sends to.
    pub(super) fn port(&self) -> &Rc<Port> {
        &self.port
    }

    /// Whether a node has answered.
    pub(super) fn has_answers(&self) -> bool {
        self.responses > 0
    }

    /// Whether it has had as many datagrams of its client as its route gives it.
    pub(super) fn is_full(&self) -> bool {
        let most = self.limits.requests;
        most != 0 && self.requests >= most
    }

    /// Whether it has had as many answers as its route expects.
    pub(super) fn is_answered(&self) -> bool {
        self.limits.responses.is_some_and(|each| self.responses >= each.saturating_mul(self.requests))
    }

    /// Why it ends now; none if it goes on.
    pub(super) fn due(&self, used_ms: u64, now_ms: u64) -> Option<SessionEnd> {
        let is_closing = self.port.open.queue().is_some();
        let idle_ms =
            if is_closing { self.idle_timeout_ms.min(CLOSING_IDLE_MS) } else { self.idle_timeout_ms };
        if now_ms >= self.ends_ms {
            return Some(SessionEnd::SessionTimeout);
        }
        (now_ms.saturating_sub(used_ms) >= idle_ms).then_some(SessionEnd::IdleTimeout)
    }

    /// The datagrams that have waited for the decision of plugins.
    pub(super) fn take_waiting(&mut self) -> Vec<WaitingDatagram> {
        match &mut self.state {
            DatagramSessionState::Deciding(waiting) => std::mem::take(waiting),
            _ => Vec::new(),
        }
    }

    /// Plugins let it go on.
    pub(super) fn go_on(&mut self, record: SessionRecord) {
        self.state = DatagramSessionState::WithoutNode;
        self.parts.record = Some(record);
    }

    /// Sends a datagram of the client, or several, to the node, which is chosen first if there is none.
    ///
    /// # Errors
    /// Why the session ends.
    pub(super) fn pass_in(
        &mut self,
        seam: Seam<'_>,
        token: u64,
        bytes: &[u8],
        segment_bytes: u16,
    ) -> Result<(), SessionEnd> {
        loop {
            let sent = match &mut self.state {
                DatagramSessionState::Deciding(waiting) => {
                    let held: usize = waiting.iter().map(|(held, _)| held.len()).sum();
                    if waiting.len() >= WAITING_MAX || held + bytes.len() > WAITING_MAX_BYTES {
                        seam.dropped(DropReason::Waiting, count_of(bytes, segment_bytes));
                    } else {
                        waiting.push((bytes.to_vec(), segment_bytes));
                    }
                    return Ok(());
                }
                DatagramSessionState::WithoutNode => {
                    if let Err(end) = self.connect(seam, token) {
                        seam.dropped(DropReason::Refused, count_of(bytes, segment_bytes));
                        return Err(end);
                    }
                    continue;
                }
                DatagramSessionState::AtNode(socket, header) => match header.take() {
                    None => socket.send(bytes, segment_bytes),
                    Some(version) => {
                        let session = self.parts.record.as_ref().map(|record| &record.session);
                        let mut first =
                            session.map(|session| proxy_header(version, session)).unwrap_or_default();
                        let end = if segment_bytes == 0 { bytes.len() } else { usize::from(segment_bytes) };
                        first.extend_from_slice(&bytes[..end]);
                        let rest = if end < bytes.len() {
                            socket.send(&bytes[end..], segment_bytes)
                        } else {
                            Ok(())
                        };
                        socket.send(&first, 0).and(rest)
                    }
                },
            };
            let Err(error) = sent else {
                self.requests += count_of(bytes, segment_bytes);
                self.received_bytes += bytes.len() as u64;
                if self.is_answered() {
                    return Err(SessionEnd::Closed);
                }
                return Ok(());
            };
            let reason = match fault_of(&error) {
                DatagramSendFault::Busy => DropReason::NodeBusy,
                DatagramSendFault::TooLarge => DropReason::TooLarge,
                DatagramSendFault::Peer => {
                    if let Err(end) = self.node_failed(seam.context, &error) {
                        seam.dropped(DropReason::NodeFailed, count_of(bytes, segment_bytes));
                        return Err(end);
                    }
                    continue;
                }
            };
            seam.dropped(reason, count_of(bytes, segment_bytes));
            return Ok(());
        }
    }

    /// Receives answers into free slots of the batch.
    ///
    /// # Errors
    /// The kernel's: nothing has arrived, or the node refuses datagrams.
    pub(super) fn take_answers(
        &mut self,
        batch: &mut DatagramBatch,
        most: usize,
    ) -> io::Result<ReceiveCounts> {
        let DatagramSessionState::AtNode(socket, _) = &self.state else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let answers = socket.receive(batch, most, self.client, self.local)?;
        if self.responses == 0
            && answers.datagrams > 0
            && let Some(held) = &mut self.parts.held
        {
            held.note_answer(None);
        }
        self.responses += answers.datagrams;
        self.sent_bytes += answers.bytes;
        Ok(answers)
    }

    /// The node has refused a datagram, or cannot be reached; the next one goes to another node.
    ///
    /// # Errors
    /// The session ends, because the node has answered before, or no other one may be tried.
    pub(super) fn node_failed(
        &mut self,
        context: &Rc<WorkerContext>,
        error: &io::Error,
    ) -> Result<(), SessionEnd> {
        let DatagramSessionParts { held, upstream, record, tried, .. } = &mut *self.parts;
        let cause = connect_cause(error);
        if let Some(mut held) = held.take() {
            held.note_answer(Some(cause));
            held.end(context);
        }
        self.state = DatagramSessionState::WithoutNode;
        if self.responses > 0 {
            return Err(SessionEnd::NodeReset);
        }
        let (Some(upstream), Some(record)) = (upstream, record) else {
            return Err(SessionEnd::Failed(cause));
        };
        let mut failure = ExchangeFailure::new(cause, format!("it refuses datagrams: {error}"));
        if let Some(node) = record.session.node {
            failure = failure.at(node);
        }
        let route = record.session.route_id.as_ref();
        context.upstream_warnings.note(route, upstream, &failure, context.local.now_ms());
        let may_retry =
            cause.blame() == Blame::Upstream && tried.len() <= retries_of(context, upstream) as usize;
        if may_retry { Ok(()) } else { Err(fail_session(record, failure)) }
    }

    /// Chooses a node and connects a socket to it.
    fn connect(&mut self, seam: Seam<'_>, token: u64) -> Result<(), SessionEnd> {
        let context = seam.context;
        let asks = self.port.open.listener.wanted().protocols.proxy_protocol_to_nodes;
        let DatagramSessionParts { route, record, upstream, held, place, tried } = &mut *self.parts;
        let Some(record) = record else { return Err(SessionEnd::Stopped) };
        let header = route.sends_proxy.version(asks);
        if header == Some(ProxyHeaderVersion::V1) {
            let detail = "version 1 of the PROXY protocol has no form for datagrams";
            return Err(fail_session(record, ExchangeFailure::new(Cause::FaultyConfiguration, detail)));
        }
        if upstream.is_none() {
            let generation = context.generation();
            let found = upstream_of(&generation, route, &record.session);
            *upstream = Some(found.map_err(|failure| fail_session(record, failure))?);
            record.session.first_bytes = Vec::new();
        }
        let Some(upstream) = upstream else { return Err(SessionEnd::Stopped) };
        if upstream.original.is_some() || upstream.transparent_source {
            let detail = "original_dst and transparent_source of an upstream are for connections; datagrams keep neither address";
            return Err(fail_session(record, ExchangeFailure::new(Cause::FaultyConfiguration, detail)));
        }
        let session = &mut record.session;
        session.upstream = Some(upstream.identity.clone());
        let wanted = WantedNode::of_session(upstream, session);
        let node = match context.upstreams.choose_for_session(upstream, &wanted, tried, place) {
            Ok(node) => node,
            Err(none) => return Err(fail_session(record, none)),
        };
        tried.push(node.endpoint_id());
        session.attempts += 1;
        session.node = Some(node.address());
        if node.endpoint.tls.is_some() {
            let detail = "an upstream with TLS cannot be sent datagrams: DTLS is not spoken";
            context.upstreams.session_given_up(upstream, node);
            return Err(fail_session(record, ExchangeFailure::new(Cause::FaultyConfiguration, detail)));
        }
        let address = node.address();
        let source_port = route.datagrams.keeps_source_port.then_some(session.client_port);
        *held = Some(HeldSessionNode::new(context, upstream, node));
        match NodeSocket::connect(address, source_port, seam.nodes, token) {
            Ok(socket) => {
                self.state = DatagramSessionState::AtNode(socket, header);
                Ok(())
            }
            Err(error) => self.node_failed(context, &error),
        }
    }

    /// The session has ended so.
    pub(super) fn finish(mut self, context: &WorkerContext, end: SessionEnd) {
        // Datagrams that wait for the decision of plugins are dropped with it; the decision then ends the
        // record.
        let waiting: u64 = self.take_waiting().iter().map(|(bytes, segment)| count_of(bytes, *segment)).sum();
        if waiting > 0 {
            context.status.datagrams.dropped(DropReason::Waiting, waiting);
        }
        self.note_bytes();
        if let Some(held) = self.parts.held.take() {
            held.end(context);
        }
        if let Some(mut record) = self.parts.record.take() {
            record.end_with(end);
        }
    }

    fn note_bytes(&mut self) {
        if let Some(record) = &mut self.parts.record {
            record.session.received_bytes = self.received_bytes;
            record.session.sent_bytes = self.sent_bytes;
        }
    }
}

impl Drop for DatagramSession {
    /// A worker that ends drops its sessions; their records end then.
    fn drop(&mut self) {
        self.note_bytes();
    }
}
