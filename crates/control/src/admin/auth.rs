//! Access to the Admin API: addresses are checked against the allow list, callers by key and role, browsers
//! by the origin of the page that sent the request. Of a request it knows only whether it may change
//! something.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, header};
use ipnet::IpNet;
use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};

use super::guesses::{Client, WrongKeys};
use super::origin::{is_foreign, is_own_host, is_same};
use super::refusals::Refusals;
use crate::clock::{Clock, SystemClock};
use crate::serve::query::Query;
use crate::serve::role::Role;

/// A key and what it allows.
#[derive(Clone)]
pub struct AdminKey {
    /// The text that the caller must send.
    pub key: String,
    /// The requests that the key allows.
    pub role: Role,
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
    /// Too many wrong keys came from the address of the client, so that the key was not compared.
    Paused {
        /// Milliseconds until keys from this address are compared again.
        left_ms: u64,
    },
    /// A page of another origin may have sent the request, and no key in a header shows that it did not.
    CrossSite,
    /// The request has no key in a header, and `Host` is a name that another site may have pointed here.
    ForeignHost,
}

/// The access rules of one Admin API.
pub struct Gate {
    /// Accepted keys. An empty list refuses every request, unless `key_required` is off.
    keys: Vec<AdminKey>,
    /// `admin_key_required`.
    key_required: bool,
    /// Networks that may connect.
    allowed: Vec<IpNet>,
    /// Names of this API in `Host`, besides addresses and private names.
    hosts: Vec<String>,
    /// Limits the log lines about refused callers.
    refusals: Refusals,
    /// Counts wrong keys by address.
    wrong_keys: Mutex<WrongKeys>,
    clock: Arc<dyn Clock>,
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
        Gate {
            keys,
            key_required,
            allowed,
            hosts: Vec::new(),
            refusals: Refusals::default(),
            wrong_keys: Mutex::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The gate with a clock for the pauses after wrong keys.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Gate {
        Gate { clock, ..self }
    }

    /// The gate with names that `Host` may have in requests without a key in a header.
    #[must_use]
    pub fn with_hosts(self, hosts: Vec<String>) -> Gate {
        Gate { hosts, ..self }
    }

    /// Whether callers need a key.
    pub fn key_required(&self) -> bool {
        self.key_required
    }

    /// Whether the peer's address is on the allow list.
    pub fn allows(&self, peer: SocketAddr) -> bool {
        let address = canonical(peer.ip());
        self.allowed.iter().any(|network| network.contains(&address))
    }

    /// Logs that `peer` was refused, with the answer's `description`; at most one line per address and
    /// interval.
    pub fn log_refusal(&self, peer: SocketAddr, message: &'static str, description: Option<&'static str>) {
        self.refusals.note(peer, message, description);
    }

    /// Checks a request of `peer` as [`Gate::check`] does and counts wrong keys. While keys from its address
    /// are paused, none is compared: a right key is refused as well, because its acceptance would end the
    /// guessing.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn admit(&self, head: &Parts, access: Access, peer: SocketAddr) -> Result<Role, Denied> {
        let Some((sent, _)) = sent_key(head).filter(|_| self.key_required) else {
            return self.check(head, access);
        };
        let client = Client::new(peer.ip(), is_foreign(&head.headers));
        let now_ms = self.clock.unix_ms();
        // Held across the comparison, so that requests at the same time do not get more keys compared.
        let mut wrong_keys = self.wrong_keys.lock();
        if let Some(left_ms) = wrong_keys.pause_ms(&client, now_ms) {
            return Err(Denied::Paused { left_ms });
        }
        let checked = self.check(head, access);
        if checked == Err(Denied::Token(WRONG_KEY)) {
            wrong_keys.note(client, &sent, now_ms);
        }
        checked
    }

    /// Checks the key and its role; returns the role. Where a browser would send the request for a page of
    /// any origin, because the key is in a cookie or none is needed, checks the origin too.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn check(&self, head: &Parts, access: Access) -> Result<Role, Denied> {
        if !self.key_required {
            self.check_origin(&head.headers)?;
            return Ok(Role::Admin);
        }
        let (sent, is_cookie) = sent_key(head).ok_or(Denied::Token("missing apikey"))?;
        let role = self.role_of(&sent).ok_or(Denied::Token(WRONG_KEY))?;
        // Browsers add cookies to requests of any page, but a page of another origin cannot add the header,
        // and does not know the argument.
        if is_cookie {
            self.check_origin(&head.headers)?;
        }
        if access == Access::Read {
            return Ok(role);
        }
        if role == Role::Viewer {
            return Err(Denied::Token("invalid method for role viewer"));
        }
        // Older browsers say nothing about the origin, and a form can write too.
        if is_cookie && !is_same(&head.headers) {
            return Err(Denied::CrossSite);
        }
        Ok(role)
    }

    /// Checks that no page of another origin is known to have sent the request.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Denied> {
        if is_foreign(headers) {
            return Err(Denied::CrossSite);
        }
        if is_own_host(headers, &self.hosts) { Ok(()) } else { Err(Denied::ForeignHost) }
    }

    /// The role of a key. Compares all keys in constant time, because timing would otherwise reveal a prefix
    /// of a key.
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

/// The key of a request, and whether it is in the cookie.
fn sent_key(head: &Parts) -> Option<(String, bool)> {
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let sent = query.get("api_key").map(str::to_owned).or_else(|| text(&head.headers, "x-api-key"));
    match sent {
        Some(sent) => Some((sent, false)),
        None => Some((cookie(&head.headers, "x_api_key")?, true)),
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

/// The contract's `description` of a wrong key.
const WRONG_KEY: &str = "wrong apikey";

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
        .with_hosts(vec!["admin.example".to_owned()])
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
    fn cookie_counts_from_same_origin_only() {
        let of = |more: &[(&'static str, &'static str)], expected: Result<Role, Denied>| {
            let fields = [&[("Cookie", "x_api_key=boss"), ("Host", "admin.example:9180")], more].concat();
            check(Access::Write, "/", &fields, expected);
            // A request that says nothing may read.
            let read = if more.is_empty() { Ok(Role::Admin) } else { expected };
            check(Access::Read, "/", &fields, read);
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
