//! One session of layer 4 on its way through the gateway, a connection or the datagrams of one client: as
//! plugins, expressions and logs see it. It reads and writes nothing; the code that carries the bytes counts
//! them here.

use std::any::Any;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use router::vars::{BuiltinVariable as Builtin, Value, Variable, VariableSource};

use super::end::SessionEnd;
use crate::exchange::variables::time;
use crate::exchange::{ProxyContext, TlsContext};
use crate::plugin::upstream_ref::UpstreamRef;

/// Variables of sessions that requests do not have.
pub const OWN_VARIABLES: &[&str] = &["protocol", "bytes_received", "session_time"];

/// The transport of the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamTransport {
    /// A TCP connection.
    Tcp,
    /// A TLS connection that ends here.
    Tls,
    /// Datagrams of one address.
    Udp,
}

impl StreamTransport {
    /// The name in logs, metrics and the variable `protocol`.
    pub fn as_str(self) -> &'static str {
        match self {
            StreamTransport::Tcp => "TCP",
            StreamTransport::Tls => "TLS",
            StreamTransport::Udp => "UDP",
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct StreamSession {
    /// The peer of the socket.
    pub peer: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The client's address: the peer's, or what a trusted peer said it is.
    pub client_address: IpAddr,
    /// The client's port, likewise.
    pub client_port: u16,
    /// The transport of the client's side.
    pub transport: StreamTransport,
    /// The PROXY protocol header that it began with.
    pub proxy: Option<Rc<ProxyContext>>,
    /// The TLS connection with the client, where it ends here.
    pub tls: Option<Rc<TlsContext>>,
    /// The bytes that the client has sent first, as far as they were looked at; of datagrams the first one.
    /// Empty again once the session has a node.
    pub first_bytes: Vec<u8>,
    /// The server name of the TLS handshake, if one was read.
    pub sni: Option<Box<str>>,
    /// The protocols that the TLS handshake offers by ALPN, if one was read; where TLS ends here, the one
    /// that was agreed.
    pub alpn: Box<[Box<str>]>,
    /// The client id of an MQTT CONNECT, if a plugin has read one.
    pub mqtt_client_id: Option<Box<str>>,
    /// Further variables that plugins have set, by name.
    pub variables: Vec<(Cow<'static, str>, Box<str>)>,
    /// Values that plugins keep until the session ends, such as a place under a limit; dropped with it.
    pub held: Vec<Rc<dyn Any>>,
    /// The route's id.
    pub route_id: Option<Arc<str>>,
    /// The route's name.
    pub route_name: Option<Arc<str>>,
    /// The id of the route's service.
    pub service_id: Option<Arc<str>>,
    /// The upstream that a plugin has chosen in place of the route's.
    pub chosen_upstream: Option<UpstreamRef>,
    /// The upstream that the session went to, such as `/upstreams/1`.
    pub upstream: Option<Arc<str>>,
    /// The node that the session went to, or tried last.
    pub node: Option<SocketAddr>,
    /// How many nodes were tried.
    pub attempts: u32,
    /// Microseconds from the choice of the node until it was connected.
    pub connect_us: u64,
    /// Bytes received from the client.
    pub received_bytes: u64,
    /// Bytes sent to the client.
    pub sent_bytes: u64,
    /// When it was accepted, in nanoseconds of the monotonic clock.
    pub started_ns: u64,
    /// When it was accepted, in seconds and nanoseconds of the Unix epoch; set at its end.
    pub began_unix: (u64, u32),
    /// When both ways were closed; 0 before.
    pub ended_ns: u64,
    /// Why it ended, once it has.
    pub end: Option<SessionEnd>,
    /// Why it was refused or failed, in words.
    pub reason: Option<Cow<'static, str>>,
}

impl StreamSession {
    /// A session just accepted from `peer` at `local`.
    pub fn new(peer: SocketAddr, local: SocketAddr, started_ns: u64) -> StreamSession {
        StreamSession {
            peer,
            local,
            client_address: peer.ip().to_canonical(),
            client_port: peer.port(),
            transport: StreamTransport::Tcp,
            proxy: None,
            tls: None,
            first_bytes: Vec::new(),
            sni: None,
            alpn: Box::default(),
            mqtt_client_id: None,
            variables: Vec::new(),
            held: Vec::new(),
            route_id: None,
            route_name: None,
            service_id: None,
            chosen_upstream: None,
            upstream: None,
            node: None,
            attempts: 0,
            connect_us: 0,
            received_bytes: 0,
            sent_bytes: 0,
            started_ns,
            began_unix: (0, 0),
            ended_ns: 0,
            end: None,
            reason: None,
        }
    }

    /// From its acceptance to its end, in nanoseconds; 0 before the end.
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }

    /// The status that nginx gives sessions: 200 for one that was served, 403 for one that was refused, 502
    /// for one without a node, 500 where the gateway is to blame, 400 where the client is; 0 before the end.
    pub fn status(&self) -> u16 {
        self.end.map_or(0, SessionEnd::status)
    }

    /// Sets the variable `name` for expressions, templates and logs that come later.
    pub fn set_variable(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Box<str>>) {
        let (name, value) = (name.into(), value.into());
        match self.variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.variables.push((name, value)),
        }
    }

    /// Keeps `value` until the session ends, however it ends.
    pub fn hold(&mut self, value: impl Any) {
        self.held.push(Rc::new(value));
    }

    /// The first value of the type `T` that is kept.
    pub fn find_held<T: Any>(&self) -> Option<Rc<T>> {
        let found = self.held.iter().find(|held| held.is::<T>())?;
        found.clone().downcast().ok()
    }

    fn builtin(&self, builtin: Builtin) -> Option<Value<'_>> {
        let address = |address: IpAddr| Some(Value::owned(address.to_string().into_bytes()));
        let text = |text: Option<&str>| text.map(|text| Value::owned(text.as_bytes().to_vec()));
        let seconds = |ns: u64| Value::owned(format!("{:.3}", ns as f64 / 1e9).into_bytes());
        let said = self.proxy.as_ref().and_then(|proxy| proxy.header.addresses);
        match builtin {
            Builtin::RemoteAddr => address(self.client_address),
            Builtin::RemotePort => Some(Value::from(self.client_port)),
            Builtin::RealipRemotePort => Some(Value::from(self.peer.port())),
            Builtin::RealipRemoteAddr => address(self.peer.ip()),
            Builtin::ServerAddr => address(self.local.ip()),
            Builtin::ServerPort => Some(Value::from(self.local.port())),
            Builtin::ProxyProtocolAddr => said.and_then(|said| address(said.source.ip())),
            Builtin::ProxyProtocolPort => said.map(|said| Value::from(said.source.port())),
            Builtin::ProxyProtocolServerAddr => said.and_then(|said| address(said.destination.ip())),
            Builtin::ProxyProtocolServerPort => said.map(|said| Value::from(said.destination.port())),
            Builtin::SslServerName => text(self.sni.as_deref()),
            Builtin::SslAlpnProtocol => text(self.alpn.first().map(|name| &**name)),
            Builtin::MqttClientId => text(self.mqtt_client_id.as_deref()),
            Builtin::RouteId => text(self.route_id.as_deref()),
            Builtin::RouteName => text(self.route_name.as_deref()),
            Builtin::ServiceId => text(self.service_id.as_deref()),
            Builtin::BytesSent | Builtin::UpstreamBytesReceived => Some(Value::from(self.sent_bytes)),
            Builtin::UpstreamBytesSent => Some(Value::from(self.received_bytes)),
            Builtin::UpstreamAddr => self.node.map(|node| Value::owned(node.to_string().into_bytes())),
            Builtin::BalancerIp => self.node.and_then(|node| address(node.ip())),
            Builtin::BalancerPort => self.node.map(|node| Value::from(node.port())),
            Builtin::UpstreamConnectTime => self.node.map(|_| seconds(self.connect_us * 1_000)),
            Builtin::Msec => Some(Value::owned(time::unix_seconds(self.began_unix))),
            Builtin::TimeIso8601 => Some(Value::owned(time::iso8601(self.began_unix.0))),
            Builtin::TimeLocal => Some(Value::owned(time::common_log(self.began_unix.0))),
            Builtin::Pid => Some(Value::from(std::process::id())),
            Builtin::Status => self.end.map(|end| Value::from(end.status())),
            Builtin::WeirCause => self.end.map(|end| Value::borrowed(end.code().as_bytes())),
            Builtin::WeirDetail => text(self.reason.as_deref()),
            _ => self.tls.as_ref().and_then(|tls| tls.variable(builtin)),
        }
    }

    /// The variables of layer 4 that HTTP does not have, and those that plugins have set.
    fn named(&self, name: &str) -> Option<Value<'_>> {
        if let Some((_, value)) = self.variables.iter().find(|(known, _)| known == name) {
            return Some(Value::borrowed(value.as_bytes()));
        }
        match name {
            "protocol" => Some(Value::borrowed(self.transport.as_str().as_bytes())),
            "bytes_received" => Some(Value::from(self.received_bytes)),
            "session_time" => {
                let ms = self.duration_ns() / 1_000_000;
                Some(Value::owned(format!("{}.{:03}", ms / 1_000, ms % 1_000).into_bytes()))
            }
            _ => None,
        }
    }
}

impl VariableSource for StreamSession {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        match variable {
            Variable::Builtin(builtin) => self.builtin(*builtin),
            Variable::Named(name) => self.named(name),
            _ => None,
        }
    }
}
