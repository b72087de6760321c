//! The name of a subscription: namespace, group and service. Keys of upstreams that differ in other arguments
//! only share one. It does not connect.

use model::discovery::ServiceKey;
use serde_json::{Value, json};

/// A service as the server names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subscription {
    namespace: Box<str>,
    group: Box<str>,
    service: Box<str>,
}

impl Subscription {
    /// The subscription that a followed service needs.
    pub(super) fn of(key: &ServiceKey) -> Subscription {
        let (namespace, group) = (namespace_of(key).into(), resolve_nacos_group(key).into());
        Subscription { namespace, group, service: (&*key.service).into() }
    }

    /// Whether a followed service needs this subscription.
    pub(super) fn is_of(&self, key: &ServiceKey) -> bool {
        *self.namespace == *namespace_of(key)
            && *self.group == *resolve_nacos_group(key)
            && *self.service == *key.service
    }

    /// The body of the request that begins or ends it.
    pub(super) fn body(&self, is_wanted: bool) -> Value {
        json!({
            "namespace": &*self.namespace, "serviceName": &*self.service, "groupName": &*self.group,
            "subscribe": is_wanted, "clusters": "", "module": "naming"
        })
    }
}

/// The namespace of a service, with Nacos's default.
pub(super) fn namespace_of(key: &ServiceKey) -> &str {
    if key.namespace.is_empty() { "public" } else { &key.namespace }
}

/// The group of a service, with Nacos's default.
pub(super) fn resolve_nacos_group(key: &ServiceKey) -> &str {
    if key.group.is_empty() { "DEFAULT_GROUP" } else { &key.group }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_arguments_share_one() {
        let plain = ServiceKey::new("nacos", "a");
        let mut filtered = plain.clone();
        filtered.args.insert("metadata".into(), "{}".into());
        let mut named = plain.clone();
        (named.namespace, named.group) = ("public".into(), "DEFAULT_GROUP".into());
        let other = ServiceKey { group: "other".into(), ..plain.clone() };
        let subscription = Subscription::of(&plain);
        assert!([&plain, &filtered, &named].iter().all(|key| Subscription::of(key) == subscription));
        assert!(subscription.is_of(&filtered) && !subscription.is_of(&other));
        let body = subscription.body(false);
        assert_eq!((&body["namespace"], &body["subscribe"]), (&json!("public"), &json!(false)));
    }
}
