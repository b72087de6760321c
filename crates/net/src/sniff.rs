//! First bytes of connections: the protocol that they begin, and what a ClientHello or an MQTT CONNECT says,
//! without consuming a byte and without I/O. It follows no connection further than its beginning.
//!
//! Each function is given all bytes from the first one on, and is called again with more of them while it
//! answers [`Look::More`]. Its answer does not depend on how the bytes were cut.

mod client_hello;
mod first_protocol;
mod mqtt;

pub use client_hello::{CLIENT_HELLO_MAX_BYTES, ClientHello, client_hello};
pub use first_protocol::{FirstProtocol, ProtocolSet, protocol, protocol_among, proxy_protocol};
pub use mqtt::{MQTT_CONNECT_MAX_BYTES, MqttConnect, MqttFault, mqtt_connect};

/// The outcome of a look at first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// They may become it with more bytes.
    More,
    /// They are it.
    Found(T),
    /// They are not it, whatever follows.
    No,
}
