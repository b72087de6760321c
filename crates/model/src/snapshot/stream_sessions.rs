//! Stream routes that share sessions with others: one that another hides, and those that make clients wait
//! for their first bytes. Compares what is written; it finds no route of a session.

use super::Snapshot;
use crate::resource::{Resource, StreamRoute, UpstreamScheme};
use crate::{Id, ObjectKey, ObjectKind, Warning};

/// The stream routes that one is compared with, the first by id, so that a file with thousands is checked in
/// a moment.
const COMPARED_MAX: usize = 1_000;

/// The sessions that a stream route is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sessions {
    Any,
    Connections,
    Datagrams,
}

impl Sessions {
    /// Whether it holds all that `other` holds.
    fn hold(self, other: Sessions) -> bool {
        self == Sessions::Any || self == other
    }

    fn meet(self, other: Sessions) -> bool {
        self.hold(other) || other.hold(self)
    }
}

impl Snapshot {
    /// The warnings of a stream route that follow from the other ones.
    pub(super) fn stream_warnings(&self, key: &ObjectKey, route: &StreamRoute) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let sessions = self.sessions(route);
        if sessions == Sessions::Datagrams && asks_for_tls(route) {
            let reason = "no session gets this route: datagrams have no TLS handshake with a name or ALPN, and the scheme udp \
                          of its upstream is for datagrams";
            warnings.push(Warning { pointer: String::new(), reason: reason.to_owned() });
        }
        if sessions == Sessions::Connections && route.udp.is_some() {
            let reason = "it has no effect, because the sessions of this route are connections: its upstream has the scheme \
                          tcp or tls, or it names a protocol";
            warnings.push(Warning { pointer: "/udp".to_owned(), reason: reason.to_owned() });
        }
        let mut others: Vec<(&ObjectKey, &StreamRoute)> = self
            .iter(ObjectKind::StreamRoute)
            .filter_map(|object| match &object.resource {
                Resource::StreamRoute(other) if object.key() != key => Some((object.key(), &**other)),
                _ => None,
            })
            .collect();
        others.sort_unstable_by_key(|(key, _)| *key);
        for (other_key, other) in others.into_iter().take(COMPARED_MAX) {
            let theirs = self.sessions(other);
            let reason = if other_key.id < key.id && theirs.hold(sessions) && has_same_match(other, route) {
                format!(
                    "no session gets this route: stream route [{}] matches the same ones and has the smaller id",
                    other_key.id
                )
            } else if sessions.meet(theirs)
                && sessions != Sessions::Datagrams
                && theirs != Sessions::Datagrams
                && meet(route, other)
                && let Some(reason) = waiting(route, other, &other_key.id)
            {
                reason
            } else {
                continue;
            };
            warnings.push(Warning { pointer: String::new(), reason });
        }
        warnings.truncate(WARNINGS_MAX);
        warnings
    }

    /// The sessions that a route is for: a protocol is spoken over connections, and schemes of layer 4 say
    /// the rest.
    fn sessions(&self, route: &StreamRoute) -> Sessions {
        if route.protocol.is_some() {
            return Sessions::Connections;
        }
        let of = |id: &Id| match &self.get(&ObjectKey::of(ObjectKind::Upstream, id))?.resource {
            Resource::Upstream(upstream) => Some(upstream.scheme),
            _ => None,
        };
        let service =
            route.service_id.as_ref().and_then(|id| self.get(&ObjectKey::of(ObjectKind::Service, id)));
        let of_service = || match &service?.resource {
            Resource::Service(service) => match (&service.upstream_id, &service.upstream) {
                (Some(id), _) => of(id),
                (None, upstream) => upstream.as_ref().map(|upstream| upstream.scheme),
            },
            _ => None,
        };
        let scheme = match (&route.upstream_id, &route.upstream) {
            (Some(id), _) => of(id),
            (None, Some(upstream)) => Some(upstream.scheme),
            (None, None) => of_service(),
        };
        match scheme {
            Some(UpstreamScheme::Udp) => Sessions::Datagrams,
            Some(UpstreamScheme::Tcp | UpstreamScheme::Tls) => Sessions::Connections,
            _ => Sessions::Any,
        }
    }
}

fn asks_for_tls(route: &StreamRoute) -> bool {
    route.sni.is_some() || !route.alpn.is_empty()
}

/// Whether it matches by addresses alone.
fn is_plain(route: &StreamRoute) -> bool {
    !asks_for_tls(route) && route.sniff.is_none()
}

/// Whether `first` matches every session that `later` matches, and ranks as high.
fn has_same_match(first: &StreamRoute, later: &StreamRoute) -> bool {
    let name = |route: &StreamRoute| route.sni.as_deref().map(str::to_ascii_lowercase);
    let has_alpn = first.alpn.is_empty() == later.alpn.is_empty()
        && later.alpn.iter().all(|protocol| first.alpn.contains(protocol));
    has_alpn
        && name(first) == name(later)
        && first.sniff == later.sniff
        && (first.server_port, first.server_addr, first.remote_addr)
            == (later.server_port, later.server_addr, later.remote_addr)
}

/// Whether a session may match both by its addresses.
fn meet(a: &StreamRoute, b: &StreamRoute) -> bool {
    let overlap = |a: &Option<ipnet::IpNet>, b: &Option<ipnet::IpNet>| match (a, b) {
        (Some(a), Some(b)) => a.contains(b) || b.contains(a),
        _ => true,
    };
    (a.server_port.is_none() || b.server_port.is_none() || a.server_port == b.server_port)
        && overlap(&a.server_addr, &b.server_addr)
        && overlap(&a.remote_addr, &b.remote_addr)
}

/// The consequence for a route of which `other` shares sessions, where one of them asks for first bytes and
/// the other does not.
fn waiting(route: &StreamRoute, other: &StreamRoute, other_id: &str) -> Option<String> {
    let (plain, asking) = match (is_plain(route), is_plain(other)) {
        (true, false) => (route, other),
        (false, true) => (other, route),
        _ => return None,
    };
    let is_route_plain = std::ptr::eq(plain, route);
    if asking.server_port.is_some() || asking.sniff.is_some() && plain.server_port.is_none() {
        let (own, theirs) =
            if is_route_plain { ("this route", "that one") } else { ("that one", "this route") };
        return Some(format!(
            "it shares sessions with stream route [{other_id}]: {theirs} asks for first bytes, so that a client of {own} that \
             waits for the server to speak first waits until the time for a request head is over"
        ));
    }
    // A port that names its own plain route is as it should be.
    (!is_route_plain && plain.server_port.is_none()).then(|| {
        format!(
            "stream route [{other_id}] serves plain TCP at every port, so that this route gets only sessions of which TLS ends at \
             the gateway; for TLS that passes through write server_port or sniff: tls"
        )
    })
}

/// Warnings of one route that follow from others.
const WARNINGS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::catalog::PluginCatalog;
    use crate::{FaultPolicy, SnapshotChange, WrittenObject};

    /// The warnings of route `2` beside route `1`, in one text.
    fn warned(first: Value, second: Value) -> String {
        let change = |kind: ObjectKind, id: &str, value: Value| {
            let key = ObjectKey::new(kind, id).unwrap();
            let text = value.to_string().into();
            let written = WrittenObject { key: key.clone(), text, created_index: 1, modified_index: 1 };
            SnapshotChange { key, written: Some(written) }
        };
        let changes = [
            change(ObjectKind::Upstream, "u", json!({"scheme": "udp", "nodes": {"a:1": 1}})),
            change(ObjectKind::StreamRoute, "1", first),
            change(ObjectKind::StreamRoute, "2", second),
        ];
        let applied = Snapshot::empty().apply(&PluginCatalog::default(), &changes, 1, FaultPolicy::Lenient);
        assert_eq!(applied.faults, []);
        let warnings = applied.snapshot.warnings_at(&ObjectKey::new(ObjectKind::StreamRoute, "2").unwrap());
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn routes_that_share_sessions_are_warned_about() {
        let of = |scheme: &str, more: Value| {
            let mut route = json!({"upstream": {"scheme": scheme, "nodes": {"a:1": 1}}});
            route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            route
        };
        let tcp = |more: Value| of("tcp", more);
        let port = || json!({"server_port": 9890});
        let sni = || json!({"sni": "db.test"});
        for (first, second, expected) in [
            (tcp(port()), tcp(port()), "no session gets this route: stream route [1]"),
            (tcp(port()), of("udp", port()), ""),
            (tcp(port()), json!({"server_port": 9890, "upstream_id": "u"}), ""),
            (of("udp", port()), json!({"server_port": 9890, "upstream_id": "u"}), "no session gets"),
            (of("http", port()), tcp(port()), "no session gets"),
            (tcp(port()), of("http", port()), ""),
            (tcp(sni()), tcp(json!({"sni": "DB.test"})), "no session gets"),
            (tcp(json!({"alpn": ["h2", "a"]})), tcp(json!({"alpn": ["h2"]})), "no session gets"),
            (tcp(json!({"alpn": ["h2"]})), tcp(json!({"alpn": ["h2", "a"]})), ""),
            (tcp(port()), tcp(sni()), ""),
            (tcp(sni()), tcp(port()), ""),
            (tcp(json!({})), tcp(sni()), "only sessions of which TLS ends at the gateway"),
            (tcp(sni()), tcp(json!({})), ""),
            (tcp(json!({})), tcp(json!({"sni": "a", "sniff": "tls"})), "this route asks for first bytes"),
            (tcp(json!({"sniff": "ssh"})), tcp(json!({})), "that one asks for first bytes"),
            (tcp(json!({"sniff": "ssh"})), tcp(port()), ""),
            (tcp(port()), tcp(json!({"sni": "a", "server_port": 9890})), "this route asks"),
            (tcp(json!({"sni": "a", "server_port": 9890})), tcp(port()), "that one asks"),
            (tcp(json!({"sni": "a", "server_port": 9891})), tcp(port()), ""),
            (of("udp", json!({"sniff": "ssh"})), of("udp", json!({})), ""),
            (tcp(port()), of("udp", sni()), "datagrams have no TLS handshake"),
            (tcp(port()), tcp(json!({"udp": {"responses": 1}})), "/udp: it has no effect"),
        ] {
            let found = warned(first.clone(), second.clone());
            assert!(
                found.contains(expected) && found.is_empty() == expected.is_empty(),
                "{first} {second}: {found}"
            );
        }
    }
}
