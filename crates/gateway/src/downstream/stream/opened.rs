//! A connection before its session has a route.

use std::rc::Rc;

use exchange::exchange::TlsContext;
use exchange::plugin::stream::{StreamSession, StreamTransport};
use net::transport::Transport;

use crate::downstream::arrival::ConnectionIdentity;
use crate::downstream::connection_guard::{AddressPlace, ConnectionGuard};
use crate::downstream::h1::timer::ConnectionTimer;

/// A connection that has passed the layers below its session: the PROXY protocol, and TLS where that ends
/// here.
pub(crate) struct OpenedConnection {
    pub(super) stream: Transport,
    pub(super) identity: ConnectionIdentity,
    pub(super) place: AddressPlace,
    pub(super) timer: ConnectionTimer,
    pub(super) tls: Option<Rc<TlsContext>>,
}

impl OpenedConnection {
    /// See the type.
    pub(crate) fn new(
        stream: Transport,
        identity: ConnectionIdentity,
        counted: ConnectionGuard,
        timer: ConnectionTimer,
        tls: Option<Rc<TlsContext>>,
    ) -> OpenedConnection {
        let place = AddressPlace::new(counted, identity.peer.ip());
        OpenedConnection { stream, identity, place, timer, tls }
    }

    /// The session as its route and plugins see it.
    pub(super) fn session(&self) -> StreamSession {
        let local = &self.timer.context.local;
        let listener = self.identity.listener.listener.address();
        let interception = self.identity.listener.listener.wanted().protocols.interception;
        let address = interception.destination(&self.stream, listener);
        let (client, proxy) = (self.identity.peer, self.identity.proxy.clone());
        let peer = proxy.as_ref().map_or(client, |proxy| proxy.sender);
        let mut session = StreamSession::new((peer.ip(), peer.port()).into(), address, local.recent_ns());
        (session.client_address, session.client_port) = (client.ip(), client.port());
        session.proxy = proxy;
        if let Some(tls) = &self.tls {
            session.transport = StreamTransport::Tls;
            session.sni = tls.facts.server_name.clone();
            session.alpn = tls.facts.alpn.iter().cloned().collect();
            session.tls = Some(tls.clone());
        }
        session
    }
}
