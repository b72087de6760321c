//! Stream routes: what they match, their chains of layer 4, the slots of their upstreams, and the table that
//! finds them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::merge::{Provenance, route_plugins};
use model::resource::{Resource, Service, SniffedProtocol, StreamRoute as Written, UpstreamScheme};
use model::snapshot::{Snapshot, SnapshotObject};
use model::{Id, ObjectKey, ObjectKind};

use super::SnapshotCompiler;
use super::consumer::in_force_or_closed;
use super::upstream::saturating_ms;
use crate::runtime::StreamRoute;
use crate::runtime::stream_route::{
    DatagramOptions, NamePattern, ProxyHeader, SessionKind, SpokenProtocol, StreamMatch, StreamTarget,
};
use crate::runtime::stream_table::StreamTable;
use exchange::failure::{Cause, Unavailable};
use exchange::plugin::stream::chain::StreamChain;
use exchange::plugin::stream::protocol::ProtocolSettings;
use net::proxy_protocol::ProxyHeaderVersion;
use net::sniff::FirstProtocol;
use router::vars::Expression;

impl SnapshotCompiler {
    /// Compiles the stream routes under `keys` as they are now, or takes them out.
    pub(super) fn compile_stream_routes(&mut self, snapshot: &Snapshot, keys: &BTreeSet<ObjectKey>) {
        if keys.is_empty() {
            return;
        }
        for key in keys {
            self.compile_stream_route(snapshot, key);
        }
        // A subordinate route is reached through its superior only.
        let is_placed = |key: &Arc<str>| {
            let object = ObjectKey::new(ObjectKind::StreamRoute, key).ok().and_then(|key| snapshot.get(&key));
            let Some(Resource::StreamRoute(written)) = object.map(|object| &object.resource) else {
                return true;
            };
            written.protocol.as_ref().is_none_or(|protocol| protocol.superior_id.is_none())
        };
        let placed = self.current.stream_routes.iter().filter(|(id, _)| is_placed(id));
        let routes = placed.map(|(_, route)| route.clone());
        self.current.stream_table = Arc::new(StreamTable::new(routes));
    }

    /// A route that cannot be compiled keeps its place and serves nothing, because another one could match in
    /// its place, without its protection.
    fn compile_stream_route(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        self.current.stream_routes.remove(&key.id);
        let (object, closed) = match (snapshot.get(key), snapshot.closed(key)) {
            (Some(object), _) => (object, None),
            (None, Some((object, refusal))) => (object, Some(refusal.to_string())),
            (None, None) => return,
        };
        let Resource::StreamRoute(written) = &object.resource else { return };
        let route = self.build_stream_route(snapshot, object, written, closed);
        self.current.stream_routes.insert(key.id.clone(), Arc::new(route));
    }

    fn build_stream_route(
        &mut self,
        snapshot: &Snapshot,
        object: &SnapshotObject,
        written: &Written,
        closed: Option<String>,
    ) -> StreamRoute {
        let service_key = written.service_id.as_ref().map(|id| ObjectKey::of(ObjectKind::Service, id));
        let found = service_key.as_ref().and_then(|key| in_force_or_closed(snapshot, key));
        let service = found.and_then(|object| match &object.resource {
            Resource::Service(service) => Some(&**service),
            _ => None,
        });
        let mut missing = closed
            .map(|reason| Unavailable::new(Cause::FaultyConfiguration, format!("it is faulty: {reason}")));
        if let Some(key) = &service_key
            && !snapshot.contains(key)
        {
            let detail = format!("service {} does not exist or is faulty", key.own_id());
            missing = Some(Unavailable::new(Cause::MissingService, detail));
        }
        let plugins = self.stream_chain(snapshot, object.key(), written, service_key.as_ref(), service);
        let compiled =
            plugins.and_then(|plugins| Ok((plugins, self.spoken(snapshot, object.key(), written)?)));
        let (plugins, spoken) = compiled.unwrap_or_else(|reason| {
            self.fault(object.key(), reason.clone());
            missing = Some(Unavailable::new(Cause::FaultyConfiguration, reason));
            (StreamChain::default(), None)
        });
        StreamRoute {
            id: object.key().id.clone(),
            name: written.name.as_deref().map(Arc::from),
            service_id: service_key.as_ref().map(|key| key.id.clone()),
            matching: StreamMatch {
                kind: session_kind(snapshot, written, service),
                client: written.remote_addr,
                server: written.server_addr,
                port: written.server_port,
                name: written.sni.as_deref().map(NamePattern::new),
                alpn: written.alpn.clone(),
                sniff: written.sniff.map(sniffed),
            },
            plugins,
            target: self.stream_target(object.key(), written, service_key.as_ref(), service),
            spoken,
            sends_proxy: match &written.proxy_protocol {
                Some(header) => {
                    ProxyHeaderVersion::new(header.version).map_or(ProxyHeader::None, ProxyHeader::Version)
                }
                None => ProxyHeader::OfListener,
            },
            idle_timeout_ms: saturating_ms(written.idle_timeout),
            session_timeout_ms: saturating_ms(written.session_timeout),
            datagrams: written.udp.map_or(DatagramOptions::default(), |udp| DatagramOptions {
                responses: udp.responses,
                requests: udp.requests.unwrap_or(0),
                keeps_source_port: udp.keep_source_port,
            }),
            missing,
        }
    }

    fn stream_chain(
        &mut self,
        snapshot: &Snapshot,
        key: &ObjectKey,
        written: &Written,
        service_key: Option<&ObjectKey>,
        service: Option<&Service>,
    ) -> Result<StreamChain, String> {
        let mut instances = Vec::new();
        for effective in route_plugins(&written.plugins, None, service.map(|service| &service.plugins)) {
            let owner = if effective.provenance == Provenance::Service { service_key } else { None };
            let owner = owner.unwrap_or(key);
            instances.extend(self.stream_instance(snapshot, owner, effective.name, effective.config)?);
        }
        Ok(StreamChain::new(instances))
    }

    /// The protocol that the route names, with its loggers; the routes of HTTP serve `http`.
    fn spoken(
        &mut self,
        snapshot: &Snapshot,
        key: &ObjectKey,
        written: &Written,
    ) -> Result<Option<SpokenProtocol>, String> {
        let Some(named) = written.protocol.as_deref().filter(|named| &*named.name != "http") else {
            return Ok(None);
        };
        let kind = self.protocols.iter().copied().find(|kind| kind.name == &*named.name);
        let kind = kind.ok_or_else(|| format!("unknown protocol [{}]", named.name))?;
        let has_metrics = named.metric.as_ref().is_some_and(|metric| metric.enable);
        let settings = ProtocolSettings { conf: named.conf.as_ref(), has_metrics };
        let protocol = self.stream_protocol(snapshot, key, kind, &settings)?;
        let mut loggers = Vec::new();
        for (index, logger) in named.logger.iter().enumerate() {
            let fault = |reason: String| format!("protocol.logger[{index}]: {reason}");
            let filter = logger.filter.as_ref().map(Expression::compile).transpose();
            let filter = filter.map_err(|error| fault(format!("filter: {error}")))?;
            let built = self.stream_instance(snapshot, key, &logger.name, &logger.conf).map_err(&fault)?;
            loggers.extend(built.map(|mut built| {
                built.filter = filter.or(built.filter.take());
                built
            }));
        }
        Ok(Some(SpokenProtocol { protocol, loggers: StreamChain::new(loggers) }))
    }

    /// The upstream that the route names, else its own, else its service's.
    fn stream_target(
        &self,
        key: &ObjectKey,
        written: &Written,
        service_key: Option<&ObjectKey>,
        service: Option<&Service>,
    ) -> StreamTarget {
        if written.protocol.as_ref().is_some_and(|protocol| &*protocol.name == "http") {
            return StreamTarget::Http;
        }
        let of = |key: &ObjectKey| self.current.upstream_slots.get(&*key.path()).copied();
        let slot = match (&written.upstream_id, &written.upstream, service) {
            (Some(id), _, _) => of(&ObjectKey::of(ObjectKind::Upstream, id)),
            (None, Some(_), _) => of(key),
            (None, None, Some(Service { upstream_id: Some(id), .. })) => {
                of(&ObjectKey::of(ObjectKind::Upstream, id))
            }
            (None, None, Some(Service { upstream: Some(_), .. })) => service_key.and_then(of),
            _ => None,
        };
        slot.map_or(StreamTarget::None, StreamTarget::Upstream)
    }
}

/// The sessions that a route is for: its protocol is spoken over connections, and the scheme of its upstream
/// is one of connections or of datagrams. The default scheme, and those of HTTP, say nothing.
fn session_kind(snapshot: &Snapshot, written: &Written, service: Option<&Service>) -> Option<SessionKind> {
    if written.protocol.is_some() {
        return Some(SessionKind::Connection);
    }
    match upstream_scheme(snapshot, written, service)? {
        UpstreamScheme::Udp => Some(SessionKind::Datagram),
        UpstreamScheme::Tcp | UpstreamScheme::Tls => Some(SessionKind::Connection),
        _ => None,
    }
}

/// The scheme of the upstream that the route names, else its own, else its service's.
fn upstream_scheme(
    snapshot: &Snapshot,
    written: &Written,
    service: Option<&Service>,
) -> Option<UpstreamScheme> {
    let of = |id: &Id| match &in_force_or_closed(snapshot, &ObjectKey::of(ObjectKind::Upstream, id))?.resource
    {
        Resource::Upstream(upstream) => Some(upstream.scheme),
        _ => None,
    };
    match (&written.upstream_id, &written.upstream, service) {
        (Some(id), _, _) => of(id),
        (None, Some(upstream), _) => Some(upstream.scheme),
        (None, None, Some(Service { upstream_id: Some(id), .. })) => of(id),
        (None, None, Some(Service { upstream, .. })) => upstream.as_ref().map(|upstream| upstream.scheme),
        (None, None, None) => None,
    }
}

fn sniffed(written: SniffedProtocol) -> FirstProtocol {
    match written {
        SniffedProtocol::Http1 => FirstProtocol::Http1,
        SniffedProtocol::Http2 => FirstProtocol::Http2,
        SniffedProtocol::Tls => FirstProtocol::Tls,
        SniffedProtocol::Ssh => FirstProtocol::Ssh,
        SniffedProtocol::Mqtt => FirstProtocol::Mqtt,
    }
}
