//! Who may use the Admin API: peers by address, callers by key and role. It refuses to know what they ask for beyond
//! the method.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, Method, header};
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
    /// Reading only.
    Viewer,
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

    /// Checks key and role; the error is the contract's `description`.
    pub fn check(&self, head: &Parts) -> Result<(), &'static str> {
        if !self.key_required {
            return Ok(());
        }
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let sent = query
            .get("api_key")
            .map(str::to_owned)
            .or_else(|| text(&head.headers, "x-api-key"))
            .or_else(|| cookie(&head.headers, "x_api_key"))
            .ok_or("missing apikey")?;
        let role = self.role_of(&sent).ok_or("wrong apikey")?;
        if role == Role::Viewer && head.method != Method::GET {
            return Err("invalid method for role viewer");
        }
        Ok(())
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

    fn check(method: &str, target: &str, headers: &[(&str, &str)], expected: Result<(), &str>) {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(gate().check(&head), expected, "{method} {target} {headers:?}");
    }

    #[test]
    fn keys_and_roles() {
        check("GET", "/", &[], Err("missing apikey"));
        check("GET", "/?api_key=", &[], Err("wrong apikey"));
        check("GET", "/?api_key=bos", &[], Err("wrong apikey"));
        check("GET", "/?api_key=bossy", &[], Err("wrong apikey"));
        check("PUT", "/?api_key=boss", &[], Ok(()));
        check("PUT", "/", &[("X-API-KEY", "boss")], Ok(()));
        check("PUT", "/", &[("Cookie", "a=b; x_api_key=boss")], Ok(()));
        check("PUT", "/?api_key=wrong", &[("X-API-KEY", "boss")], Err("wrong apikey"));
        check("PUT", "/", &[("X-API-KEY", "wrong"), ("Cookie", "x_api_key=boss")], Err("wrong apikey"));
        check("GET", "/", &[("X-API-KEY", "guest")], Ok(()));
        for method in ["PUT", "POST", "PATCH", "DELETE", "HEAD"] {
            check(method, "/", &[("X-API-KEY", "guest")], Err("invalid method for role viewer"));
        }
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
