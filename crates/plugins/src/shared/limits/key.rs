//! The key that a request is counted under: the client's address, a constant, or a text with variables. It
//! counts nothing.

use std::io::Write;
use std::net::IpAddr;

use exchange::Exchange;
use router::vars::{BuiltinVariable, Template, VariableSource};
use serde_json::Value;
use stdx::hash::crc32;

use crate::shared::config;

/// A compiled key; requests with the same value are counted together.
pub(crate) enum LimitKey {
    ClientAddress,
    Constant(Box<[u8]>),
    /// Replaced by the client's address if no variable in it has a value.
    Rendered(Template),
    /// The key of one of several rules: the rule does not apply if no variable in it has a value.
    RenderedOrSkip(Template),
}

impl LimitKey {
    /// The key that is the variable `name`.
    ///
    /// # Errors
    /// There can be no variable of this name.
    pub(crate) fn variable(name: &str) -> Result<LimitKey, String> {
        if name == BuiltinVariable::RemoteAddr.name() {
            return Ok(LimitKey::ClientAddress);
        }
        template(&format!("${{{name}}}")).map(LimitKey::Rendered)
    }

    /// The key that is a text with variables.
    ///
    /// # Errors
    /// The text is no template.
    pub(crate) fn combination(text: &str) -> Result<LimitKey, String> {
        template(text).map(LimitKey::Rendered)
    }

    /// The key of one of several rules.
    ///
    /// # Errors
    /// The text is no template.
    pub(crate) fn of_rule(text: &str) -> Result<LimitKey, String> {
        template(text).map(LimitKey::RenderedOrSkip)
    }

    /// Appends the key of rule `rule` for a table of this process; false if the rule does not apply. An
    /// address is written as its octets behind a zero byte, with which no text of a request begins.
    pub(crate) fn write_local(&self, rule: usize, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        self.write_of(rule, exchange, exchange.client_address(), out)
    }

    /// As [`LimitKey::write_local`], of any source of variables, with the address of its client.
    pub(crate) fn write_of(
        &self,
        rule: usize,
        source: &impl VariableSource,
        client: IpAddr,
        out: &mut Vec<u8>,
    ) -> bool {
        match self {
            LimitKey::ClientAddress => write_octets(client, out),
            LimitKey::Constant(_) => {}
            LimitKey::Rendered(template) => {
                if template.render_apart(source, out) == 0 {
                    out.clear();
                    write_octets(client, out);
                }
            }
            LimitKey::RenderedOrSkip(template) => {
                // Rules share a table, so each key begins with the number of its rule.
                out.extend_from_slice(&rule.to_be_bytes());
                return template.render_apart(source, out) > 0;
            }
        }
        true
    }

    /// Appends the key of rule `rule` as the text that a shared store holds; false if the rule does not
    /// apply. Without rules it is the text that APISIX uses, so that gateways of both kinds count together,
    /// unless values of variables hold what stands between these in the key. Rules share a store, so each of
    /// their keys begins with the number of its rule.
    pub(crate) fn write_shared(&self, rule: usize, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        let address = |out: &mut Vec<u8>| {
            // Writing into memory does not fail.
            let _ = write!(out, "{}", exchange.client_address());
        };
        match self {
            LimitKey::ClientAddress => address(out),
            LimitKey::Constant(text) => out.extend_from_slice(text),
            LimitKey::Rendered(template) => {
                let begin = out.len();
                if template.render_apart(exchange, out) == 0 {
                    out.truncate(begin);
                    address(out);
                }
            }
            LimitKey::RenderedOrSkip(template) => {
                // Writing into memory does not fail.
                let _ = write!(out, "rule{}:", rule + 1);
                return template.render_apart(exchange, out) > 0;
            }
        }
        true
    }
}

/// The beginning of keys in a shared store: the object that the limit stands in and a checksum of its
/// configuration, as in APISIX. Gateways with the same configuration have the same prefix; passwords, which
/// may change, are not part of it.
pub(crate) fn shared_prefix(owner: &str, config: &Value) -> String {
    let mut counted = config.clone();
    if let Value::Object(fields) = &mut counted {
        fields.retain(|name, _| !name.ends_with("_password"));
    }
    let version = crc32(config::identity(&counted).as_bytes());
    format!("/apisix/{}:{version}:", owner.trim_start_matches('/'))
}

fn template(text: &str) -> Result<Template, String> {
    Template::compile(text).map_err(|error| format!("key: {error}"))
}

fn write_octets(address: IpAddr, out: &mut Vec<u8>) {
    out.push(0);
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::testing::Scene;
    use serde_json::json;

    #[test]
    fn prefix_follows_object_and_configuration() {
        let prefix = |owner: &str, config: Value| shared_prefix(owner, &config);
        let first = prefix("/routes/1", json!({ "rate": 1, "burst": 2, "redis_password": "a" }));
        assert!(first.starts_with("/apisix/routes/1:") && first.ends_with(':'), "{first}");
        assert_eq!(
            first,
            prefix("routes/1", json!({ "burst": 2, "rate": 1, "redis_password": "b", "_meta": {} }))
        );
        assert_ne!(first, prefix("routes/1", json!({ "burst": 3, "rate": 1 })));
        assert_ne!(first, prefix("routes/2", json!({ "rate": 1, "burst": 2 })));
    }

    #[test]
    fn shared_keys_are_texts_as_in_apisix() {
        let mut scene = Scene::new();
        let exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n\r\n");
        let check = |key: LimitKey, expected: Option<&str>| {
            let mut out = b"prefix:".to_vec();
            let applies = key.write_shared(1, &exchange, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(applies.then_some(&*text), expected.map(|key| format!("prefix:{key}")).as_deref());
        };
        check(LimitKey::variable("remote_addr").unwrap(), Some("127.0.0.1"));
        check(LimitKey::variable("http_a").unwrap(), Some("1"));
        check(LimitKey::variable("http_b").unwrap(), Some("127.0.0.1"));
        check(LimitKey::combination("$http_a $http_b").unwrap(), Some("1 "));
        check(LimitKey::combination("$http_b x").unwrap(), Some("127.0.0.1"));
        check(LimitKey::combination("$http_a $request").unwrap(), Some("1 GET%20/%20HTTP/1.1"));
        check(LimitKey::of_rule("${http_a}").unwrap(), Some("rule2:1"));
        check(LimitKey::of_rule("${http_b}").unwrap(), None);
        check(LimitKey::Constant(b"all".as_slice().into()), Some("all"));
    }
}
