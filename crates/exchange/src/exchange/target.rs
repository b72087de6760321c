//! The target of a request, and how it is forwarded where a plugin or an upstream changed it.

use message::FieldId;

/// The target of a request.
#[derive(Clone, Default)]
pub struct ExchangeTarget {
    /// The canonical path, decoded: matched, logged, shown to plugins.
    pub path: Vec<u8>,
    /// The canonical path in encoded form.
    pub encoded_path: Vec<u8>,
    /// The authority without port, in lower case.
    pub host: Vec<u8>,
    /// The path as it is forwarded, where a plugin changed it.
    pub rewritten_path: Option<Vec<u8>>,
    /// The query as it is forwarded, where a plugin changed it.
    pub forward_query: Option<Vec<u8>>,
    /// The Host as it is forwarded, where a plugin or the upstream changes it.
    pub forward_host: Option<Vec<u8>>,
    /// A plugin has set the Host, so that the upstream's rule does not count.
    pub host_is_rewritten: bool,
    /// A plugin has set `X-Real-IP`; it is sent unchanged.
    pub real_ip_is_rewritten: bool,
    /// Fields that the gateway would send and a plugin has removed.
    pub withheld: WithheldFields,
}

impl ExchangeTarget {
    /// Forgets the last request; the three buffers that every request fills keep their capacity.
    pub fn clear(&mut self) {
        let ExchangeTarget { mut path, mut encoded_path, mut host, .. } = std::mem::take(self);
        path.clear();
        encoded_path.clear();
        host.clear();
        *self = ExchangeTarget { path, encoded_path, host, ..ExchangeTarget::default() };
    }
}

/// Fields that the gateway sends by itself and that a plugin has taken away: those are not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldFields {
    pub proto: bool,
    pub host: bool,
    pub port: bool,
}

impl WithheldFields {
    /// Withholds the field `name`; has no effect for a field that the gateway does not send by itself.
    pub fn add(&mut self, name: &str) {
        match FieldId::of(name.as_bytes()) {
            FieldId::XForwardedProto => self.proto = true,
            FieldId::XForwardedHost => self.host = true,
            FieldId::XForwardedPort => self.port = true,
            _ => {}
        }
    }
}
