//! A session that has its node: bytes pass both ways until both sides have closed, one has failed, or the
//! session has had its time. It holds little, because sessions wait for most of their lives.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::node::{ConnectedNode, HeldSessionNode};
use super::opened::OpenedConnection;
use super::record::SessionRecord;
use super::spoken::{Spoken, SpokenEnd};
use crate::downstream::connection_guard::AddressPlace;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::listener_state::OpenListener;
use crate::tunnel::{Duplex, SocketEnd, Tunnel, TunnelStop, TunnelSummary};
use crate::upstream::counted::CountedTransport;
use exchange::plugin::stream::SessionEnd;
use net::transport::Transport;
use stdx::buffer::Buffer;

type ClientEnd = SocketEnd<Transport>;
type NodeEnd = SocketEnd<CountedTransport>;
type SpokenTunnel = Tunnel<SpokenEnd<ClientEnd>, SpokenEnd<NodeEnd>>;

/// See the module.
pub(super) struct PassingSession {
    passage: Passage,
    /// The place at the node, until the end.
    held: Option<HeldSessionNode>,
    record: Box<SessionRecord>,
    _place: AddressPlace,
    _listener: Rc<OpenListener>,
    timer: ConnectionTimer,
}

/// The tunnel of a session.
#[allow(
    clippy::large_enum_variant,
    reason = "the larger variant is that of most sessions; it is small in the simulation"
)]
enum Passage {
    Plain(Tunnel<ClientEnd, NodeEnd>),
    /// With a protocol that is spoken inside. Boxed, because other sessions are smaller without it.
    Spoken(Box<(SpokenTunnel, Spoken)>),
    Over,
}

impl PassingSession {
    /// The session of a connection at its node.
    pub(super) fn new(
        opened: OpenedConnection,
        node: ConnectedNode,
        record: Box<SessionRecord>,
    ) -> PassingSession {
        let ConnectedNode { stream, held, first_bytes, idle_timeout_ms, session_timeout_ms } = node;
        let OpenedConnection { stream: client, timer, place, identity, .. } = opened;
        if session_timeout_ms > 0 {
            timer.deadline.set_cap(timer.context.local.now_ms().saturating_add(session_timeout_ms));
        }
        let client = Duplex { stream: client, buffer: first_bytes }.into_end();
        let endpoint = Duplex { stream, buffer: Buffer::none() }.into_end();
        let spoken = record.route.as_ref().and_then(|route| Spoken::begin(route, &record.session));
        let passage = match spoken {
            None => Passage::Plain(Tunnel::new(client, endpoint, idle_timeout_ms)),
            Some(spoken) => {
                let (client, endpoint) = (spoken.client(client), spoken.node(endpoint));
                Passage::Spoken(Box::new((Tunnel::new(client, endpoint, idle_timeout_ms), spoken)))
            }
        };
        PassingSession {
            passage,
            held: Some(held),
            record,
            _place: place,
            _listener: identity.listener,
            timer,
        }
    }

    /// Passes bytes until the session has ended.
    #[inline]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let passed = match &mut self.passage {
            Passage::Plain(tunnel) => ready!(tunnel.poll(cx, &self.timer.deadline)),
            Passage::Spoken(spoken) => ready!(spoken.0.poll(cx, &self.timer.deadline)),
            Passage::Over => return Poll::Ready(()),
        };
        self.end(passed);
        Poll::Ready(())
    }

    fn end(&mut self, passed: TunnelSummary) {
        let session = &mut self.record.session;
        (session.received_bytes, session.sent_bytes) = (passed.up_bytes, passed.down_bytes);
        // Both sockets are closed here.
        let fault = match std::mem::replace(&mut self.passage, Passage::Over) {
            Passage::Spoken(spoken) => spoken.1.end(),
            Passage::Plain(_) | Passage::Over => None,
        };
        if let Some(held) = self.held.take() {
            held.end(&self.timer.context);
        }
        let mut end = match passed.end {
            TunnelStop::Closed => SessionEnd::Closed,
            TunnelStop::Client => SessionEnd::ClientReset,
            TunnelStop::Endpoint => SessionEnd::NodeReset,
            TunnelStop::Idle => SessionEnd::IdleTimeout,
            TunnelStop::Late => SessionEnd::SessionTimeout,
        };
        if let Some(fault) = fault {
            tracing::debug!(client = %session.client_address, reason = %fault, "a session was ended: its bytes break the rules of the protocol");
            session.reason = Some(fault);
            end = SessionEnd::ProtocolFault;
        }
        self.record.end_with(end);
    }
}
