//! The properties of a session of layer 4, under the names that Envoy has for connections; a single name that
//! is none of them is a variable of the session.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use exchange::plugin::stream::StreamSession;
use net::tls::facts::ClientVerdict;

use super::{Custom, number, socket, variable};
use crate::abi::AbiStatus;

/// The properties that guests have set for one session.
#[derive(Default)]
struct CustomOfSession(RefCell<Custom>);

/// Sets a property of the session.
pub(crate) fn set_session_property(
    session: &mut StreamSession,
    path: &[u8],
    value: &[u8],
) -> Result<(), AbiStatus> {
    if session.find_held::<CustomOfSession>().is_none() {
        session.hold(CustomOfSession::default());
    }
    let custom = session.find_held::<CustomOfSession>().ok_or(AbiStatus::InternalFailure)?;
    custom.0.borrow_mut().set(path, value)
}

/// The property at `path`: its parts are separated by zero bytes.
pub(crate) fn get_session_property(session: &StreamSession, path: &[u8]) -> Option<Vec<u8>> {
    if let Some(custom) = session.find_held::<CustomOfSession>()
        && let Some(value) = custom.0.borrow().get(path)
    {
        return Some(value.to_vec());
    }
    let text = str::from_utf8(path).ok()?.trim_end_matches('\0');
    let (first, rest) = text.split_once('\0').unwrap_or((text, ""));
    match first {
        "source" => address(rest, session.client_address, session.client_port),
        "destination" => address(rest, session.local.ip(), session.local.port()),
        "connection" => connection(session, rest),
        "upstream" => session.node.and_then(|node: SocketAddr| address(rest, node.ip(), node.port())),
        "xds" => named(session, rest),
        _ if rest.is_empty() => named(session, first).or_else(|| variable(session, first)),
        _ => None,
    }
}

fn address(part: &str, ip: IpAddr, port: u16) -> Option<Vec<u8>> {
    match part {
        "address" => Some(socket(ip, port)),
        "port" => Some(number(i64::from(port))),
        _ => None,
    }
}

/// The names of the route and of its upstream.
fn named(session: &StreamSession, name: &str) -> Option<Vec<u8>> {
    let id = session.route_id.as_deref();
    let text = match name {
        "route_id" => id,
        "route_name" => session.route_name.as_deref().or(id),
        "cluster_name" => session.upstream.as_deref().or(session.service_id.as_deref()).or(id),
        // 1 is inbound: clients come in.
        "listener_direction" => return Some(number(1)),
        _ => None,
    };
    text.map(|text| text.as_bytes().to_vec())
}

fn connection(session: &StreamSession, name: &str) -> Option<Vec<u8>> {
    match (name, &session.tls) {
        ("mtls", tls) => {
            let is_verified = tls.as_ref().is_some_and(|tls| tls.facts.client == ClientVerdict::Verified);
            Some(vec![u8::from(is_verified)])
        }
        ("tls_version", Some(tls)) => Some(tls.facts.version.into()),
        // It is known too where TLS passes through and the route has read the name.
        ("requested_server_name", _) => session.sni.as_deref().map(|name| name.into()),
        ("subject_peer_certificate", Some(_)) => variable(session, "ssl_client_s_dn"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PROPERTIES_MAX;

    #[test]
    fn properties_of_sessions_have_the_names_of_envoy() {
        let (client, local) = ("10.0.0.1:4000".parse().unwrap(), "127.0.0.1:9100".parse().unwrap());
        let mut session = StreamSession::new(client, local, 1);
        session.sni = Some("a.example".into());
        session.route_id = Some("7".into());
        session.node = Some("127.0.0.1:5".parse().unwrap());
        let check = |path: &str, expected: Option<&[u8]>| {
            let path = path.replace('.', "\0");
            assert_eq!(get_session_property(&session, path.as_bytes()).as_deref(), expected, "{path:?}");
        };
        let eight = |value: i64| value.to_le_bytes();
        check("source.address", Some(b"10.0.0.1:4000"));
        check("source.port", Some(&eight(4_000)));
        check("destination.address", Some(b"127.0.0.1:9100"));
        check("destination.port", Some(&eight(9_100)));
        check("connection.requested_server_name", Some(b"a.example"));
        check("connection.mtls", Some(&[0]));
        check("connection.tls_version", None);
        check("upstream.address", Some(b"127.0.0.1:5"));
        check("xds.route_name", Some(b"7"));
        check("cluster_name", Some(b"7"));
        check("protocol", Some(b"TCP"));
        check("remote_addr", Some(b"10.0.0.1"));
        check("request.path", None);
        check("", None);
    }

    #[test]
    fn properties_set_for_a_session_are_bounded() {
        let local = "127.0.0.1:9100".parse().unwrap();
        let mut session = StreamSession::new(local, local, 1);
        for value in [b"1", b"2"] {
            set_session_property(&mut session, b"my\0own", value).unwrap();
        }
        assert_eq!(get_session_property(&session, b"my\0own").as_deref(), Some(&b"2"[..]));
        for index in 1..PROPERTIES_MAX {
            set_session_property(&mut session, index.to_string().as_bytes(), b"").unwrap();
        }
        assert_eq!(set_session_property(&mut session, b"more", b""), Err(AbiStatus::InternalFailure));
    }
}
