//! # referer-restriction
//!
//! Lets requests pass or refuses them by the host in their `Referer` field: either only pages of the listed
//! hosts may send requests (`whitelist`), or pages of all but the listed ones (`blacklist`).
//!
//! ```json
//! {
//!     "whitelist": ["example.com", "*.example.com"],
//!     "bypass_missing": true
//! }
//! ```
//!
//! Exactly one of `whitelist` and `blacklist` is given. An entry is a host without a port; one that begins
//! with `*` matches every host that ends with the rest. Case makes no difference. `Referer` is an `http` or
//! `https` URL, or one without a scheme that begins with `//`; its port, path and query are not looked at.
//!
//! A request is refused with 403 and `{"message": "…"}`. A request without the field, with several of them,
//! or with one that is no such URL (also one with a user name, which no browser sends), is refused too, with
//! either list; `bypass_missing` lets it pass.
//!
//! The field keeps other sites from embedding images and downloads. Clients other than browsers may send any
//! value, so that it protects nothing that is secret.

use std::collections::HashSet;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "referer-restriction",
    2990,
    &[PluginPhase::Access],
    RefererRestrictionConfig::schema,
    build,
)
.documented(include_str!("referer_restriction.rs"));

attributes! {
    struct RefererRestrictionConfig {
        /// Lets requests without a Referer, or with one that is no URL, pass.
        bypass_missing: bool = false;
        /// The only hosts with pages that may send requests; * at the beginning stands for any text.
        whitelist: Option<Vec<String>>, {"minItems": 1, "items": host()};
        /// The hosts with pages that may not send requests; * at the beginning stands for any text.
        blacklist: Option<Vec<String>>, {"minItems": 1, "items": host()};
        /// The message of a refusal.
        message: String = "Your referer host is not allowed".into(), {"minLength": 1, "maxLength": 1024};
    }
    {
        "title": "Pass or refuse by the page that a request comes from",
        "oneOf": [{"required": ["whitelist"]}, {"required": ["blacklist"]}],
    }
}

fn host() -> Value {
    json!({"type": "string", "pattern": r"^\*$|^\*?[0-9a-zA-Z-._\[\]:]+$"})
}

struct RefererRestriction {
    /// In lower case.
    hosts: HashSet<Box<[u8]>>,
    /// The endings of hosts, in lower case.
    suffixes: Vec<Box<[u8]>>,
    /// Whether the listed hosts are those that pass.
    listed_pass: bool,
    bypass_missing: bool,
    refusal: BufferedReply,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: RefererRestrictionConfig = config::parse_config(config)?;
    let (listed, listed_pass) = match (config.whitelist, config.blacklist) {
        (Some(listed), None) => (listed, true),
        (None, Some(listed)) => (listed, false),
        _ => return Err("give either whitelist or blacklist".to_owned()),
    };
    let (mut hosts, mut suffixes) = (HashSet::new(), Vec::new());
    for entry in listed {
        let entry = entry.to_ascii_lowercase();
        match entry.strip_prefix('*') {
            Some(suffix) => suffixes.push(suffix.as_bytes().into()),
            None => drop(hosts.insert(entry.into_bytes().into())),
        }
    }
    let refusal = BufferedReply::message(403, &config.message);
    let bypass_missing = config.bypass_missing;
    Ok(Arc::new(RefererRestriction { hosts, suffixes, listed_pass, bypass_missing, refusal }))
}

impl RefererRestriction {
    fn lets_pass(&self, exchange: &Exchange) -> bool {
        let mut fields = exchange.request.headers.get_all("referer");
        // Servers differ in which of several fields they read.
        match (fields.next().and_then(host_of), fields.next()) {
            (Some(host), None) => self.lists(&host.to_ascii_lowercase()) == self.listed_pass,
            _ => self.bypass_missing,
        }
    }

    fn lists(&self, host: &[u8]) -> bool {
        self.hosts.contains(host) || self.suffixes.iter().any(|suffix| host.ends_with(suffix))
    }
}

impl Plugin for RefererRestriction {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.lets_pass(exchange) { Flow::Continue } else { Flow::reply(self.refusal.clone()) }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

/// The host of a Referer; none if it is no URL with a host.
fn host_of(referer: &[u8]) -> Option<&[u8]> {
    let rest = [&b"http://"[..], b"https://", b"//"].into_iter().find_map(|start| {
        let begins = referer.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
        begins.then(|| &referer[start.len()..])
    })?;
    let end = rest.iter().position(|byte| b"/?#\\".contains(byte)).unwrap_or(rest.len());
    let authority = &rest[..end];
    let host_end = match authority.first()? {
        b'[' => authority.iter().position(|byte| *byte == b']')? + 1,
        _ => authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    let is_port = port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit));
    (is_port && !host.is_empty() && !host.contains(&b'@')).then_some(host)
}

#[cfg(test)]
mod tests {
    use exchange::testing::configuration_check;
    use gateway::testing::Scene;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"whitelist": ["*.xx.com", "yy.com"], "bypass_missing": true}), None);
        check(json!({"blacklist": ["*"], "message": "no"}), None);
        check(json!({}), Some(""));
        check(json!({"whitelist": ["xx.com"], "blacklist": ["yy.com"]}), Some("matches both"));
        check(json!({"whitelist": []}), Some("whitelist"));
        check(json!({"whitelist": ["x.*"]}), Some("whitelist"));
        check(json!({"whitelist": ["~y.xn"]}), Some("whitelist"));
        check(json!({"whitelist": ["a"], "message": ""}), Some("message"));
        check(json!({"whitelist": ["a"], "by_pass": true}), Some("by_pass"));
    }

    #[test]
    fn hosts_of_referers() {
        let check = |referer: &str, host: Option<&str>| {
            assert_eq!(host_of(referer.as_bytes()), host.map(str::as_bytes), "{referer}");
        };
        check("http://www.xx.com", Some("www.xx.com"));
        check("HTTPS://yy.com:8443/am?b=http://zz.com", Some("yy.com"));
        check("//yy.com?a", Some("yy.com"));
        check("http://[::1]:80/", Some("[::1]"));
        for malformed in
            ["", "www.yy.com", "ftp://yy.com/", "http://", "http:///a", "http://[::1", "http://a:b/"]
        {
            check(malformed, None);
        }
        check("http://yy.com@zz.com/", None);
        check("http://yy.com:80@zz.com/", None);
        check("http://zz.com\\@yy.com/", Some("zz.com"));
    }

    #[test]
    fn lists_decide() {
        let check = |config: &Value, referers: &[&str], refusal: Option<&str>| {
            let scene = Scene::with_plugins(&[&KIND], &json!({"referer-restriction": config}));
            let fields: String = referers.iter().map(|referer| format!("Referer: {referer}\r\n")).collect();
            let outcome = scene.run(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            // Nothing listens at the route's upstream.
            let got = (outcome.status != 502).then_some((outcome.status, outcome.body));
            let expected = refusal.map(|message| (403, format!("{{\"message\":\"{message}\"}}\n")));
            assert_eq!(got, expected, "{config} {referers:?}");
        };
        let stock = Some("Your referer host is not allowed");
        let mut white = json!({"whitelist": ["*.xx.com", "YY.com"]});
        check(&white, &["http://www.XX.com"], None);
        check(&white, &["https://yy.com/am"], None);
        check(&white, &["https://www.yy.com/am"], stock);
        check(&white, &["http://xx.com"], stock);
        check(&white, &[], stock);
        check(&white, &["yy.com"], stock);
        check(&white, &["https://yy.com/", "https://zz.com/"], stock);
        white["bypass_missing"] = true.into();
        check(&white, &[], None);
        check(&white, &["www.yy.com"], None);
        check(&white, &["https://zz.com/"], stock);
        let black = json!({"blacklist": ["*.xx.com"], "message": "go away"});
        check(&black, &["http://www.xx.com"], Some("go away"));
        check(&black, &["https://yy.com"], None);
        check(&black, &[], Some("go away"));
    }
}
