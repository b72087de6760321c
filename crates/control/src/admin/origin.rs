//! Whether a request of a browser comes from a page of this origin. A browser adds cookies, and reaches
//! addresses that only its user can reach, for pages of every origin; so a request that is not held back by a
//! key in its header must come from this origin, under a name that no other site can point here (DNS
//! rebinding).

use std::net::IpAddr;

use http::{HeaderMap, header};

/// Whether a field shows that the request comes from a page of another origin. Browsers do not let a page set
/// the two fields that are read. A request with neither is not from another origin as far as it can be known:
/// tools send none.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    let is_named = only(headers, SITE).is_some() || only(headers, ORIGIN).is_some();
    is_named && !is_same(headers)
}

/// Whether the request comes from a page of this origin, or from the user directly: `Sec-Fetch-Site` decides
/// if it is present, otherwise `Origin` must name the host and port of `Host`. A request with neither field
/// is refused, because any page may have sent it.
pub(super) fn is_same(headers: &HeaderMap) -> bool {
    if let Some(site) = only(headers, SITE) {
        return matches!(site, Some("same-origin" | "none"));
    }
    let (Some(Some(origin)), Some(Some(host))) = (only(headers, ORIGIN), only(headers, "host")) else {
        return false;
    };
    // The scheme is not compared, because a proxy in front may terminate TLS.
    let Some((scheme, origin)) = origin.split_once("://") else { return false };
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let plain = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    !origin.is_empty() && plain(origin) == plain(host)
}

/// Whether `Host` is a name that no site of the Internet can point to this instance: an address, a name
/// without a dot, a name below a suffix that is not delegated, or one of `names`. A request without the field
/// is from no browser.
pub(super) fn is_own_host(headers: &HeaderMap, names: &[String]) -> bool {
    let host = match only(headers, header::HOST.as_str()) {
        None => return true,
        Some(None) => return false,
        Some(Some(host)) => host,
    };
    if let Some(address) = host.strip_prefix('[') {
        return address.split_once(']').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_below = |suffix: &&str| {
        name.len() > suffix.len() && name.is_char_boundary(name.len() - suffix.len()) && {
            let (_, end) = name.split_at(name.len() - suffix.len());
            end.eq_ignore_ascii_case(suffix)
        }
    };
    !name.is_empty()
        && (!name.contains('.')
            || PRIVATE_SUFFIXES.iter().any(is_below)
            || names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

/// The value of a header field; `Some(None)` if the field is repeated or is not text.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<Option<&'h str>> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(first.to_str().ok().filter(|_| all.next().is_none()))
}

const SITE: &str = "sec-fetch-site";
const ORIGIN: &str = "origin";
/// Suffixes that have no public names: RFC 6761 (`localhost`), RFC 6762 (`local`, also of Kubernetes'
/// `cluster.local`) and the suffix that ICANN has reserved for private use.
const PRIVATE_SUFFIXES: [&str; 3] = [".localhost", ".local", ".internal"];

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn page_of_another_origin_is_told_apart() {
        let check = |fields: &[(&'static str, &'static str)], foreign: bool, same: bool| {
            let headers = headers(&[fields, &[("host", "a.example:9180")]].concat());
            assert_eq!((is_foreign(&headers), is_same(&headers)), (foreign, same), "{fields:?}");
        };
        check(&[], false, false);
        check(&[("sec-fetch-site", "same-origin")], false, true);
        check(&[("sec-fetch-site", "none")], false, true);
        check(&[("sec-fetch-site", "cross-site")], true, false);
        check(&[("sec-fetch-site", "same-site")], true, false);
        check(&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], true, false);
        check(&[("origin", "http://a.example:9180")], false, true);
        check(&[("origin", "http://b.example")], true, false);
        check(&[("origin", "null")], true, false);
        check(&[("origin", "file://")], true, false);
    }

    #[test]
    fn host_that_others_can_point_here_is_told_apart() {
        let names = ["weir.example.org".to_owned()];
        let check = |host: &'static str, expected: bool| {
            assert_eq!(is_own_host(&headers(&[("host", host)]), &names), expected, "{host}");
        };
        check("127.0.0.1:9180", true);
        check("10.0.0.5", true);
        check("[::1]:9180", true);
        check("[fe80::1", false);
        check("localhost:9180", true);
        check("LOCALHOST", true);
        check("weir:9180", true);
        check("weir.ingress.svc.cluster.local:9180", true);
        check("Weir.Example.org:443", true);
        check("weir.example.org.:443", true);
        check("evil.example:9180", false);
        check("127.0.0.1.evil.example", false);
        check("localhost.evil.example", false);
        check(".local", false);
        check("", false);
        assert!(is_own_host(&headers(&[]), &names));
        assert!(!is_own_host(&headers(&[("host", "localhost"), ("host", "localhost")]), &names));
    }
}
