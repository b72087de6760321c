//! # uri-blocker
//!
//! Refuses requests with a path or query in which one of the listed patterns is found.
//!
//! ```json
//! {
//!     "block_rules": ["root.exe", "root.m+", "^/internal/"],
//!     "case_insensitive": true,
//!     "rejected_code": 403,
//!     "rejected_msg": "access is not allowed"
//! }
//! ```
//!
//! A rule is a regular expression. It is searched in two texts. One is the canonical path, decoded, and the
//! query as it was sent, behind a question mark: `/./internal/%61?x=%20` is searched as `/internal/a?x=%20`,
//! so that another way to write a path does not bypass a rule. The other is the path and the query as they
//! were sent, where that differs, so that a rule for an escape such as `%2e` or `%00` finds it, as in APISIX.
//! The rules of a request are those of the request that came in, whatever other plugins make of its path.
//!
//! A refused request is answered with `rejected_code`, without a body; with `rejected_msg` the body is
//! `{"error_msg": "…"}`. An empty list of rules blocks every request, as in APISIX. Rules with look-around or
//! back-references are searched in at most 4 KiB; a request with a longer text is refused with 400.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::vars::GaveUp;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::limits::store::refusal_reply;
use crate::shared::patterns::{Patterns, decide_by_patterns};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("uri-blocker", 2900, &[PluginPhase::Rewrite], UriBlockerConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .documented(include_str!("uri_blocker.rs"));

attributes! {
    struct UriBlockerConfig {
        /// Patterns of paths and queries that are refused.
        block_rules: Vec<Box<str>>, {
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},
            "uniqueItems": true,
        };
        /// The status of a refusal.
        rejected_code: u16 = 403, {"minimum": 200, "maximum": 599};
        /// The message of a refusal; without it the refusal has no body.
        rejected_msg: Option<String>, {"minLength": 1};
        /// Whether the patterns ignore the case of ASCII letters.
        case_insensitive: bool = false;
    }
    {"title": "Refuse requests by patterns of their path and query"}
}

struct UriBlocker {
    /// None: every request is blocked.
    rules: Option<Patterns>,
    refusal: BufferedReply,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<UriBlocker, String> {
    let config: UriBlockerConfig = config::parse_config(config)?;
    let rules = match &*config.block_rules {
        [] => None,
        rules => Some(
            Patterns::compile(rules, config.case_insensitive)
                .map_err(|reason| format!("block_rules{reason}"))?,
        ),
    };
    let refusal = refusal_reply(config.rejected_code, config.rejected_msg.as_deref());
    Ok(UriBlocker { rules, refusal })
}

impl UriBlocker {
    fn blocks(&self, exchange: &mut Exchange) -> Result<bool, GaveUp> {
        let Some(rules) = &self.rules else { return Ok(true) };
        let mut text = std::mem::take(&mut exchange.scratch);
        let (path, sent) = (exchange.path(), exchange.request.path());
        let mut finds = |path: &[u8]| {
            let Some(query) = exchange.request.query() else { return rules.is_match(path) };
            text.clear();
            text.extend_from_slice(path);
            text.push(b'?');
            text.extend_from_slice(query);
            rules.is_match(&text)
        };
        let found = match finds(path) {
            Ok(false) if sent != path => finds(sent),
            found => found,
        };
        exchange.scratch = text;
        found
    }
}

impl Plugin for UriBlocker {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let passes = self.blocks(exchange).map(|blocks| !blocks);
        decide_by_patterns(exchange, passes, &self.refusal)
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use exchange::testing::configuration_check;
    use gateway::testing::Scene;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"block_rules": ["^a", "^b(?!c)"]}), None);
        check(json!({"block_rules": []}), None);
        check(json!({"block_rules": ["a"], "rejected_code": 200, "rejected_msg": "no"}), None);
        check(json!({}), Some("block_rules"));
        check(json!({"block_rules": ["^a", "^b("]}), Some("block_rules[1]: `^b(` is not a usable"));
        check(json!({"block_rules": ["a", "a"]}), Some("block_rules"));
        check(json!({"block_rules": [""]}), Some("block_rules"));
        check(json!({"block_rules": ["a".repeat(4097)]}), Some("block_rules"));
        check(json!({"block_rules": ["a"], "rejected_msg": ""}), Some("rejected_msg"));
        check(json!({"block_rules": ["a"], "rejected_msg": true}), Some("rejected_msg"));
        check(json!({"block_rules": ["a"], "rejected_code": 99}), Some("rejected_code"));
    }

    #[test]
    fn rules_decide() {
        let check = |config: Value, target: &str, refused: Option<(u16, &str)>| {
            let scene = Scene::with_plugins(&[&KIND], &json!({"uri-blocker": config}));
            let outcome = scene.run(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            // Nothing listens at the route's upstream.
            let got = (outcome.status != 502).then_some((outcome.status, outcome.body));
            assert_eq!(got, refused.map(|(status, body)| (status, body.to_owned())), "{config} {target}");
        };
        let (bare, pass) = (Some((403, "")), None);
        let several = json!({"block_rules": ["aa", "bb", r"c\d+"]});
        check(several.clone(), "/hello?x=bb", bare);
        check(several.clone(), "/hello?c1=2", bare);
        check(several.clone(), "/haallo", bare);
        check(several.clone(), "/hello?cc=2", pass);
        check(several, "/hello?AA", pass);
        let injection = json!({"block_rules": ["select.+(from|limit)", "(?:(union(.*?)select))"]});
        check(injection.clone(), "/hello?name=;select%20from%20sys", bare);
        check(injection.clone(), "/hello?name=;union%20select%20", bare);
        check(injection, "/select%20a%20from", bare);
        let full = json!({"block_rules": ["AA"], "rejected_msg": "no", "case_insensitive": true, "rejected_code": 404});
        check(full, "/?aa=1", Some((404, "{\"error_msg\":\"no\"}\n")));
        let inside = json!({"block_rules": ["^/internal/"]});
        for target in ["/internal/x", "/./internal/x?a", "/a/../internal/", "//%69nternal/x"] {
            check(inside.clone(), target, bare);
        }
        check(inside, "/x/internal/", pass);
        let escapes = json!({"block_rules": ["%2e", r"\.\./", "^/%61"]});
        for target in ["/a%2eb", "/a%2eb?x", "/a/../b", "/%61"] {
            check(escapes.clone(), target, bare);
        }
        check(escapes, "/a.b/%62?a", pass);
        check(json!({"block_rules": []}), "/", bare);
    }

    #[test]
    fn undecided_request_is_refused() {
        let scene = Scene::with_plugins(&[&KIND], &json!({"uri-blocker": {"block_rules": ["x(?!y)z"]}}));
        let outcome = scene.run(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(5_000)));
        assert_eq!(outcome.status, 400);
    }
}
