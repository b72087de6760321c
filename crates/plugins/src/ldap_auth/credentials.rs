//! The user's name and password in a request, and the distinguished name made from it. It asks no server.

use data_encoding::{BASE64, BASE64_NOPAD};

/// The credentials of a client. The type has no `Debug`, so that no log shows a password.
pub(super) struct Credentials {
    pub(super) user: String,
    /// Not empty: a bind without password is an anonymous one, which servers accept (RFC 4513 section 5.1.2).
    pub(super) password: Vec<u8>,
}

impl Credentials {
    /// Reads `Authorization` by the scheme Basic (RFC 7617); none if it has another form, or name or password
    /// are empty.
    pub(super) fn read(field: &[u8]) -> Option<Credentials> {
        let (scheme, encoded) = field.split_at_checked("basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"basic ") && !scheme.eq_ignore_ascii_case(b"basic\t") {
            return None;
        }
        let encoded = encoded.trim_ascii();
        let decoded = BASE64.decode(encoded).or_else(|_| BASE64_NOPAD.decode(encoded)).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let user = std::str::from_utf8(&decoded[..colon]).ok()?.to_owned();
        let password = decoded[colon + 1..].to_vec();
        Credentials { user, password }.complete()
    }

    /// The same without white space, as APISIX reads them: clients send a line end by mistake, such as with
    /// `echo`. None if there is no white space, or nothing else.
    pub(super) fn compact(&self) -> Option<Credentials> {
        // The set of `%s` in Lua's patterns.
        let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
        let user: String =
            self.user.chars().filter(|letter| !u8::try_from(*letter).is_ok_and(is_space)).collect();
        let password: Vec<u8> = self.password.iter().copied().filter(|byte| !is_space(*byte)).collect();
        let is_shorter = user.len() < self.user.len() || password.len() < self.password.len();
        Credentials { user, password }.complete().filter(|_| is_shorter)
    }

    fn complete(self) -> Option<Credentials> {
        (!self.user.is_empty() && !self.password.is_empty()).then_some(self)
    }
}

/// The name of `user` below `base`. The user's name is escaped, so that it is one value whatever it holds
/// (RFC 4514 section 2.4).
pub(super) fn distinguished_name(attribute: &str, user: &str, base: &str) -> String {
    let mut name = format!("{attribute}=");
    let last = user.len() - user.chars().next_back().map_or(0, char::len_utf8);
    for (index, letter) in user.char_indices() {
        match letter {
            '\0' => name.push_str("\\00"),
            ',' | '+' | '=' | '<' | '>' | ';' | '"' | '\\' => name.extend(['\\', letter]),
            ' ' if index == 0 || index == last => name.push_str("\\ "),
            '#' if index == 0 => name.push_str("\\#"),
            letter => name.push(letter),
        }
    }
    name.push(',');
    name.push_str(base);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_credentials_are_read() {
        let check = |field: &str, expected: Option<(&str, &str)>| {
            let read = Credentials::read(field.as_bytes());
            let got = read.map(|read| (read.user, String::from_utf8(read.password).unwrap()));
            assert_eq!(
                got,
                expected.map(|(user, password)| (user.to_owned(), password.to_owned())),
                "{field}"
            );
        };
        let encode = |text: &str| BASE64.encode(text.as_bytes());
        check(&format!("Basic {}", encode("foo:bar")), Some(("foo", "bar")));
        check(&format!("bAsIc   {} ", encode("foo:b:r")), Some(("foo", "b:r")));
        check(&format!("Basic {}", BASE64_NOPAD.encode(b"foo:barb")), Some(("foo", "barb")));
        check("bad_header", None);
        check("Basic", None);
        check("Basic aca_a", None);
        check(&format!("Bearer {}", encode("foo:bar")), None);
        for bad in ["foo", "foo:", ":bar", ":", ""] {
            check(&format!("Basic {}", encode(bad)), None);
        }
        assert!(Credentials::read(format!("Basic {}", BASE64.encode(b"\xff:a")).as_bytes()).is_none());
    }

    #[test]
    fn white_space_is_left_out_of_compact_credentials() {
        let check = |user: &str, password: &str, expected: Option<(&str, &str)>| {
            let read = Credentials { user: user.to_owned(), password: password.into() };
            let got = read.compact().map(|read| (read.user, String::from_utf8(read.password).unwrap()));
            assert_eq!(
                got,
                expected.map(|(user, password)| (user.to_owned(), password.to_owned())),
                "{user}"
            );
        };
        check("foo", "bar", None);
        check("foo", "bar\r\n", Some(("foo", "bar")));
        check(" f o\x0bo", "b\tar", Some(("foo", "bar")));
        check("fä o", "b", Some(("fäo", "b")));
        check("foo", " \n", None);
    }

    #[test]
    fn user_names_stay_one_value_of_the_dn() {
        let check = |user: &str, expected: &str| {
            assert_eq!(distinguished_name("cn", user, "ou=u"), format!("cn={expected},ou=u"), "{user}");
        };
        check("user01", "user01");
        check("comma,user", r"comma\,user");
        check("a,ou=admins", r"a\,ou\=admins");
        check(r#"a+b<c>d;e"f\g=h"#, r#"a\+b\<c\>d\;e\"f\\g\=h"#);
        check("#a#", r"\#a#");
        check(" a b ", r"\ a b\ ");
        check(" ", r"\ ");
        check("a\0", r"a\00");
        check("ä ", r"ä\ ");
    }
}
