//! # ua-restriction
//!
//! Admits or refuses requests by their `User-Agent` field: either only those that a pattern of `allowlist` is
//! found in, or all except those that a pattern of `denylist` is found in.
//!
//! ```json
//! {
//!     "denylist": ["(?i)curl", "^BadBot/[0-9]+"],
//!     "bypass_missing": true
//! }
//! ```
//!
//! Exactly one of `allowlist` and `denylist` is given. Patterns are regular expressions, found anywhere in
//! the field's value without the white space around it; `(?i)` at the beginning makes one ignore case. Of
//! several such fields, one that `allowlist` admits is enough, and one that `denylist` refuses is enough.
//!
//! A refused request is answered with 403 and `{"message": "…"}`. A request without the field is refused too,
//! with either list; `bypass_missing` lets it pass.
//!
//! Clients may send any value, so that the field keeps honest robots away and protects nothing that is
//! secret. Patterns with look-around or back-references are searched in at most 4 KiB; a request with a
//! longer field is refused with 400.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::vars::GaveUp;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::patterns::{Patterns, decide_by_patterns};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("ua-restriction", 2999, &[PluginPhase::Access], UaRestrictionConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .documented(include_str!("ua_restriction.rs"));

attributes! {
    struct UaRestrictionConfig {
        /// Lets requests without User-Agent pass.
        bypass_missing: bool = false;
        /// Patterns of the only clients that pass.
        allowlist: Option<Vec<Box<str>>>, {"minItems": 1, "items": {"type": "string", "minLength": 1}};
        /// Patterns of the clients that are refused.
        denylist: Option<Vec<Box<str>>>, {"minItems": 1, "items": {"type": "string", "minLength": 1}};
        /// The message of a refusal.
        message: String = "Not allowed".into(), {"minLength": 1, "maxLength": 1024};
    }
    {
        "title": "Pass or refuse by the client's User-Agent",
        "oneOf": [{"required": ["allowlist"]}, {"required": ["denylist"]}],
    }
}

struct UaRestriction {
    patterns: Patterns,
    /// Whether a client that a pattern is found in passes, instead of being refused.
    listed_pass: bool,
    bypass_missing: bool,
    refusal: BufferedReply,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<UaRestriction, String> {
    let config: UaRestrictionConfig = config::parse_config(config)?;
    let (name, listed) = match (&config.allowlist, &config.denylist) {
        (Some(listed), None) => ("allowlist", listed),
        (None, Some(listed)) => ("denylist", listed),
        _ => return Err("give either allowlist or denylist".to_owned()),
    };
    Ok(UaRestriction {
        patterns: Patterns::compile(listed, false).map_err(|reason| format!("{name}{reason}"))?,
        listed_pass: config.allowlist.is_some(),
        bypass_missing: config.bypass_missing,
        refusal: BufferedReply::message(403, &config.message),
    })
}

impl UaRestriction {
    fn lets_pass(&self, exchange: &Exchange) -> Result<bool, GaveUp> {
        let mut is_missing = true;
        for field in exchange.request.headers.get_all("user-agent") {
            is_missing = false;
            if self.patterns.is_match(field.trim_ascii())? {
                return Ok(self.listed_pass);
            }
        }
        Ok(if is_missing { self.bypass_missing } else { !self.listed_pass })
    }
}

impl Plugin for UaRestriction {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let passes = self.lets_pass(exchange);
        decide_by_patterns(exchange, passes, &self.refusal)
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, decide};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"allowlist": ["a", "(?i)b.*"], "bypass_missing": true}), None);
        check(json!({"denylist": ["(?!a)b"], "message": "no"}), None);
        check(json!({}), Some(""));
        check(json!({"allowlist": ["a"], "denylist": ["b"]}), Some("matches both"));
        check(json!({"allowlist": []}), Some("allowlist"));
        check(json!({"denylist": [""]}), Some("denylist"));
        check(json!({"denylist": 1}), Some("denylist"));
        check(json!({"denylist": ["a", "b("]}), Some("denylist[1]: `b(` is not a usable regular expression"));
        check(json!({"denylist": ["a"], "bypass_missing": "foo"}), Some("bypass_missing"));
        check(json!({"denylist": ["a"], "message": ""}), Some("message"));
        check(json!({"denylist": ["a"], "message": "x".repeat(1025)}), Some("message"));
    }

    #[test]
    fn lists_decide() {
        let check = |config: &Value, agents: &[&str], refusal: Option<&str>| {
            let mut scene = Scene::new();
            let plugin = scene.build(&KIND, config);
            let fields: String = agents.iter().map(|agent| format!("User-Agent: {agent}\r\n")).collect();
            let mut exchange =
                scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
            let got = decide(plugin.access(&mut exchange))
                .map(|reply| (reply.status, String::from_utf8_lossy(&reply.body).into_owned()));
            let expected = refusal.map(|message| (403, format!("{{\"message\":\"{message}\"}}\n")));
            assert_eq!(got, expected, "{config} {agents:?}");
        };
        let stock = Some("Not allowed");
        let mut allow = json!({"allowlist": ["my-bot1", r"(Baiduspider)/(\d+)\.(\d+)"]});
        check(&allow, &["my-bot1"], None);
        check(&allow, &["Baiduspider/2.0"], None);
        check(&allow, &["MY-BOT1"], stock);
        check(&allow, &["x", "my-bot1"], None);
        check(&allow, &["my-bot1", "x"], None);
        check(&allow, &["x", "y"], stock);
        check(&allow, &[], stock);
        allow["bypass_missing"] = true.into();
        check(&allow, &[], None);
        check(&allow, &["x"], stock);
        let deny = json!({"denylist": ["^my-bot2$", "(?i)curl"], "message": "go away"});
        check(&deny, &[" my-bot2 "], Some("go away"));
        check(&deny, &["Curl/8"], Some("go away"));
        check(&deny, &["x", "my-bot2"], Some("go away"));
        check(&deny, &["x"], None);
        check(&deny, &[], Some("go away"));
    }

    #[test]
    fn undecided_request_is_refused() {
        for list in ["allowlist", "denylist"] {
            let scene = gateway::testing::Scene::with_plugins(
                &[&KIND],
                &json!({"ua-restriction": {list: ["a(?!a)b"]}}),
            );
            let agent = "a".repeat(5_000);
            let outcome = scene.run(&format!("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n"));
            assert_eq!(outcome.status, 400, "{list}");
        }
    }
}
