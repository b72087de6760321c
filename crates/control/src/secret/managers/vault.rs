//! HashiCorp Vault's key-value engines, both versions, over its HTTP API: the request for a path and the
//! content of an answer. It knows no sockets and caches.
//!
//! Facts: contract section 2.3; `GET {uri}/v1/{prefix}/{path}` with `X-Vault-Token` and `X-Vault-Namespace`.
//! Version 1 answers `{"data": {key: text}}`. Version 2 has a prefix that ends in `/data`, and answers
//! `{"data": {"data": {…}, "metadata": {…}}}`.

use jsonx::Bounds;
use model::secret_reference::SecretReference;
use outbound::bounded_request::{BoundedAnswer, BoundedRequest};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::secret::cache::{SecretFailure, SecretFields, read_secret_text};
use crate::secret::environment::{self, SecretEnvironment};
use crate::secret::manager::SecretManager;

/// The manager `vault`.
pub(super) struct Vault;

impl SecretManager for Vault {
    fn name(&self) -> &'static str {
        "vault"
    }

    fn request(
        &self,
        manager: &Value,
        path: &str,
        lookup: SecretEnvironment,
    ) -> Result<BoundedRequest, SecretFailure> {
        let text = |name: &str| manager.get(name).and_then(Value::as_str).unwrap_or_default();
        let token = match SecretReference::parse(text("token")) {
            None => text("token").to_owned(),
            Some(SecretReference::Environment { name, key }) => environment::value(lookup, name, key)
                .map_err(|reason| {
                    SecretFailure::passing(format!("the token of the manager leads nowhere: {reason}"))
                })?,
            Some(_) => {
                return Err(SecretFailure::passing(
                    "the token of a manager may be a $env:// reference, and no other",
                ));
            }
        };
        let mut target = "/v1".to_owned();
        for segment in text("prefix").split('/').chain(path.split('/')).filter(|segment| !segment.is_empty())
        {
            // Otherwise a writer of references could read paths outside of the prefix.
            if matches!(segment, "." | "..") {
                return Err(SecretFailure::passing("a path of a secret has no `.` or `..`"));
            }
            target.push('/');
            target.extend(utf8_percent_encode(segment, SEGMENT));
        }
        let mut headers = vec![("x-vault-token", token)];
        if !text("namespace").is_empty() {
            headers.push(("x-vault-namespace", text("namespace").to_owned()));
        }
        Ok(BoundedRequest { base: text("uri").to_owned(), target, headers, body: None })
    }

    fn read(&self, got: &BoundedAnswer) -> Result<SecretFields, SecretFailure> {
        match got.status {
            200 => {}
            401 | 403 => {
                return Err(SecretFailure::passing(format!("vault refuses the token ({})", got.status)));
            }
            404 => {
                return Err(SecretFailure {
                    reason: "vault has nothing at this path (404)".to_owned(),
                    gone: true,
                });
            }
            300..=399 => {
                return Err(SecretFailure::passing(format!(
                    "vault answers with a redirect ({}), which is not followed",
                    got.status
                )));
            }
            status => return Err(SecretFailure::passing(format!("vault answers with status {status}"))),
        }
        let answer = jsonx::parse(&got.body, Bounds::SMALL)
            .map_err(|_| SecretFailure::passing("vault's answer is not JSON"))?
            .value;
        let data = answer.get("data").and_then(jsonx::Value::as_object);
        let data = data.ok_or_else(|| SecretFailure::passing("vault's answer has no data"))?;
        let inner = data
            .get("data")
            .and_then(jsonx::Value::as_object)
            .filter(|_| data.get("metadata").is_some_and(|metadata| metadata.as_object().is_some()));
        let fields = inner.unwrap_or(data);
        if fields.len() > MAX_FIELDS {
            return Err(SecretFailure::passing(format!("vault's answer has more than {MAX_FIELDS} fields")));
        }
        let field = |(name, value): (&str, &jsonx::Value)| {
            let text =
                read_secret_text(value).filter(|text| !text.is_empty() && text.len() <= MAX_VALUE_BYTES)?;
            Some((name.into(), text))
        };
        Ok(fields.iter().filter_map(field).collect())
    }
}

/// The characters of a path segment (RFC 3986 section 3.3) that stay unencoded: the unreserved ones only,
/// because servers may read others differently.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Limit of a value. A longer text is no key and no certificate chain; its field counts as missing.
const MAX_VALUE_BYTES: usize = 64 * 1024;
/// Limit of the fields of a path; a path with more fields is no secret.
const MAX_FIELDS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lookup(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "from-env".to_owned())
    }

    /// The target and the header fields.
    type Expected<'e> = (&'e str, &'e [(&'e str, &'e str)]);

    #[test]
    fn request_is_made_from_manager_and_path() {
        let check = |manager: Value, path: &str, expected: Result<Expected<'_>, &str>| match (
            Vault.request(&manager, path, lookup),
            expected,
        ) {
            (Ok(get), Ok((target, headers))) => {
                let found: Vec<(&str, &str)> =
                    get.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                assert_eq!((&*get.target, &*found), (target, headers));
            }
            (Err(failure), Err(expected)) => assert!(failure.reason.contains(expected), "{failure:?}"),
            (got, _) => panic!("{got:?}"),
        };
        let vault = |prefix: &str, token: &str| json!({"uri": "http://v", "prefix": prefix, "token": token});
        check(vault("kv/apisix", "t"), "jack", Ok(("/v1/kv/apisix/jack", &[("x-vault-token", "t")])));
        check(vault("/kv/", "$ENV://TOKEN"), "a//b", Ok(("/v1/kv/a/b", &[("x-vault-token", "from-env")])));
        check(
            json!({"uri": "http://v", "prefix": "kv", "token": "t", "namespace": "n/s"}),
            "a b?c#d",
            Ok(("/v1/kv/a%20b%3Fc%23d", &[("x-vault-token", "t"), ("x-vault-namespace", "n/s")])),
        );
        check(vault("kv", "$env://GONE"), "a", Err("token of the manager leads nowhere"));
        check(vault("kv", "$secret://vault/2/a/b"), "a", Err("no other"));
        for path in ["..", "a/../b", "./a"] {
            check(vault("kv", "t"), path, Err("no `.` or `..`"));
        }
    }

    #[test]
    fn answer_gives_fields_or_failure() {
        let check = |status: u16, body: &str, expected: Result<&[(&str, &str)], (&str, bool)>| {
            let read = Vault.read(&BoundedAnswer { status, body: body.as_bytes().to_vec() });
            match (read, expected) {
                (Ok(fields), Ok(expected)) => {
                    let found: Vec<(&str, &str)> =
                        fields.iter().map(|(name, value)| (&**name, value.as_str())).collect();
                    assert_eq!(found, expected);
                }
                (Err(failure), Err((reason, gone))) => {
                    assert!(failure.reason.contains(reason) && failure.gone == gone, "{failure:?}");
                }
                (got, _) => panic!("{body}: {got:?}"),
            }
        };
        check(
            200,
            r#"{"data": {"a": "x", "b": 2, "c": null, "d": {}, "e": ""}}"#,
            Ok(&[("a", "x"), ("b", "2")]),
        );
        check(200, r#"{"data": {"data": {"a": "x"}, "metadata": {"version": 3}}}"#, Ok(&[("a", "x")]));
        // An answer of version 1 with a field of that name.
        check(200, r#"{"data": {"data": "x"}}"#, Ok(&[("data", "x")]));
        check(200, r#"{"data": {"data": null, "metadata": {}}}"#, Ok(&[]));
        check(200, r#"{"errors": []}"#, Err(("has no data", false)));
        check(200, "<html>", Err(("not JSON", false)));
        check(403, r#"{"errors":["permission denied"]}"#, Err(("refuses the token (403)", false)));
        check(404, r#"{"errors":[]}"#, Err(("nothing at this path", true)));
        check(307, "", Err(("redirect (307)", false)));
        check(503, "sealed", Err(("status 503", false)));
        let many: serde_json::Map<String, Value> =
            (0..=MAX_FIELDS).map(|n| (n.to_string(), json!("x"))).collect();
        check(200, &json!({"data": many}).to_string(), Err(("more than", false)));
        let long = json!({"data": {"a": "x".repeat(MAX_VALUE_BYTES + 1), "b": "y"}});
        check(200, &long.to_string(), Ok(&[("b", "y")]));
    }
}
