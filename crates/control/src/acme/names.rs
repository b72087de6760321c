//! Names that a certificate can have, rules that allow names, and the ids of objects for them. It opens no
//! connection.

use data_encoding::HEXLOWER;
use model::{Id, ObjectKey, ObjectKind};

/// A name in the form that certificates have: lower case, no dot at the end.
///
/// # Errors
/// A sentence that says what to write instead.
pub fn checked(name: &str) -> Result<String, String> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let plain = name.strip_prefix("*.").unwrap_or(&name);
    let refuse = |why: &str| Err(format!("`{name}` {why}"));
    if plain.parse::<std::net::IpAddr>().is_ok() {
        return refuse("is an address; write a name such as `shop.example`");
    }
    if !name.is_ascii() {
        return refuse("has letters outside ASCII; write it as authorities know it, with `xn--`");
    }
    if name.len() > NAME_BYTES_MAX || !plain.contains('.') || !plain.split('.').all(is_label) {
        return refuse("is no full name; write one such as `shop.example` or `*.shop.example`");
    }
    Ok(name)
}

/// Whether it is a label of a host name (RFC 1123 section 2.1).
fn is_label(label: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    label.len() <= LABEL_BYTES_MAX
        && is_edge(label.bytes().next())
        && is_edge(label.bytes().next_back())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether one of the rules allows `name`: the same name, or `*.` and all behind its first label.
pub(super) fn is_allowed(rules: &[String], name: &str) -> bool {
    let parent = name.split_once('.').map(|(_, parent)| parent);
    rules.iter().any(|rule| match rule.strip_prefix("*.") {
        Some(rule) => parent == Some(rule),
        None => rule == name,
    })
}

/// Whether a certificate for `covering` serves `name`.
pub(super) fn covers(covering: &str, name: &str) -> bool {
    covering == name || (!name.starts_with("*.") && is_allowed(&[covering.to_owned()], name))
}

/// The id of the certificate that has these names, which is made from the first one.
pub(super) fn id_of(names: &[String]) -> String {
    let first = names.first().map_or("", String::as_str);
    let id = format!("{ID_PREFIX}{}", first.replacen('*', "wildcard", 1));
    if Id::new(&id).is_ok() {
        return id;
    }
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, first.as_bytes());
    let digest = HEXLOWER.encode(&digest.as_ref()[..HASH_BYTES]);
    format!("{}-{digest}", &id[..model::ID_BYTES_MAX - digest.len() - 1])
}

/// The key of the `ssls` object with that id.
pub(super) fn key_of(id: &str) -> Option<ObjectKey> {
    ObjectKey::new(ObjectKind::Ssl, id).ok()
}

/// The beginning of every id of a certificate that is managed here.
const ID_PREFIX: &str = "acme-";
/// A name in DNS (RFC 1035 section 2.3.4), without the dot at its end.
const NAME_BYTES_MAX: usize = 253;
/// A label in DNS.
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of the digest that tells long names with the same beginning apart.
const HASH_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_brought_into_form() {
        let check = |name: &str, expected: Result<&str, &str>| match (checked(name), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{name}: {found:?}"),
        };
        check("Shop.Example.", Ok("shop.example"));
        check("*.shop.example", Ok("*.shop.example"));
        check("xn--bcher-kva.example", Ok("xn--bcher-kva.example"));
        check("bücher.example", Err("outside ASCII"));
        check("127.0.0.1", Err("is an address"));
        check("::1", Err("is an address"));
        for wrong in [
            "",
            "localhost",
            "a..example",
            "*.",
            "a.*.example",
            "-a.example",
            "a_b.example",
            "a b.c",
            "/../x.y",
        ] {
            check(wrong, Err("is no full name"));
        }
        check(&format!("{}.example", "a".repeat(64)), Err("is no full name"));
        check(&format!("{}example", "a.".repeat(130)), Err("is no full name"));
    }

    #[test]
    fn rules_allow_one_label_below() {
        let rules = ["a.example".to_owned(), "*.shop.example".to_owned()];
        let check = |name: &str, expected: bool| assert_eq!(is_allowed(&rules, name), expected, "{name}");
        check("a.example", true);
        check("b.example", false);
        check("x.shop.example", true);
        check("x.y.shop.example", false);
        check("shop.example", false);
        assert!(covers("*.shop.example", "x.shop.example") && covers("*.a.example", "*.a.example"));
        assert!(!covers("*.a.example", "*.b.example") && !covers("a.example", "x.a.example"));
    }

    #[test]
    fn ids_are_valid_and_tell_names_apart() {
        let id = |name: &str| id_of(&[name.to_owned()]);
        assert_eq!(id("shop.example"), "acme-shop.example");
        assert_eq!(id("*.shop.example"), "acme-wildcard.shop.example");
        let long = |end: &str| format!("{}{end}", "abcdefghi.".repeat(20));
        let (one, other) = (id(&long("example")), id(&long("test")));
        assert_ne!(one, other);
        for id in [one, other] {
            assert!(key_of(&id).is_some(), "{id}");
        }
    }
}
