//! The key of a stored response: method, scheme, the authority in the form in which the upstream is told of
//! it, the user where there is one, then the values that the configuration lists. Every part has its length
//! in front, so that no request can be written that has the key of another one.

use aws_lc_rs::digest;
use exchange::Exchange;
use exchange::exchange::forwarded;
use message::{FieldId, Method};
use router::vars::{BuiltinVariable as Builtin, Variable, VariableSource};

/// A key, made when the configuration is compiled.
pub(super) struct KeyTemplate {
    parts: Box<[CacheKeyPart]>,
    /// Consumers have entries of their own.
    isolates_consumers: bool,
    /// The parts hold the Authorization field itself.
    names_authorization: bool,
    /// The parts hold the path.
    names_path: bool,
    /// The key is the [`GivenKey`] of the request; all other parts are empty.
    is_given: bool,
}

/// The key of a request, in the state of a plugin that makes keys itself.
#[derive(Default)]
pub(super) struct GivenKey(pub(super) Box<[u8]>);

enum CacheKeyPart {
    Text(Box<str>),
    Variable(Variable),
}

/// Texts and variables. Their values, one behind the other, say yes or no: yes unless the result is empty or
/// `0`.
pub(super) struct Flag(Box<[CacheKeyPart]>);

impl KeyTemplate {
    /// Compiles the entries of `cache_key`.
    ///
    /// # Errors
    /// An entry that is not supported.
    pub(super) fn compile(entries: &[String], consumer_isolation: bool) -> Result<KeyTemplate, String> {
        if entries.iter().any(|entry| entry == "$request_method") {
            return Err("cache_key variable $request_method unsupported".to_owned());
        }
        let parts = parts(entries)?;
        let is_identity = |part: &CacheKeyPart| match part {
            CacheKeyPart::Variable(Variable::Builtin(builtin)) => {
                matches!(builtin, Builtin::ConsumerName | Builtin::ConsumerGroupId | Builtin::RemoteUser)
            }
            other => is_authorization(other),
        };
        Ok(KeyTemplate {
            isolates_consumers: consumer_isolation && !parts.iter().any(is_identity),
            names_authorization: parts.iter().any(is_authorization),
            names_path: parts.iter().any(is_path),
            is_given: false,
            parts,
        })
    }

    /// The key that each request brings as its [`GivenKey`].
    pub(super) fn given() -> KeyTemplate {
        KeyTemplate {
            parts: Box::default(),
            isolates_consumers: false,
            names_authorization: false,
            names_path: false,
            is_given: true,
        }
    }

    /// Appends the key of a request; GET and HEAD have the same.
    pub(super) fn write(&self, exchange: &Exchange, method: Method, key: &mut Vec<u8>) {
        if self.is_given {
            return key.extend_from_slice(exchange.peek_state::<GivenKey>().map_or(&[], |given| &given.0));
        }
        key.push(if method == Method::Post { b'p' } else { b'g' });
        append_length_prefixed(key, |key| {
            key.extend_from_slice(exchange.connection.scheme.as_str().as_bytes())
        });
        write_authority(exchange, key);
        match exchange.consumer() {
            Some(consumer) if self.isolates_consumers => {
                key.push(b'c');
                append_length_prefixed(key, |key| key.extend_from_slice(consumer.username.as_bytes()));
            }
            _ => key.push(b'-'),
        }
        // Beside the consumer too: the credentials may be those of an end user, which the upstream checks
        // (RFC 9111 section 3.5).
        self.write_authorization(exchange, key);
        write_user_fields(exchange, key);
        for part in &self.parts {
            append_length_prefixed(key, |key| part.write(exchange, key));
        }
        if self.names_path {
            append_length_prefixed(key, |key| key.extend_from_slice(exchange.forward_path()));
        }
    }

    fn write_authorization(&self, exchange: &Exchange, key: &mut Vec<u8>) {
        let headers = &exchange.request.headers;
        if self.names_authorization || !headers.contains_known(FieldId::Authorization) {
            return key.push(b'-');
        }
        key.push(b'a');
        write_digest(headers.get_all_known(FieldId::Authorization), key);
    }
}

/// Appends the authority as the upstream is told of it, to the byte: a response with absolute links is made
/// for it, so that another spelling or port must not get this one.
fn write_authority(exchange: &Exchange, key: &mut Vec<u8>) {
    append_length_prefixed(key, |key| key.extend_from_slice(exchange.request.authority()));
    append_length_prefixed(key, |key| {
        key.extend_from_slice(exchange.target.forward_host.as_deref().unwrap_or_default())
    });
    key.extend_from_slice(&forwarded::observed_port(exchange).to_be_bytes());
    // Present only where a trusted proxy or a plugin has set them.
    let headers = &exchange.request.headers;
    for id in AUTHORITY_FIELDS.into_iter().filter(|id| headers.contains_known(*id)) {
        key.extend_from_slice(&[b'f', id as u8]);
        write_digest(headers.get_all_known(id), key);
    }
    key.push(b'-');
}

/// Fields by which the upstream learns under which authority it was asked.
const AUTHORITY_FIELDS: [FieldId; 4] =
    [FieldId::XForwardedHost, FieldId::XForwardedPort, FieldId::XForwardedProto, FieldId::Forwarded];

/// Appends what the gateway tells the upstream of the user beside `Authorization`.
fn write_user_fields(exchange: &Exchange, key: &mut Vec<u8>) {
    for name in &exchange.decision.user_fields {
        key.push(b'u');
        append_length_prefixed(key, |key| key.extend(name.bytes().map(|byte| byte.to_ascii_lowercase())));
        write_digest(exchange.request.headers.get_all(name), key);
    }
    key.push(b'-');
}

/// Appends a digest, so that no secret lies in the index of a zone or in its files.
fn write_digest<'a>(values: impl Iterator<Item = &'a [u8]>, key: &mut Vec<u8>) {
    let mut context = digest::Context::new(&digest::SHA256);
    for value in values {
        context.update(&(value.len() as u64).to_be_bytes());
        context.update(value);
    }
    key.extend_from_slice(context.finish().as_ref());
}

impl Flag {
    /// Compiles the entries of `cache_bypass` or `no_cache`.
    ///
    /// # Errors
    /// An entry that is not supported.
    pub(super) fn compile(entries: &[String]) -> Result<Flag, String> {
        parts(entries).map(Flag)
    }

    /// Whether it is set for this request.
    pub(super) fn is_set(&self, exchange: &Exchange) -> bool {
        let mut text = Vec::new();
        self.0.iter().for_each(|part| part.write(exchange, &mut text));
        !text.is_empty() && text != b"0"
    }
}

impl CacheKeyPart {
    fn write(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        match self {
            CacheKeyPart::Text(text) => out.extend_from_slice(text.as_bytes()),
            CacheKeyPart::Variable(variable) => {
                if let Some(value) = exchange.variable(variable) {
                    value.write_to(out);
                }
            }
        }
    }
}

fn parts(entries: &[String]) -> Result<Box<[CacheKeyPart]>, String> {
    let part = |entry: &String| match entry.strip_prefix('$') {
        Some(name) => {
            Variable::parse(name).map(CacheKeyPart::Variable).map_err(|reason| format!("{entry}: {reason}"))
        }
        None => Ok(CacheKeyPart::Text(entry.as_str().into())),
    };
    entries.iter().map(part).collect()
}

/// Whether a part is the path in one of its forms. The upstream gets it in the form of `forward_path`, which
/// may tell spellings apart that the decoded path does not, or be another path.
fn is_path(part: &CacheKeyPart) -> bool {
    let CacheKeyPart::Variable(Variable::Builtin(builtin)) = part else { return false };
    matches!(
        builtin,
        Builtin::Uri
            | Builtin::DocumentUri
            | Builtin::RequestUri
            | Builtin::RealRequestUri
            | Builtin::UpstreamUri
    )
}

fn is_authorization(part: &CacheKeyPart) -> bool {
    matches!(part, CacheKeyPart::Variable(Variable::Header(name)) if name.eq_ignore_ascii_case("authorization"))
}

/// Appends the bytes that `write` appends, with their length in front.
pub(super) fn append_length_prefixed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, consumer};

    use super::*;

    /// The key of a request with this host, target and fields.
    fn key(
        entries: &[&str],
        isolation: bool,
        user: Option<&str>,
        host: &str,
        target: &str,
        more: &str,
    ) -> Vec<u8> {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        let template = KeyTemplate::compile(&entries, isolation).unwrap();
        let mut scene = Scene::new();
        let mut exchange =
            scene.exchange(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes());
        if let Some(user) = user {
            exchange.authenticate(std::sync::Arc::new(consumer(user)));
        }
        let mut key = Vec::new();
        template.write(&exchange, Method::Get, &mut key);
        key
    }

    #[test]
    fn hosts_and_users_never_share_a_key() {
        let plain = |host: &str, more: &str| key(&["$uri"], true, None, host, "/a", more);
        assert_eq!(plain("a", ""), plain("a", "X-Other: b\r\n"));
        assert_ne!(plain("a", ""), plain("b", ""));
        let anne = plain("a", "Authorization: Basic YW5uZTph\r\n");
        assert_ne!(anne, plain("a", ""));
        assert_ne!(anne, plain("a", "Authorization: Basic YW5uZTpi\r\n"));
        let user = |isolation: bool, name: &str| key(&["$uri"], isolation, Some(name), "a", "/a", "");
        assert_ne!(user(true, "anne"), user(true, "bob"));
        assert_eq!(user(false, "anne"), user(false, "bob"));
        assert_ne!(user(true, "anne"), plain("a", ""));
        for isolation in [true, false] {
            let of = |more: &str| key(&["$uri"], isolation, Some("app"), "a", "/a", more);
            assert_ne!(of("Authorization: Bearer anne\r\n"), of("Authorization: Bearer bob\r\n"));
        }
    }

    #[test]
    fn forms_that_the_upstream_sees_divide_a_key() {
        let of =
            |host: &str, target: &str, more: &str| key(&["$host", "$uri"], true, None, host, target, more);
        let plain = of("shop.test", "/a/b", "");
        assert_eq!(plain, of("shop.test", "/a/%62", ""), "one canonical path is sent");
        for (host, target, more) in [
            ("shop.test:1337", "/a/b", ""),
            ("SHOP.test", "/a/b", ""),
            ("shop.test.", "/a/b", ""),
            ("shop.test", "/a%2Fb", ""),
        ] {
            assert_ne!(plain, of(host, target, more), "{host} {target} {more}");
        }
    }

    #[test]
    fn changed_targets_divide_a_key() {
        let template = KeyTemplate::compile(&["$request_uri".to_owned()], true).unwrap();
        let mut scene = Scene::new();
        let mut of = |change: fn(&mut Exchange)| {
            let mut exchange = scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            change(&mut exchange);
            let mut key = Vec::new();
            template.write(&exchange, Method::Get, &mut key);
            key
        };
        let plain = of(|_| {});
        assert_eq!(plain, of(|_| {}));
        let changes: [fn(&mut Exchange); 6] = [
            |exchange| exchange.set_forward_path(b"/b").unwrap(),
            |exchange| exchange.set_forward_host("b").unwrap(),
            |exchange| exchange.request.headers.set("X-Forwarded-Host", b"b").unwrap(),
            |exchange| exchange.request.headers.set("X-Forwarded-Port", b"1").unwrap(),
            |exchange| exchange.request.headers.set("X-Forwarded-Proto", b"https").unwrap(),
            |exchange| exchange.request.headers.set("Forwarded", b"host=b").unwrap(),
        ];
        let keys: Vec<Vec<u8>> = changes.into_iter().map(|change| of(change)).collect();
        for (at, key) in keys.iter().enumerate() {
            assert_ne!(*key, plain, "{at}");
            assert!(!keys[..at].contains(key), "{at}");
        }
    }

    #[test]
    fn fields_that_tell_the_user_divide_a_key() {
        let template = KeyTemplate::compile(&["$uri".to_owned()], true).unwrap();
        let mut scene = Scene::new();
        let mut of = |user: &str, is_set: bool| {
            let request = format!("GET /a HTTP/1.1\r\nHost: a\r\nX-Userinfo: {user}\r\n\r\n");
            let mut exchange = scene.exchange(request.as_bytes());
            exchange.decision.user_fields.extend(is_set.then(|| "X-Userinfo".into()));
            let mut key = Vec::new();
            template.write(&exchange, Method::Get, &mut key);
            key
        };
        assert_ne!(of("anne", true), of("bob", true));
        assert_eq!(of("anne", true), of("anne", true));
        assert_eq!(of("anne", false), of("bob", false), "a client may send what it likes");
    }

    #[test]
    fn schemes_never_share_a_key() {
        let template = KeyTemplate::compile(&["$uri".to_owned()], true).unwrap();
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let key = |exchange: &Exchange, method| {
            let mut key = Vec::new();
            template.write(exchange, method, &mut key);
            key
        };
        let plain = key(&exchange, Method::Get);
        assert_eq!(plain, key(&exchange, Method::Head));
        assert_ne!(plain, key(&exchange, Method::Post));
        exchange.connection.scheme = exchange::exchange::RequestScheme::Https;
        assert_ne!(plain, key(&exchange, Method::Get));
    }

    #[test]
    fn named_identity_replaces_isolation() {
        let group = |name: &str| key(&["$consumer_group_id", "$uri"], true, Some(name), "a", "/a", "");
        assert_eq!(group("anne"), group("bob"));
        let named = |name: &str| key(&["$consumer_name", "$uri"], true, Some(name), "a", "/a", "");
        assert_ne!(named("anne"), named("bob"));
    }

    #[test]
    fn parts_cannot_run_into_each_other() {
        let check = |target: &str| key(&["$arg_x", "$arg_y"], true, None, "a", target, "");
        assert_ne!(check("/?x=ab&y=c"), check("/?x=a&y=bc"));
        assert_ne!(
            key(&["$uri"], true, None, "a", "/a", ""),
            key(&["$request_uri"], true, None, "a", "/a?", "")
        );
    }

    #[test]
    fn method_is_no_part_of_a_key() {
        let refused = KeyTemplate::compile(&["$request_method".to_owned()], true).err();
        assert_eq!(refused.as_deref(), Some("cache_key variable $request_method unsupported"));
    }

    #[test]
    fn flag_is_set_unless_empty_or_zero() {
        let check = |entries: &[&str], query: &str, expected: bool| {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let flag = Flag::compile(&entries).unwrap();
            let mut scene = Scene::new();
            let exchange = scene.exchange(format!("GET /?{query} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(flag.is_set(&exchange), expected, "{entries:?} {query}");
        };
        check(&["$arg_a"], "", false);
        check(&["$arg_a"], "a=0", false);
        check(&["$arg_a"], "a=1", true);
        check(&["$arg_a", "$arg_b"], "b=0", false);
        check(&["$arg_a", "$arg_b"], "a=0&b=0", true);
    }
}
