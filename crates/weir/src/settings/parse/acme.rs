//! Values of the settings of ACME: names, authorities, challenges, accounts. It opens no connection.

use control::acme::{ChallengeKind, checked_name};
use data_encoding::BASE64URL_NOPAD;
use stdx::nearest::nearest;

use super::super::values::ExternalAccounts;
use super::super::written::SettingTexts;
use super::{items, single};

/// The names of certificates, each entry one certificate with names separated by spaces.
pub(in super::super) fn acme_domains(given: &SettingTexts) -> Result<Vec<Vec<String>>, String> {
    let certificates: Vec<Vec<String>> = items(given)
        .into_iter()
        .map(|entry| entry.split_whitespace().map(checked_name).collect())
        .collect::<Result<_, _>>()?;
    if certificates.len() > CERTIFICATES_MAX {
        return Err(format!("has {} certificates; at most {CERTIFICATES_MAX} are taken", certificates.len()));
    }
    if let Some(names) = certificates.iter().find(|names| names.len() > NAMES_MAX) {
        return Err(format!("one certificate has {} names; at most {NAMES_MAX} are taken", names.len()));
    }
    let mut first: Vec<&String> = certificates.iter().filter_map(|names| names.first()).collect();
    first.sort_unstable();
    match first.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(format!("two certificates begin with `{}`; put their names into one entry", pair[0]))
        }
        None => Ok(certificates),
    }
}

/// Names, each for itself.
pub(in super::super) fn acme_names(given: &SettingTexts) -> Result<Vec<String>, String> {
    items(given).into_iter().map(checked_name).collect()
}

/// An address of electronic mail, or nothing.
pub(in super::super) fn email(given: &SettingTexts) -> Result<Option<String>, String> {
    let text = single(given)?;
    if text.is_empty() {
        return Ok(None);
    }
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,:?".contains(&byte));
    match text.split_once('@') {
        Some((user, host)) if is_plain && !user.is_empty() && host.contains('.') => Ok(Some(text.to_owned())),
        _ => Err(format!("`{text}` is not an address such as `ops@example.com`")),
    }
}

/// URLs of directories; some have names.
pub(in super::super) fn acme_authorities(given: &SettingTexts) -> Result<Vec<String>, String> {
    let known = || AUTHORITIES.iter().map(|(name, _)| *name);
    let authority = |text: &str| {
        if let Some((_, url)) = AUTHORITIES.iter().find(|(name, _)| *name == text) {
            return Ok((*url).to_owned());
        }
        let host = text.strip_prefix("https://").or_else(|| {
            // Plain HTTP only to this machine, because a third party on the way could read and change orders.
            let rest = text.strip_prefix("http://")?;
            (rest.starts_with("127.0.0.1") || rest.starts_with("[::1]")).then_some(rest)
        });
        match host {
            Some(host) if !host.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(text.to_owned())
            }
            _ => Err(match nearest(text, known()) {
                Some(near) => format!("`{text}` is no authority; did you mean `{near}`?"),
                None => format!(
                    "`{text}` is not the https URL of a directory, nor one of {}",
                    known().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    };
    match items(given)[..] {
        [] => Err("is empty; write at least one URL of a directory".to_owned()),
        ref all => all.iter().map(|text| authority(text)).collect(),
    }
}

/// Names of challenges, the preferred one first.
pub(in super::super) fn acme_challenges(given: &SettingTexts) -> Result<Vec<ChallengeKind>, String> {
    let challenge = |text: &str| {
        let known = ChallengeKind::ALL.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, kind)| kind).ok_or_else(|| {
            let names: Vec<&str> = ChallengeKind::ALL.into_iter().map(|(name, _)| name).collect();
            format!("`{text}` is no challenge; write {}", names.join(", "))
        })
    };
    match items(given)[..] {
        [] => Err("is empty; write at least one challenge, such as `http-01`".to_owned()),
        ref all => all.iter().map(|text| challenge(text)).collect(),
    }
}

/// Ids and keys of external accounts, in the order of the authorities. A fault does not repeat the key.
pub(in super::super) fn external_accounts(given: &SettingTexts) -> Result<ExternalAccounts, String> {
    let account = |text: &str| {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let (id, key) = text.split_once(':').ok_or("each account is written as `ID:KEY`")?;
        let key = BASE64URL_NOPAD.decode(key.trim_end_matches('=').as_bytes());
        match key {
            Ok(key) if !key.is_empty() && !id.is_empty() => Ok(Some((id.to_owned(), key))),
            _ => Err(format!("the key of account `{id}` is not base64url, or empty")),
        }
    };
    let texts = given.values.iter().flat_map(|text| text.split(','));
    texts.map(account).collect::<Result<_, _>>().map(ExternalAccounts::new)
}

/// Authorities with names of their own.
const AUTHORITIES: [(&str, &str); 3] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
];

/// Certificates of one list; more than that are certificates on demand, or objects.
const CERTIFICATES_MAX: usize = 10_000;
/// Names of one certificate, as Let's Encrypt allows.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::fault::SettingLocation;

    fn given(text: &str) -> SettingTexts {
        let values = if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        SettingTexts { values, place: SettingLocation::Flag }
    }

    fn check<T: std::fmt::Debug>(
        parse: fn(&SettingTexts) -> Result<T, String>,
        text: &str,
        expected: Result<&str, &str>,
    ) {
        match (parse(&given(text)), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(format!("{found:?}"), expected),
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn names_are_grouped_by_certificate() {
        check(acme_domains, "", Ok("[]"));
        check(
            acme_domains,
            "Shop.example www.shop.example, b.example",
            Ok(r#"[["shop.example", "www.shop.example"], ["b.example"]]"#),
        );
        check(acme_domains, "a.example, a.example b.example", Err("two certificates begin with `a.example`"));
        check(acme_domains, "localhost", Err("is no full name"));
        check(acme_names, "*.shop.example, a.example", Ok(r#"["*.shop.example", "a.example"]"#));
    }

    #[test]
    fn addresses_authorities_and_challenges() {
        check(email, "ops@example.com", Ok(r#"Some("ops@example.com")"#));
        check(email, "", Ok("None"));
        for wrong in ["ops", "@example.com", "ops@example", "a b@example.com", "mailto:ops@example.com"] {
            check(email, wrong, Err("is not an address"));
        }
        check(acme_authorities, "zerossl", Ok(r#"["https://acme.zerossl.com/v2/DV90"]"#));
        check(acme_authorities, "https://ca.example/dir", Ok(r#"["https://ca.example/dir"]"#));
        check(acme_authorities, "http://127.0.0.1:1/dir", Ok(r#"["http://127.0.0.1:1/dir"]"#));
        check(acme_authorities, "http://ca.example/dir", Err("is not the https URL"));
        check(acme_authorities, "letsencript", Err("did you mean `letsencrypt`?"));
        check(acme_challenges, "dns-01, http-01", Ok("[Dns01, Http01]"));
        check(acme_challenges, "http", Err("`http` is no challenge; write http-01, tls-alpn-01, dns-01"));
    }

    #[test]
    fn external_accounts_are_not_shown() {
        check(external_accounts, "kid:c2VjcmV0", Ok("(1 accounts)"));
        let accounts = external_accounts(&given(",kid:c2VjcmV0")).unwrap();
        assert_eq!(
            (accounts.reveal(0), accounts.reveal(1)),
            (None, Some(("kid".to_owned(), b"secret".to_vec())))
        );
        check(external_accounts, "kid:se cret", Err("the key of account `kid` is not base64url"));
        check(external_accounts, "secret", Err("each account is written as `ID:KEY`"));
    }
}
