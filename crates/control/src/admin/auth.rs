//! Access to the Admin API: addresses by the allow list, callers by key and role, browsers by the page that a request
//! comes from. It refuses to know what they ask for beyond whether that may change something.

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
    /// What the caller must send.
    pub key: String,
    /// What the caller may then do.
    pub role: Role,
}

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
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

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Its key is missing, wrong or not enough; the contract's `description`.
    Token(&'static str),
    /// Its key was sent by a browser on behalf of a page that may be of another origin.
    CrossSite,
}

/// The rules of one Admin API.
pub struct Gate {
    /// Accepted keys; empty means nobody, unless `key_required` is off.
    keys: Vec<AdminKey>,
    /// `admin_key_required`.
    key_required: bool,
    /// Networks that may connect at all.
    allowed: Vec<IpNet>,
    /// Lines in the log about refused callers.
    refusals: Refusals,
}

impl std::fmt::Debug for AdminKey {
    /// Never shows the key: configurations end up in logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AdminKey").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Gate {
    /// The rules; with an empty `allowed` the contract's default holds (`127.0.0.0/24`), and `::1`.
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

    /// Checks key, role and, where the key comes from a cookie, the origin. Gives the role.
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
        // Browsers add cookies to requests of any page; a page cannot make them add the header or the argument.
        if is_cookie && !is_same_origin(&head.headers) {
            return Err(Denied::CrossSite);
        }
        Ok(role)
    }

    /// The time spent does not depend on which key matches or how much of it.
    fn role_of(&self, sent: &str) -> Option<Role> {
        let mut found = None;
        for known in &self.keys {
            let same: Choice = known.key.as_bytes().ct_eq(sent.as_bytes());
            // An empty key would open the door to everyone.
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

/// Whether the request comes from a page of this origin, or from the user directly. Browsers let no page change the
/// fields that say so. `Sec-Fetch-Site` decides where it is sent; else `Origin` must name the host and port of `Host`.
/// A request with neither may come from any page.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = only(headers, "sec-fetch-site") {
        return matches!(site, Some("same-origin" | "none"));
    }
    let (Some(Some(origin)), Some(Some(host))) = (only(headers, "origin"), only(headers, "host")) else {
        return false;
    };
    // The scheme is not compared: a proxy in front may speak TLS.
    let Some((scheme, origin)) = origin.split_once("://") else { return false };
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let plain = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    !origin.is_empty() && plain(origin) == plain(host)
}

/// The value of a field; `Some(None)` if it is there more than once or no text.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<Option<&'h str>> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(first.to_str().ok().filter(|_| all.next().is_none()))
}

/// An IPv4 peer on an IPv6 socket is still an IPv4 peer.
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
    fn keys_and_roles() {
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
    fn cookie_needs_the_same_origin_to_write() {
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
    fn networks() {
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
