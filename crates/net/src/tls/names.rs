//! The names of TLS parameters as users of OpenSSL and nginx write and read them, for the parameters that
//! rustls has.

use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion, SupportedCipherSuite};

/// Cipher suites with OpenSSL's names.
const SUITES: [(CipherSuite, &str); 9] = [
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// Groups for the key exchange with OpenSSL's names; further spellings behind the first.
const CURVES: [(NamedGroup, &[&str]); 4] = [
    (NamedGroup::X25519MLKEM768, &["X25519MLKEM768"]),
    (NamedGroup::X25519, &["X25519"]),
    (NamedGroup::secp256r1, &["prime256v1", "P-256", "secp256r1"]),
    (NamedGroup::secp384r1, &["secp384r1", "P-384"]),
];

/// The name of a suite, as `$ssl_cipher` shows it.
pub(crate) fn suite(suite: CipherSuite) -> &'static str {
    SUITES.iter().find(|(one, _)| *one == suite).map_or("UNKNOWN", |(_, name)| name)
}

/// The name of a group, as `$ssl_curve` shows it.
pub(crate) fn curve(group: NamedGroup) -> &'static str {
    CURVES.iter().find(|(one, _)| *one == group).map_or("UNKNOWN", |(_, names)| names[0])
}

/// The name of a version, as `$ssl_protocol` shows it.
pub(crate) fn version(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "UNKNOWN",
    }
}

/// The suites of `provider` that a list in OpenSSL's form names, in its order; suites of TLS 1.3 that it does
/// not name come first, because OpenSSL's list speaks of TLS 1.2 only.
///
/// # Errors
/// A name that rustls has no suite for, with those that it has.
pub(crate) fn suites(provider: &CryptoProvider, list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut named = Vec::new();
    for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        let found = SUITES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        let found =
            found.and_then(|(id, _)| provider.cipher_suites.iter().find(|suite| suite.suite() == *id));
        let known = || SUITES.map(|(_, name)| name).join(", ");
        let suite =
            found.ok_or_else(|| format!("{name} is no cipher suite that can be used: {}", known()))?;
        named.push(*suite);
    }
    if named.is_empty() {
        return Err("it names no cipher suite".to_owned());
    }
    if named.iter().all(|suite| suite.tls13().is_none()) {
        let of_13 = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some());
        named.splice(0..0, of_13.copied());
    }
    Ok(named)
}

/// Whether `list` names cipher suites that can be used.
///
/// # Errors
/// As a sentence; see `suites`.
pub fn check_suites(list: &str) -> Result<(), String> {
    suites(super::provider(), list).map(drop)
}

/// Whether `list` names curves that can be used.
///
/// # Errors
/// As a sentence; see `curves`.
pub fn check_curves(list: &str) -> Result<(), String> {
    curves(super::provider(), list).map(drop)
}

/// The groups of `provider` that a list in OpenSSL's form names, in its order. `auto` is all of them.
///
/// # Errors
/// A name that rustls has no group for, with those that it has.
pub(crate) fn curves(
    provider: &CryptoProvider,
    list: &str,
) -> Result<Vec<&'static dyn SupportedKxGroup>, String> {
    if list.eq_ignore_ascii_case("auto") {
        return Ok(provider.kx_groups.clone());
    }
    let mut named = Vec::new();
    for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        let is_it = |known: &&str| known.eq_ignore_ascii_case(name);
        let found = CURVES.iter().find(|(_, names)| names.iter().any(is_it));
        let found = found.and_then(|(id, _)| provider.kx_groups.iter().find(|group| group.name() == *id));
        let known = || CURVES.map(|(_, names)| names[0]).join(", ");
        named.push(*found.ok_or_else(|| format!("{name} is no curve that can be used: {}", known()))?);
    }
    if named.is_empty() { Err("it names no curve".to_owned()) } else { Ok(named) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::provider;

    #[test]
    fn every_suite_and_curve_of_the_library_is_named() {
        for one in &provider().cipher_suites {
            assert_ne!(suite(one.suite()), "UNKNOWN", "{one:?}");
        }
        for one in &provider().kx_groups {
            assert_ne!(curve(one.name()), "UNKNOWN", "{one:?}");
        }
    }

    #[test]
    fn lists_are_read_or_refused_with_the_known_names() {
        fn named(list: &str) -> Result<Vec<&'static str>, String> {
            suites(provider(), list).map(|found| found.iter().map(|one| suite(one.suite())).collect())
        }
        let check = |list: &str, expected: Result<Vec<&str>, &str>| match (named(list), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{list}"),
            (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{list}: {found}"),
            (found, _) => panic!("{list}: {found:?}"),
        };
        check(
            "ECDHE-RSA-AES128-GCM-SHA256",
            Ok(vec![
                "TLS_AES_256_GCM_SHA384",
                "TLS_AES_128_GCM_SHA256",
                "TLS_CHACHA20_POLY1305_SHA256",
                "ECDHE-RSA-AES128-GCM-SHA256",
            ]),
        );
        check("TLS_AES_128_GCM_SHA256", Ok(vec!["TLS_AES_128_GCM_SHA256"]));
        check("DHE-RSA-AES128-GCM-SHA256", Err("DHE-RSA-AES128-GCM-SHA256 is no cipher suite"));
        check("", Err("it names no cipher suite"));
        assert_eq!(curves(provider(), "P-256:x25519").unwrap().len(), 2);
        assert!(curves(provider(), "P-521").unwrap_err().contains("X25519MLKEM768, X25519, prime256v1"));
        assert_eq!(curves(provider(), "auto").unwrap().len(), provider().kx_groups.len());
    }
}
