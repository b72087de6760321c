//! A name for an upstream that a plugin selects.

use std::fmt;
use std::sync::Arc;

/// An upstream that a plugin selects for requests ([`crate::Exchange::set_upstream`]): one of the
/// configuration, or one that the plugin's own configuration holds.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamRef(Arc<str>);

impl UpstreamRef {
    /// The object `/upstreams/ID`. If it does not exist when a request comes, the request is answered 503.
    pub fn by_id(id: &str) -> UpstreamRef {
        UpstreamRef(format!("/upstreams/{id}").into())
    }

    /// The upstream that the holder of `identity` has in its configuration.
    pub(super) fn held(identity: Arc<str>) -> UpstreamRef {
        UpstreamRef(identity)
    }

    /// Its identity over configuration changes.
    pub fn identity(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UpstreamRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
