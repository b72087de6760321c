//! The facts of a TLS connection after its handshake: what was agreed, and which certificate the peer showed.
//! It judges none of them.

use rustls::{CommonState, Connection, HandshakeKind};
use rustls_pki_types::CertificateDer;

use super::names;

/// See the module.
#[derive(Clone, Debug)]
pub struct TlsFacts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite by OpenSSL's name.
    pub cipher: &'static str,
    /// The group of the key exchange; empty where a resumed TLS 1.2 session had none.
    pub curve: &'static str,
    /// The name that the client asked for (SNI), in lower case; servers only.
    pub server_name: Option<Box<str>>,
    /// The protocol agreed by ALPN.
    pub alpn: Option<Box<str>>,
    /// The JA4 fingerprint of the client's hello; servers only.
    pub ja4: Option<Box<str>>,
    /// An earlier session was resumed.
    pub is_resumed: bool,
    /// The certificates that the peer showed, its own first.
    pub peer: Vec<CertificateDer<'static>>,
    /// The verdict over them; servers only.
    pub client: ClientVerdict,
}

/// The verdict over a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientVerdict {
    /// None was shown, or none was asked for.
    #[default]
    None,
    /// It is valid under the authority of the name that the client asked for.
    Verified,
    /// It is not, for this reason.
    Failed(Box<str>),
}

impl TlsFacts {
    /// Of a connection that has ended its handshake.
    pub(crate) fn of(tls: &Connection) -> TlsFacts {
        let server_name = match tls {
            Connection::Server(server) => server.server_name().map(Into::into),
            Connection::Client(_) => None,
        };
        TlsFacts::of_state(tls, server_name)
    }

    /// The same for any transport; `server_name` is the name that the client asked for.
    pub(crate) fn of_state(tls: &CommonState, server_name: Option<Box<str>>) -> TlsFacts {
        TlsFacts {
            version: tls.protocol_version().map_or("UNKNOWN", names::version),
            cipher: tls.negotiated_cipher_suite().map_or("UNKNOWN", |suite| names::suite(suite.suite())),
            curve: tls.negotiated_key_exchange_group().map_or("", |group| names::curve(group.name())),
            server_name,
            alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into()),
            ja4: None,
            is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            peer: tls.peer_certificates().map(<[_]>::to_vec).unwrap_or_default(),
            client: ClientVerdict::None,
        }
    }
}
