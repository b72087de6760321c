//! The PROXY protocol header that a client's connection began with, as variables see it. It decides nothing:
//! the client that the header names is the connection's peer everywhere else.

use std::net::SocketAddr;

use net::proxy_protocol::ProxyProtocolHeader;
use router::vars::{BuiltinVariable as Builtin, ProxyTlv, Value};
use stdx::address_text::AddressText;

use super::address::CompactAddress;

/// See the module.
#[derive(Debug)]
pub struct ProxyContext {
    /// The address of the socket: the sender of the header.
    pub sender: CompactAddress,
    /// The header.
    pub header: ProxyProtocolHeader,
}

impl ProxyContext {
    /// The client that the header names, or its sender if it names none.
    pub fn peer(&self) -> CompactAddress {
        self.header.addresses.map_or(self.sender, |addresses| addresses.source.into())
    }

    /// The value of a variable `$proxy_protocol_…`, as nginx names and writes them; unset where the header
    /// has none.
    pub(super) fn variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let addresses = self.header.addresses?;
        match builtin {
            Builtin::ProxyProtocolAddr => Some(ip(addresses.source)),
            Builtin::ProxyProtocolPort => Some(Value::from(addresses.source.port())),
            Builtin::ProxyProtocolServerAddr => Some(ip(addresses.destination)),
            Builtin::ProxyProtocolServerPort => Some(Value::from(addresses.destination.port())),
            _ => None,
        }
    }

    /// The value of a variable `$proxy_protocol_tlv_…`: the bytes of the TLV, or a decimal number for the
    /// verdict.
    pub(super) fn tlv(&self, tlv: ProxyTlv) -> Option<Value<'_>> {
        let tlvs = &self.header.tlvs;
        match tlv {
            ProxyTlv::Type(kind) => tlvs.get(kind).map(Value::borrowed),
            ProxyTlv::Ssl(kind) => tlvs.ssl()?.get(kind).map(Value::borrowed),
            ProxyTlv::SslVerify => Some(Value::owned(tlvs.ssl()?.verify.to_string().into_bytes())),
        }
    }
}

fn ip<'a>(address: SocketAddr) -> Value<'a> {
    Value::owned(AddressText::default().write(CompactAddress::from(address).ip()).to_vec())
}
