//! The request methods a route may be limited to, as bits.
//!
//! It knows only the ten methods that APISIX routes on; a request with another method has no bit and matches
//! only routes without `methods`.

/// The methods in the order of their bits: `GET` is bit 0, `PURGE` is bit 9.
pub const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

/// A set of methods. The empty set stands for "any method", as a route without `methods` does.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MethodSet(u16);

/// A name that is none of [`METHODS`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a method that routes can name; use one of GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS, CONNECT, TRACE, PURGE"
)]
pub struct MethodError(pub String);

/// The bit of a method by its exact name; methods are case-sensitive (RFC 9110 section 9.1).
#[must_use]
pub fn method_bit(name: &[u8]) -> Option<u8> {
    let index = METHODS.iter().position(|method| method.as_bytes() == name)?;
    u8::try_from(index).ok()
}

impl MethodSet {
    /// Any method.
    pub const ANY: Self = Self(0);

    /// The set of the named methods.
    ///
    /// # Errors
    /// The first name that is none of [`METHODS`].
    pub fn from_names<S: AsRef<str>>(names: &[S]) -> Result<Self, MethodError> {
        let mut bits = 0;
        for name in names {
            let name = name.as_ref();
            let bit = method_bit(name.as_bytes()).ok_or_else(|| MethodError(name.to_owned()))?;
            bits |= 1 << bit;
        }
        Ok(Self(bits))
    }

    /// Whether the set allows a method by its bit; `None` is a method without a bit.
    #[must_use]
    pub fn contains(self, bit: Option<u8>) -> bool {
        self.0 == 0 || bit.is_some_and(|bit| bit < 16 && self.0 & (1 << bit) != 0)
    }

    /// Whether the set allows any method.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.0 == 0
    }

    /// The names in the set, in the order of their bits; none if the set allows any method.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        METHODS.iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], method: &str, fits: bool) {
        let set = MethodSet::from_names(names).unwrap();
        assert_eq!(set.contains(method_bit(method.as_bytes())), fits, "{names:?} {method}");
    }

    #[test]
    fn membership() {
        check(&[], "GET", true);
        check(&[], "BREW", true);
        check(&["GET"], "GET", true);
        check(&["GET"], "get", false);
        check(&["GET", "PURGE"], "PURGE", true);
        check(&["GET"], "POST", false);
        check(&["GET"], "BREW", false);
    }

    #[test]
    fn names() {
        let set = MethodSet::from_names(&["HEAD", "GET", "GET"]).unwrap();
        assert_eq!(set.names().collect::<Vec<_>>(), ["GET", "HEAD"]);
        assert_eq!(MethodSet::from_names(&["BREW"]), Err(MethodError("BREW".to_owned())));
    }
}
