//! Host patterns: an exact name, or a suffix of any depth behind a leading `*`; either with a port.
//!
//! It knows neither the routes of a pattern nor how the host of a request was determined.

use std::hash::{Hash, Hasher};

/// The most bytes of a host pattern: a DNS name (RFC 1035 section 2.3.4) with wildcard and port.
pub const HOST_BYTES_MAX: usize = 264;

/// One entry of a route's `hosts`, in lower case.
#[derive(Clone, Debug, Eq)]
pub struct HostPattern {
    /// As written but in lower case, `*` included.
    text: Box<str>,
    has_port: bool,
}

impl PartialEq for HostPattern {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        comparisons::add();
        self.text == other.text
    }
}

/// Equal patterns have equal texts: whether there is a port follows from the text.
impl Hash for HostPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl HostPattern {
    /// Parses `example.com`, `*.example.com`, `*example.com`, each optionally with `:port`, or a bracketed
    /// IPv6 address.
    ///
    /// # Errors
    /// A short reason: empty, too long, a `*` that is not the first byte, or a byte that no host may contain.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        if text.len() > HOST_BYTES_MAX {
            return Err("is longer than a host name with a port can be");
        }
        let name = text.strip_prefix('*').unwrap_or(text);
        if name.contains('*') {
            return Err("has a `*` that is not its first character");
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte)) {
            return Err("holds a character that no host name has");
        }
        // The host of a request has already lost the final dot of a fully qualified name.
        let text = text.strip_suffix('.').filter(|text| !text.is_empty()).unwrap_or(text);
        Ok(Self { has_port: has_port(name.as_bytes()), text: text.to_ascii_lowercase().into_boxed_str() })
    }

    /// The pattern in lower case, otherwise as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The end that a host must have, if this is a wildcard.
    #[must_use]
    pub fn suffix(&self) -> Option<&str> {
        self.text.strip_prefix('*')
    }

    /// Whether the pattern has a port and is therefore compared with the `Host` field as sent.
    #[must_use]
    pub fn has_port(&self) -> bool {
        self.has_port
    }

    /// Whether a request matches; `host` is in lower case and without port, `raw_host` as sent.
    #[must_use]
    pub fn matches(&self, host: &[u8], raw_host: &[u8]) -> bool {
        let host = if self.has_port { raw_host } else { host };
        match self.suffix() {
            None => host.eq_ignore_ascii_case(self.text.as_bytes()),
            Some(suffix) => {
                host.len() >= suffix.len()
                    && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix.as_bytes())
            }
        }
    }
}

/// Whether a host ends with a port; the colons inside `[::1]` do not count.
fn has_port(host: &[u8]) -> bool {
    let after_address = memchr::memrchr(b']', host).map_or(0, |bracket| bracket + 1);
    host[after_address..].contains(&b':')
}

/// Counts comparisons of patterns on this thread, so that a test can distinguish a linear check from a
/// quadratic one.
#[cfg(test)]
pub(crate) mod comparisons {
    use std::cell::Cell;

    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn add() {
        COUNT.with(|count| count.set(count.get() + 1));
    }

    pub(crate) fn reset() {
        COUNT.with(|count| count.set(0));
    }

    pub(crate) fn count() -> usize {
        COUNT.with(Cell::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, raw_host: &str, fits: bool) {
        let pattern = HostPattern::parse(pattern).unwrap();
        let lower = raw_host.to_ascii_lowercase();
        let host = lower
            .rsplit_once(':')
            .filter(|_| has_port(lower.as_bytes()))
            .map_or(lower.as_str(), |pair| pair.0);
        assert_eq!(pattern.matches(host.as_bytes(), raw_host.as_bytes()), fits, "{pattern:?} {raw_host}");
    }

    #[test]
    fn patterns() {
        check("a.com", "a.com", true);
        check("A.com", "a.COM:80", true);
        check("A.com.", "a.com", true);
        check("a.com", "b.a.com", false);
        check("*.a.com", "b.a.com", true);
        check("*.a.com", "c.b.a.com", true);
        check("*.a.com", "a.com", false);
        check("*a.com", "a.com", true);
        check("*a.com", "ba.com", true);
        check("*", "x", true);
        check("a.com:80", "a.com:80", true);
        check("a.com:80", "A.com:80", true);
        check("a.com:80", "a.com", false);
        check("*.a.com:80", "b.a.com:80", true);
        check("[::1]", "[::1]:80", true);
        check("[::1]:80", "[::1]:80", true);
        check("[::1]:80", "[::1]", false);
    }

    #[test]
    fn refused() {
        for bad in ["", "a.*.com", "**", "a b", "a/b", "ä.de", &"x".repeat(300)] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
