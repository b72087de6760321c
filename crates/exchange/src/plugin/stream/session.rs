//! One connection of layer 4 on its way through the gateway: as plugins, expressions and logs see it. It reads and
//! writes nothing; the code that carries the bytes counts them here.

use std::net::{IpAddr, SocketAddr};

use router::vars::{BuiltinVariable as Builtin, Value, Variable, VariableSource};

/// See the module.
#[derive(Clone, Debug)]
pub struct StreamSession {
    /// The peer.
    pub peer: SocketAddr,
    /// The listener's address.
    pub local: SocketAddr,
    /// The client's address: the peer's, or what a trusted peer said it is.
    pub client_address: IpAddr,
    /// The server name of the TLS handshake, if one was read.
    pub sni: Option<Box<str>>,
    /// Bytes received from the client.
    pub received_bytes: u64,
    /// Bytes sent to the client.
    pub sent_bytes: u64,
    /// When it was accepted, in nanoseconds of the monotonic clock.
    pub started_ns: u64,
    /// When both ways were closed; 0 before.
    pub ended_ns: u64,
    /// Why it was refused, if it was.
    pub rejected: Option<std::borrow::Cow<'static, str>>,
}

impl StreamSession {
    /// A session just accepted from `peer` at `local`.
    pub fn new(peer: SocketAddr, local: SocketAddr, started_ns: u64) -> StreamSession {
        StreamSession {
            peer,
            local,
            client_address: peer.ip().to_canonical(),
            sni: None,
            received_bytes: 0,
            sent_bytes: 0,
            started_ns,
            ended_ns: 0,
            rejected: None,
        }
    }

    /// From its acceptance to its end, in nanoseconds; 0 before the end.
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }
}

impl VariableSource for StreamSession {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        let Variable::Builtin(builtin) = variable else { return None };
        let address = |address: IpAddr| Some(Value::owned(address.to_string().into_bytes()));
        match builtin {
            Builtin::RemoteAddr => address(self.client_address),
            Builtin::RemotePort | Builtin::RealipRemotePort => Some(Value::from(self.peer.port())),
            Builtin::RealipRemoteAddr => address(self.peer.ip()),
            Builtin::ServerAddr => address(self.local.ip()),
            Builtin::ServerPort => Some(Value::from(self.local.port())),
            Builtin::SslServerName => self.sni.as_deref().map(|name| Value::borrowed(name.as_bytes())),
            Builtin::BytesSent => Some(Value::from(self.sent_bytes)),
            _ => None,
        }
    }
}
