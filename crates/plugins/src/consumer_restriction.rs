//! # consumer-restriction
//!
//! Admits or refuses requests by their authenticated consumer, its group, the service or the route.
//!
//! ```json
//! {
//!     "whitelist": ["jack", "jill"],
//!     "allowed_by_methods": [{"user": "joe", "methods": ["GET"]}],
//!     "rejected_code": 403
//! }
//! ```
//!
//! `type` says which name is compared: `consumer_name`, `consumer_group_id`, `service_id` or `route_id`. With
//! the last two the plugin stands on a consumer and limits the services or routes that the consumer may use.
//!
//! - A name in `blacklist` is refused, whatever the other lists say.
//! - With `whitelist`, a name in it is admitted, with every method, and any other name is refused.
//! - `allowed_by_methods` limits the methods of the names that it lists as `user`, and of no other name. With
//!   `whitelist`, a name has to be in `whitelist` nevertheless.
//!
//! At least one of the three lists is given. If a name is listed as `user` more than once, the first entry
//! counts; an entry without `methods` allows none.
//!
//! A refused request is answered with `rejected_code` and `{"message": "…"}`, with `rejected_msg` as the
//! message if it is given. A request without such a name (no consumer was authenticated, the consumer has no
//! group, the route has no service) is answered with 401.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::MethodSet;
use router::methods::{METHODS, method_bit};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "consumer-restriction",
    2400,
    &[PluginPhase::Access],
    ConsumerRestrictionConfig::schema,
    build,
)
.documented(include_str!("consumer_restriction.rs"));

attributes! {
    struct ConsumerRestrictionConfig {
        /// The name that is compared.
        r#type: RestrictionSubject = RestrictionSubject::ConsumerName;
        /// The names that are refused.
        blacklist: Option<Vec<Box<str>>>, {"minItems": 1};
        /// The only names that pass.
        whitelist: Option<Vec<Box<str>>>, {"minItems": 1};
        /// The methods of single names.
        allowed_by_methods: Option<Vec<Allowed>>;
        /// The status of a refusal.
        rejected_code: u16 = 403, {"minimum": 200, "maximum": 599};
        /// The message of a refusal.
        rejected_msg: Option<String>;
    }
    {
        "title": "Pass or refuse by consumer, group, service or route",
        "anyOf": [{"required": ["blacklist"]}, {"required": ["whitelist"]}, {"required": ["allowed_by_methods"]}],
    }
}

attributes! {
    struct Allowed {
        /// The name.
        user: Option<Box<str>>;
        /// The methods that it may use.
        methods: Option<Vec<Box<str>>>, {"minItems": 1, "items": {"type": "string", "enum": METHODS}};
    }
}

words! {
    enum RestrictionSubject {
        ConsumerName = "consumer_name",
        ServiceId = "service_id",
        RouteId = "route_id",
        ConsumerGroupId = "consumer_group_id",
    }
}

struct ConsumerRestriction {
    subject: RestrictionSubject,
    refused: HashSet<Box<str>>,
    admitted: Option<HashSet<Box<str>>>,
    /// The methods of single names; nothing: no method.
    methods: HashMap<Box<str>, Option<MethodSet>>,
    refusal: BufferedReply,
    nameless: BufferedReply,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ConsumerRestrictionConfig = config::parse_config(config)?;
    let mut methods = HashMap::new();
    for allowed in config.allowed_by_methods.unwrap_or_default() {
        let Some(user) = allowed.user else { continue };
        let listed = allowed.methods.map(|names| MethodSet::from_names(&names)).transpose();
        let listed = listed.map_err(|error| format!("allowed_by_methods: {error}"))?;
        methods.entry(user).or_insert(listed);
    }
    let word = config.r#type.word();
    let message = config.rejected_msg.unwrap_or_else(|| format!("The {word} is forbidden."));
    let nameless = format!("The request is rejected, please check the {word} for this request");
    Ok(Arc::new(ConsumerRestriction {
        subject: config.r#type,
        refused: config.blacklist.into_iter().flatten().collect(),
        admitted: config.whitelist.map(|names| names.into_iter().collect()),
        methods,
        refusal: BufferedReply::message(config.rejected_code, &message),
        nameless: BufferedReply::message(401, &nameless),
    }))
}

impl ConsumerRestriction {
    fn name<'e>(&self, exchange: &'e Exchange) -> Option<&'e str> {
        match self.subject {
            RestrictionSubject::ConsumerName => exchange.consumer().map(|consumer| &*consumer.username),
            RestrictionSubject::ConsumerGroupId => exchange.consumer()?.group_id.as_deref(),
            RestrictionSubject::ServiceId => exchange.route()?.service.as_ref().map(|service| &*service.id),
            RestrictionSubject::RouteId => exchange.route().map(|route| &*route.id),
        }
    }

    fn lets_pass(&self, name: &str, method: &[u8]) -> bool {
        if self.refused.contains(name) {
            return false;
        }
        match &self.admitted {
            Some(admitted) => admitted.contains(name),
            None => self.methods.get(name).is_none_or(|allowed| {
                allowed
                    .is_some_and(|allowed| method_bit(method).is_some_and(|bit| allowed.contains(Some(bit))))
            }),
        }
    }
}

impl Plugin for ConsumerRestriction {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.name(exchange) {
            None => Flow::reply(self.nameless.clone()),
            Some(name) if self.lets_pass(name, exchange.request.method_text()) => Flow::Continue,
            Some(_) => Flow::reply(self.refusal.clone()),
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use exchange::exchange::ServiceName;
    use exchange::testing::{Scene, configuration_check, consumer, decide, route};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"title": "whitelist", "whitelist": ["jack"]}), Some("title"));
        check(json!({"whitelist": ["jack"], "blacklist": ["jill"], "allowed_by_methods": []}), None);
        check(json!({"allowed_by_methods": [{"user": "jack", "methods": ["GET", "PURGE"]}, {}]}), None);
        check(
            json!({"type": "route_id", "blacklist": ["1"], "rejected_code": 200, "rejected_msg": ""}),
            None,
        );
        check(json!({}), Some(""));
        check(json!({"whitelist": []}), Some("whitelist"));
        check(json!({"whitelist": [1]}), Some("whitelist"));
        check(json!({"whitelist": ["a"], "type": "user"}), Some("type"));
        check(json!({"whitelist": ["a"], "rejected_code": 199}), Some("rejected_code"));
        check(json!({"allowed_by_methods": [{"user": "a", "methods": ["FETCH"]}]}), Some("methods"));
        check(json!({"allowed_by_methods": [{"user": "a", "methods": []}]}), Some("methods"));
    }

    /// The answer to a request of the consumer jack (group g) for the route r of the service s, or of none of
    /// them.
    fn answer(config: &Value, method: &str, is_known: bool) -> Option<(u16, String)> {
        let mut scene = Scene::new();
        if is_known {
            let service = Some(Arc::new(ServiceName { id: "s".into(), name: None, written: "{}".into() }));
            scene = scene.with_route(exchange::exchange::RouteInfo { service, ..route("r") });
        }
        let plugin = scene.build(&KIND, config);
        let mut exchange = scene.exchange(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        if is_known {
            let mut jack = consumer("jack");
            jack.group_id = Some("g".into());
            exchange.authenticate(Arc::new(jack));
        }
        let reply = decide(plugin.access(&mut exchange))?;
        Some((reply.status, String::from_utf8_lossy(&reply.body).trim_end().to_owned()))
    }

    #[test]
    fn lists_decide_in_their_order() {
        let check = |config: Value, method: &str, refused: Option<&str>| {
            let expected = refused.map(|message| (403, format!("{{\"message\":\"{message}\"}}")));
            assert_eq!(answer(&config, method, true), expected, "{config} {method}");
        };
        let stock = Some("The consumer_name is forbidden.");
        check(json!({"whitelist": ["jack", "jill"]}), "GET", None);
        check(json!({"whitelist": ["jill"]}), "GET", stock);
        check(json!({"blacklist": ["jill"]}), "GET", None);
        check(json!({"blacklist": ["jack"], "rejected_msg": "no"}), "GET", Some("no"));
        check(json!({"blacklist": ["jack"], "whitelist": ["jack"]}), "GET", stock);
        let get_only = json!([{"user": "jack", "methods": ["GET"]}, {"user": "jack", "methods": ["POST"]}]);
        check(json!({"allowed_by_methods": get_only}), "GET", None);
        check(json!({"allowed_by_methods": get_only}), "POST", stock);
        check(json!({"allowed_by_methods": get_only}), "PROPFIND", stock);
        check(json!({"allowed_by_methods": get_only, "whitelist": ["jack"]}), "POST", None);
        check(json!({"allowed_by_methods": get_only, "whitelist": ["jill"]}), "GET", stock);
        check(json!({"allowed_by_methods": get_only, "blacklist": ["jack"]}), "GET", stock);
        check(json!({"allowed_by_methods": [{"user": "jill", "methods": ["GET"]}]}), "POST", None);
        check(json!({"allowed_by_methods": [{"user": "jack"}]}), "GET", stock);
        check(json!({"allowed_by_methods": []}), "GET", None);
    }

    #[test]
    fn type_says_what_is_compared() {
        for (word, name) in
            [("consumer_name", "jack"), ("consumer_group_id", "g"), ("service_id", "s"), ("route_id", "r")]
        {
            let whitelist = |name: &str| json!({"type": word, "whitelist": [name], "rejected_code": 406});
            assert_eq!(answer(&whitelist(name), "GET", true), None, "{word}");
            let refusal = format!("{{\"message\":\"The {word} is forbidden.\"}}");
            assert_eq!(answer(&whitelist("x"), "GET", true), Some((406, refusal)));
            let nameless = format!(
                "{{\"message\":\"The request is rejected, please check the {word} for this request\"}}"
            );
            assert_eq!(answer(&whitelist(name), "GET", false), Some((401, nameless)));
        }
    }
}
