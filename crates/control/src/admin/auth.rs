//! Access to the Admin API: addresses are checked against the allow list, callers by key and role, browsers by the
//! origin of the page that sent the request. Of a request it knows only whether it may change something.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, header};
use ipnet::IpNet;
use subtle::{Choice, ConstantTimeEq};

use super::query::Query;
use super::refusals::Refusals;

/// A key and what it allows.
#[derive(Clone)]
pub struct AdminKey {
    /// The text that the caller must send.
    pub key: String,
    /// The requests that the key allows.
    pub role: Role,
}

/// The requests that a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// All requests.
    Admin,
    /// Requests that change nothing; secrets are shown masked.
    Viewer,
}

/// Whether a request may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
}

/// The reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The key is missing, wrong, or its role does not allow the request; holds the contract's `description`.
    Token(&'static str),
    /// A browser sent the key in a cookie, and the page may be of another origin.
    CrossSite,
}

/// The access rules of one Admin API.
pub struct Gate {
    /// Accepted keys. An empty list refuses every request, unless `key_required` is off.
    keys: Vec<AdminKey>,
    /// `admin_key_required`.
    key_required: bool,
    /// Networks that may connect.
    allowed: Vec<IpNet>,
    /// Limits the log lines about refused callers.
    refusals: Refusals,
}

impl std::fmt::Debug for AdminKey {
    /// Leaves the key out, because debug output ends up in logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AdminKey").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate with these rules. An empty `allowed` means the contract's default, `127.0.0.0/24`, and `::1`.
    pub fn new(keys: Vec<AdminKey>, key_required: bool, allowed: Vec<IpNet>) -> Gate {
        let allowed = if allowed.is_empty() { default_networks() } else { allowed };
        Gate { keys, key_required, allowed, refusals: Refusals::default() }
    }

    /// Whether the peer's address is on the allow list.
    pub fn allows(&self, peer: SocketAddr) -> bool {
        let address = canonical(peer.ip());
        self.allowed.iter().any(|network| network.contains(&address))
    }

    /// Logs that `peer` was refused, with the answer's `description`; at most one line per address and interval.
    pub fn log_refusal(&self, peer: SocketAddr, message: &'static str, description: Option<&'static str>) {
        self.refusals.note(peer, message, description);
    }

    /// Checks the key, its role and, for a key in a cookie, the origin; returns the role.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn check(&self, head: &Parts, access: Access) -> Result<Role, Denied> {
        if !self.key_required {
            return Ok(Role::Admin);
        }
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let sent = query.get("api_key").map(str::to_owned).or_else(|| text(&head.headers, "x-api-key"));
        let is_cookie = sent.is_none();
        let sent =
            sent.or_else(|| cookie(&head.headers, "x_api_key")).ok_or(Denied::Token("missing apikey"))?;
        let role = self.role_of(&sent).ok_or(Denied::Token("wrong apikey"))?;
        if access == Access::Read {
            return Ok(role);
        }
        if role == Role::Viewer {
            return Err(Denied::Token("invalid method for role viewer"));
        }
        // Browsers add cookies to requests of any page, but a page of another origin cannot add the header, and does
        // not know the argument.
        if is_cookie && !is_same_origin(&head.headers) {
            return Err(Denied::CrossSite);
        }
        Ok(role)
    }

    /// The role of a key. Compares all keys in constant time, because timing would otherwise reveal a prefix of a key.
    fn role_of(&self, sent: &str) -> Option<Role> {
        let mut found = None;
        for known in &self.keys {
            let same: Choice = known.key.as_bytes().ct_eq(sent.as_bytes());
            // An empty key in the settings would admit requests with an empty `X-API-KEY`.
            if bool::from(same) && found.is_none() && !known.key.is_empty() {
                found = Some(known.role);
            }
        }
        found
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get_all(header::COOKIE).iter().find_map(|line| {
        let line = line.to_str().ok()?;
        line.split(';').find_map(|pair| {
            let (key, value) = pair.trim().split_once('=')?;
            (key == name).then(|| value.to_owned())
        })
    })
}

/// Whether the request comes from a page of this origin, or from the user directly. Browsers do not let a page set the
/// two header fields that are read: `Sec-Fetch-Site` decides if it is present, otherwise `Origin` must name the host
/// and port of `Host`. A request with neither field is refused, because any page may have sent it.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = only(headers, "sec-fetch-site") {
        return matches!(site, Some("same-origin" | "none"));
    }
    let (Some(Some(origin)), Some(Some(host))) = (only(headers, "origin"), only(headers, "host")) else {
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

/// The value of a header field; `Some(None)` if the field is repeated or is not text.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<Option<&'h str>> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(first.to_str().ok().filter(|_| all.next().is_none()))
}

/// The IPv4 address of an IPv4-mapped one, so that networks of the allow list match peers on an IPv6 socket.
fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn default_networks() -> Vec<IpNet> {
    ["127.0.0.0/24", "::1/128"].map(|network| network.parse().expect("a literal network")).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn gate() -> Gate {
        let key = |key: &str, role| AdminKey { key: key.to_owned(), role };
        Gate::new(
            vec![key("boss", Role::Admin), key("", Role::Admin), key("guest", Role::Viewer)],
            true,
            vec![],
        )
    }

    fn check(access: Access, target: &str, headers: &[(&str, &str)], expected: Result<Role, Denied>) {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(gate().check(&head, access), expected, "{access:?} {target} {headers:?}");
    }

    #[test]
    fn key_and_role_decide_access() {
        use Access::{Read, Write};
        let (missing, wrong) = (Err(Denied::Token("missing apikey")), Err(Denied::Token("wrong apikey")));
        let admin = Ok(Role::Admin);
        check(Read, "/", &[], missing);
        check(Read, "/?api_key=", &[], wrong);
        check(Read, "/?api_key=bos", &[], wrong);
        check(Read, "/?api_key=bossy", &[], wrong);
        check(Write, "/?api_key=boss", &[], admin);
        check(Write, "/", &[("X-API-KEY", "boss")], admin);
        check(Read, "/", &[("Cookie", "a=b; x_api_key=boss")], admin);
        check(Write, "/?api_key=wrong", &[("X-API-KEY", "boss")], wrong);
        check(Write, "/", &[("X-API-KEY", "wrong"), ("Cookie", "x_api_key=boss")], wrong);
        check(Read, "/", &[("X-API-KEY", "guest")], Ok(Role::Viewer));
        let refused = Err(Denied::Token("invalid method for role viewer"));
        check(Write, "/", &[("X-API-KEY", "guest")], refused);
        check(Write, "/", &[("Cookie", "x_api_key=guest"), ("Sec-Fetch-Site", "none")], refused);
    }

    #[test]
    fn cookie_writes_from_same_origin_only() {
        let of = |more: &[(&'static str, &'static str)], expected: Result<Role, Denied>| {
            let fields = [&[("Cookie", "x_api_key=boss"), ("Host", "admin.example:9180")], more].concat();
            check(Access::Write, "/", &fields, expected);
            check(Access::Read, "/", &fields, Ok(Role::Admin));
            let with_key = [&[("X-API-KEY", "boss")], &*fields].concat();
            check(Access::Write, "/", &with_key, Ok(Role::Admin));
        };
        let (taken, refused) = (Ok(Role::Admin), Err(Denied::CrossSite));
        of(&[], refused);
        of(&[("Sec-Fetch-Site", "same-origin")], taken);
        of(&[("Sec-Fetch-Site", "none")], taken);
        of(&[("Sec-Fetch-Site", "same-site")], refused);
        of(&[("Sec-Fetch-Site", "cross-site"), ("Origin", "http://admin.example:9180")], refused);
        of(&[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")], refused);
        of(&[("Origin", "http://admin.example:9180")], taken);
        of(&[("Origin", "https://ADMIN.example:9180")], taken);
        of(&[("Origin", "http://admin.example:9181")], refused);
        of(&[("Origin", "http://admin.example")], refused);
        of(&[("Origin", "http://evil.example")], refused);
        of(&[("Origin", "http://admin.example:9180.evil.example")], refused);
        of(&[("Origin", "null")], refused);
        of(&[("Origin", "http://")], refused);
        of(&[("Origin", "http://admin.example:9180"), ("Origin", "http://evil.example")], refused);
        let default_port = |host: &'static str, origin: &'static str, expected| {
            let fields = [("Cookie", "x_api_key=boss"), ("Host", host), ("Origin", origin)];
            check(Access::Write, "/", &fields, expected);
        };
        default_port("admin.example", "http://admin.example:80", taken);
        default_port("admin.example:443", "https://admin.example", taken);
        default_port("admin.example:443", "http://admin.example", refused);
    }

    #[test]
    fn default_networks_are_loopback_only() {
        let check = |peer: &str, expected: bool| {
            assert_eq!(gate().allows(peer.parse().unwrap()), expected, "{peer}");
        };
        check("127.0.0.1:1", true);
        check("127.0.0.200:1", true);
        check("[::1]:1", true);
        check("[::ffff:127.0.0.1]:1", true);
        check("127.0.1.1:1", false);
        check("10.0.0.1:1", false);
        check("[2001:db8::1]:1", false);
        assert!(
            Gate::new(vec![], true, vec!["10.0.0.0/8".parse().unwrap()])
                .allows("10.9.9.9:1".parse().unwrap())
        );
    }
}
