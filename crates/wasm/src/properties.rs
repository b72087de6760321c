//! The properties of a request as guests ask for them, under the names that Envoy has; a single name that is
//! none of them is a variable of the gateway, as in APISIX (`remote_addr`, `uri`, `arg_x`). Numbers are 8
//! bytes, little-endian; a boolean is one.

use exchange::Exchange;
use net::tls::facts::ClientVerdict;
use router::vars::{Value, Variable, VariableSource};

use crate::abi::AbiStatus;
use crate::fields::{self, MessageKind};
use crate::limits::{PROPERTIES_MAX, PROPERTY_BYTES_MAX};

pub(crate) mod session;

/// The owner of the properties that guests set, among the states of a request: all guests of a request see
/// them. Instances count from the start of the process and do not reach this number.
const OWNER: u32 = u32::MAX - 32;

/// The properties that guests have set for one request.
#[derive(Default)]
struct Custom(Vec<Property>);

/// A path and its value.
type Property = (Box<[u8]>, Box<[u8]>);

impl Custom {
    fn set(&mut self, path: &[u8], value: &[u8]) -> Result<(), AbiStatus> {
        if path.is_empty() || path.len() + value.len() > PROPERTY_BYTES_MAX {
            return Err(AbiStatus::BadArgument);
        }
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| **known == *path) {
            *known = value.into();
            return Ok(());
        }
        if self.0.len() >= PROPERTIES_MAX {
            return Err(AbiStatus::InternalFailure);
        }
        self.0.push((path.into(), value.into()));
        Ok(())
    }

    fn get(&self, path: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| **known == *path).map(|(_, value)| &**value)
    }
}

/// Sets a property of the request.
pub(crate) fn set_property(exchange: &mut Exchange, path: &[u8], value: &[u8]) -> Result<(), AbiStatus> {
    exchange.states.of::<Custom>(OWNER).set(path, value)
}

/// A property that a guest has set.
pub(crate) fn custom<'a>(exchange: &'a Exchange, path: &[u8]) -> Option<&'a [u8]> {
    exchange.states.peek::<Custom>(OWNER)?.get(path)
}

/// The property at `path`: its parts are separated by zero bytes.
pub(crate) fn get_property(exchange: &Exchange, path: &[u8]) -> Option<Vec<u8>> {
    if let Some(value) = custom(exchange, path) {
        return Some(value.to_vec());
    }
    let text = str::from_utf8(path).ok()?.trim_end_matches('\0');
    let (first, rest) = text.split_once('\0').unwrap_or((text, ""));
    match first {
        "request" => request(exchange, rest),
        "response" => response(exchange, rest),
        "source" => match rest {
            "address" => Some(socket(exchange.client_address(), exchange.connection.peer.port())),
            "port" => Some(number(i64::from(exchange.connection.peer.port()))),
            _ => None,
        },
        "destination" => {
            let local = exchange.connection.local;
            match rest {
                "address" => Some(socket(local.ip(), local.port())),
                "port" => Some(number(i64::from(local.port()))),
                _ => None,
            }
        }
        "connection" => connection(exchange, rest),
        "upstream" => upstream(exchange, rest),
        "xds" => named(exchange, rest),
        _ if rest.is_empty() => named(exchange, first).or_else(|| variable(exchange, first)),
        _ => None,
    }
}

/// The names of the route and of its upstream.
fn named(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    match name {
        "route_name" | "route_id" => {
            let route = exchange.route()?;
            let named = if name == "route_name" { route.name.as_deref() } else { None };
            Some(named.unwrap_or(&route.id).as_bytes().to_vec())
        }
        "cluster_name" => match &exchange.decision.upstream {
            Some(upstream) => Some(upstream.identity().as_bytes().to_vec()),
            None => {
                let route = exchange.route()?;
                Some(match &route.service {
                    Some(service) => service.id.as_bytes().to_vec(),
                    None => route.id.as_bytes().to_vec(),
                })
            }
        },
        // 1 is inbound: clients come in.
        "listener_direction" => Some(number(1)),
        _ => None,
    }
}

fn request(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    let field = |name: &str| exchange.request.headers.get(name).map(<[u8]>::to_vec);
    Some(match name {
        "path" => fields::path(exchange),
        "url_path" => exchange.forward_path().to_vec(),
        "query" => exchange.forward_query().unwrap_or_default().to_vec(),
        "host" => MessageKind::Request.get(exchange, ":authority")?,
        "scheme" => exchange.connection.scheme.as_str().into(),
        "method" => exchange.request.method_text().to_vec(),
        // Envoy writes `HTTP/2` where nginx writes `HTTP/2.0`.
        "protocol" => match exchange.request.version.as_str() {
            "HTTP/2.0" => b"HTTP/2".to_vec(),
            "HTTP/3.0" => b"HTTP/3".to_vec(),
            other => other.into(),
        },
        "referer" | "user-agent" => field(name)?,
        "useragent" => field("user-agent")?,
        "id" => exchange.request_id.get().into(),
        "headers" => MessageKind::Request.serialized(exchange),
        "time" => {
            let (seconds, nanoseconds) = exchange.local().wall_at(exchange.times.started_ns);
            number((seconds as i64).saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds)))
        }
        "duration" if exchange.times.ended_ns > 0 => number(exchange.times.total_ns() as i64),
        "size" => number(exchange.request_body().map_or(0, <[u8]>::len) as i64),
        "total_size" => number(exchange.stats.request_bytes as i64),
        _ => field(name.strip_prefix("headers\0")?)?,
    })
}

fn response(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    if !MessageKind::Response.exists(exchange) {
        return None;
    }
    let field = |name: &str| exchange.response.headers.get(name).map(<[u8]>::to_vec);
    Some(match name {
        "code" => number(i64::from(exchange.response.status)),
        "code_details" => match &exchange.failure {
            Some(failure) => failure.cause.code().into(),
            None if exchange.stats.answered_locally => b"direct_response".to_vec(),
            None => b"via_upstream".to_vec(),
        },
        "grpc_status" => number(str::from_utf8(&field("grpc-status")?).ok()?.parse().ok()?),
        "headers" => MessageKind::Response.serialized(exchange),
        "size" => number(exchange.stats.response_body_bytes as i64),
        "total_size" => number(exchange.stats.response_bytes as i64),
        "backend_latency" => number(exchange.times.upstream_ns() as i64),
        _ => field(name.strip_prefix("headers\0")?)?,
    })
}

fn connection(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    let connection = &exchange.connection;
    let variable_of = |name| variable(exchange, name);
    match (name, &connection.tls) {
        ("id", _) => Some(number(connection.id as i64)),
        ("mtls", tls) => {
            let is_verified = tls.as_ref().is_some_and(|tls| tls.facts.client == ClientVerdict::Verified);
            Some(vec![u8::from(is_verified)])
        }
        ("tls_version", Some(tls)) => Some(tls.facts.version.into()),
        ("requested_server_name", Some(tls)) => tls.facts.server_name.as_deref().map(|name| name.into()),
        ("subject_peer_certificate", Some(_)) => variable_of("ssl_client_s_dn"),
        _ => None,
    }
}

fn upstream(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    let attempt = exchange.attempts.last()?;
    match name {
        "address" => Some(attempt.address.to_string().into_bytes()),
        "port" => Some(number(i64::from(attempt.address.port()))),
        _ => None,
    }
}

/// A variable of the gateway.
fn variable(source: &impl VariableSource, name: &str) -> Option<Vec<u8>> {
    let variable = Variable::parse(name).ok()?;
    match source.variable(&variable)? {
        Value::Bytes(bytes) => Some(bytes.into_owned()),
        Value::Digits(digits) => Some(digits.into_owned().into_bytes()),
        Value::Number(number) => Some(number.to_string().into_bytes()),
        Value::Boolean(value) => Some(value.to_string().into_bytes()),
        Value::List(_) => None,
    }
}

fn number(value: i64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn socket(address: std::net::IpAddr, port: u16) -> Vec<u8> {
    std::net::SocketAddr::new(address, port).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, respond, route};

    use super::*;

    #[test]
    fn properties_have_the_names_of_envoy() {
        let mut scene = Scene::new().with_route(route("r1"));
        let mut exchange = scene
            .exchange(b"PUT /a/b?c=d HTTP/1.1\r\nHost: shop:8080\r\nUser-Agent: probe\r\nX-A: 1\r\n\r\nbody");
        respond(&mut exchange, 201, &[("X-B", "2"), ("grpc-status", "7")]);
        let check = |path: &str, expected: Option<&[u8]>| {
            let path = path.replace('.', "\0");
            assert_eq!(get_property(&exchange, path.as_bytes()).as_deref(), expected, "{path:?}");
        };
        let eight = |value: i64| value.to_le_bytes();
        check("request.path", Some(b"/a/b?c=d"));
        check("request.url_path", Some(b"/a/b"));
        check("request.query", Some(b"c=d"));
        check("request.host", Some(b"shop:8080"));
        check("request.scheme", Some(b"http"));
        check("request.method", Some(b"PUT"));
        check("request.protocol", Some(b"HTTP/1.1"));
        check("request.useragent", Some(b"probe"));
        check("request.headers.x-a", Some(b"1"));
        check("request.headers.x-c", None);
        check("request.size", Some(&eight(4)));
        check("response.code", Some(&eight(201)));
        check("response.headers.x-b", Some(b"2"));
        check("response.grpc_status", Some(&eight(7)));
        check("response.code_details", Some(b"via_upstream"));
        check("source.address", Some(b"127.0.0.1:40000"));
        check("source.port", Some(&eight(40_000)));
        check("destination.port", Some(&eight(9_080)));
        check("connection.mtls", Some(&[0]));
        check("connection.tls_version", None);
        check("upstream.address", None);
        check("route_name", Some(b"r1"));
        check("xds.route_name", Some(b"r1"));
        check("remote_addr", Some(b"127.0.0.1"));
        check("arg_c", Some(b"d"));
        check("nothing.of.this", None);
        check("", None);
    }

    #[test]
    fn properties_of_guests_are_bounded() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        set_property(&mut exchange, b"my\0own", b"1").unwrap();
        set_property(&mut exchange, b"my\0own", b"2").unwrap();
        assert_eq!(get_property(&exchange, b"my\0own").as_deref(), Some(&b"2"[..]));
        for index in 1..PROPERTIES_MAX {
            set_property(&mut exchange, index.to_string().as_bytes(), b"").unwrap();
        }
        assert_eq!(set_property(&mut exchange, b"more", b""), Err(AbiStatus::InternalFailure));
        assert_eq!(set_property(&mut exchange, b"", b""), Err(AbiStatus::BadArgument));
        assert_eq!(set_property(&mut exchange, b"a", &[0; PROPERTY_BYTES_MAX]), Err(AbiStatus::BadArgument));
    }
}
