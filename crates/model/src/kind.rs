//! The kinds of object a user may write. Knows their names, not their contents.

use std::fmt;

/// A kind of object. The order is the order in which a set of objects is resolved: what is referred to comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ObjectKind {
    /// A plugin of the user, with its versions.
    Extension,
    /// A set of origin servers and how to choose among them.
    Upstream,
    /// Plugins shared by routes.
    PluginConfig,
    /// Plugins shared by consumers.
    ConsumerGroup,
    /// Plugins that run on every request.
    GlobalRule,
    /// The part that all uses of one plugin share.
    PluginMetadata,
    /// A certificate with its key.
    Ssl,
    /// A Protocol Buffers definition.
    Proto,
    /// Where a secret manager is and how to log in there.
    Secret,
    /// The part that several routes share: plugins, upstream, hosts.
    Service,
    /// A caller that authentication knows.
    Consumer,
    /// One way for a consumer to prove its identity.
    Credential,
    /// Which requests go where.
    Route,
    /// The document of a service; its operations are routes.
    Contract,
    /// Which layer 4 connections go where.
    StreamRoute,
}

impl ObjectKind {
    /// Every kind, in resolving order.
    pub const ALL: [ObjectKind; 15] = [
        ObjectKind::Extension,
        ObjectKind::Upstream,
        ObjectKind::PluginConfig,
        ObjectKind::ConsumerGroup,
        ObjectKind::GlobalRule,
        ObjectKind::PluginMetadata,
        ObjectKind::Ssl,
        ObjectKind::Proto,
        ObjectKind::Secret,
        ObjectKind::Service,
        ObjectKind::Consumer,
        ObjectKind::Credential,
        ObjectKind::Route,
        ObjectKind::Contract,
        ObjectKind::StreamRoute,
    ];

    /// The name of its collection in the Admin API and in resource files (`routes`).
    #[must_use]
    pub const fn collection(self) -> &'static str {
        match self {
            ObjectKind::Extension => "extensions",
            ObjectKind::Upstream => "upstreams",
            ObjectKind::PluginConfig => "plugin_configs",
            ObjectKind::ConsumerGroup => "consumer_groups",
            ObjectKind::GlobalRule => "global_rules",
            ObjectKind::PluginMetadata => "plugin_metadata",
            ObjectKind::Ssl => "ssls",
            ObjectKind::Proto => "protos",
            ObjectKind::Secret => "secrets",
            ObjectKind::Service => "services",
            ObjectKind::Consumer => "consumers",
            ObjectKind::Credential => "credentials",
            ObjectKind::Route => "routes",
            ObjectKind::Contract => "contracts",
            ObjectKind::StreamRoute => "stream_routes",
        }
    }

    /// The name of its schema (`route`), as in `GET /apisix/admin/schema/route`.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        match self {
            ObjectKind::Extension => "extension",
            ObjectKind::Upstream => "upstream",
            ObjectKind::PluginConfig => "plugin_config",
            ObjectKind::ConsumerGroup => "consumer_group",
            ObjectKind::GlobalRule => "global_rule",
            ObjectKind::PluginMetadata => "plugin_metadata",
            ObjectKind::Ssl => "ssl",
            ObjectKind::Proto => "proto",
            ObjectKind::Secret => "secret",
            ObjectKind::Service => "service",
            ObjectKind::Consumer => "consumer",
            ObjectKind::Credential => "credential",
            ObjectKind::Route => "route",
            ObjectKind::Contract => "contract",
            ObjectKind::StreamRoute => "stream_route",
        }
    }

    /// The name the Admin API's messages use: words apart (`plugin config`).
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            ObjectKind::PluginConfig => "plugin config",
            ObjectKind::ConsumerGroup => "consumer group",
            ObjectKind::GlobalRule => "global rule",
            ObjectKind::StreamRoute => "stream route",
            ObjectKind::PluginMetadata => "plugin_metadata",
            other => other.singular(),
        }
    }

    /// The kind of a collection name, or none.
    #[must_use]
    pub fn from_collection(name: &str) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.collection() == name)
    }

    /// The kind of a singular name, or none.
    #[must_use]
    pub fn from_singular(name: &str) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.singular() == name)
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.singular())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kind() {
        for kind in ObjectKind::ALL {
            assert_eq!(ObjectKind::from_collection(kind.collection()), Some(kind));
            assert_eq!(ObjectKind::from_singular(kind.singular()), Some(kind));
        }
        assert_eq!(ObjectKind::from_collection("route"), None);
    }

    #[test]
    fn all_is_in_order() {
        assert!(ObjectKind::ALL.is_sorted());
    }
}
