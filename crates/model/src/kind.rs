//! The kinds of object a user may write. Knows their names, not their contents.

use std::fmt;

/// A kind of object. The order is the order in which a set of objects is resolved: what is referred to comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
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
    /// Which layer 4 connections go where.
    StreamRoute,
}

impl Kind {
    /// Every kind, in resolving order.
    pub const ALL: [Kind; 14] = [
        Kind::Extension,
        Kind::Upstream,
        Kind::PluginConfig,
        Kind::ConsumerGroup,
        Kind::GlobalRule,
        Kind::PluginMetadata,
        Kind::Ssl,
        Kind::Proto,
        Kind::Secret,
        Kind::Service,
        Kind::Consumer,
        Kind::Credential,
        Kind::Route,
        Kind::StreamRoute,
    ];

    /// The name of its collection in the Admin API and in resource files (`routes`).
    #[must_use]
    pub const fn collection(self) -> &'static str {
        match self {
            Kind::Extension => "extensions",
            Kind::Upstream => "upstreams",
            Kind::PluginConfig => "plugin_configs",
            Kind::ConsumerGroup => "consumer_groups",
            Kind::GlobalRule => "global_rules",
            Kind::PluginMetadata => "plugin_metadata",
            Kind::Ssl => "ssls",
            Kind::Proto => "protos",
            Kind::Secret => "secrets",
            Kind::Service => "services",
            Kind::Consumer => "consumers",
            Kind::Credential => "credentials",
            Kind::Route => "routes",
            Kind::StreamRoute => "stream_routes",
        }
    }

    /// The name of its schema (`route`), as in `GET /apisix/admin/schema/route`.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        match self {
            Kind::Extension => "extension",
            Kind::Upstream => "upstream",
            Kind::PluginConfig => "plugin_config",
            Kind::ConsumerGroup => "consumer_group",
            Kind::GlobalRule => "global_rule",
            Kind::PluginMetadata => "plugin_metadata",
            Kind::Ssl => "ssl",
            Kind::Proto => "proto",
            Kind::Secret => "secret",
            Kind::Service => "service",
            Kind::Consumer => "consumer",
            Kind::Credential => "credential",
            Kind::Route => "route",
            Kind::StreamRoute => "stream_route",
        }
    }

    /// The name the Admin API's messages use: words apart (`plugin config`).
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Kind::PluginConfig => "plugin config",
            Kind::ConsumerGroup => "consumer group",
            Kind::GlobalRule => "global rule",
            Kind::StreamRoute => "stream route",
            Kind::PluginMetadata => "plugin_metadata",
            other => other.singular(),
        }
    }

    /// The kind of a collection name, or none.
    #[must_use]
    pub fn from_collection(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.collection() == name)
    }

    /// The kind of a singular name, or none.
    #[must_use]
    pub fn from_singular(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.singular() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.singular())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kind() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_collection(kind.collection()), Some(kind));
            assert_eq!(Kind::from_singular(kind.singular()), Some(kind));
        }
        assert_eq!(Kind::from_collection("route"), None);
    }

    #[test]
    fn all_is_in_order() {
        assert!(Kind::ALL.is_sorted());
    }
}
