//! Field names that differ only by `_` and `-`. CGI, WSGI and their kin read such names as one (RFC 3875
//! section 4.1.18), so that a client's `X_Real_IP` could take the place of the gateway's `X-Real-IP` at an
//! upstream. It does not know which fields the gateway writes.

use super::{Field, Headers, REMOVED};
use crate::{FieldId, FieldSet};

/// The longest name that is compared with known ones; every known name is shorter.
const KNOWN_NAME_MAX: usize = 64;

/// Whether the names are equal but for their case and `_` in the place of `-`.
fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| fold(*a) == fold(*b))
}

impl Headers {
    /// Says that the fields so far are those of a client's request: from now on a field that is set, added or
    /// removed takes the client's fields with alike names away. Fields alike to one of `own` are taken away
    /// at once.
    pub fn guard_names(&mut self, own: FieldSet) {
        self.is_guarded = true;
        self.has_underscores = false;
        for index in 0..self.fields.len() {
            let field = self.fields[index];
            // No known name has an underscore.
            if field.id != FieldId::Other || field.is_removed() {
                continue;
            }
            let name = self.text(field.name);
            if !name.contains(&b'_') {
                continue;
            }
            if is_alike_to_known(name, own) {
                self.remove_at(index);
            } else {
                self.has_underscores = true;
            }
        }
    }

    /// The values of all fields with this name or one that is alike, in order: what nginx finds for
    /// `$http_name`.
    pub fn get_all_alike<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let id = FieldId::of(name.as_bytes());
        let is_exact = self.is_guarded && !self.has_underscores && !name.contains('_');
        let is_missing = is_exact && id != FieldId::Other && self.seen & id.bit() == 0;
        let fields = if is_missing { &[][..] } else { &self.fields[..] };
        let is_found = move |field: &&Field| {
            !field.is_removed()
                && match is_exact {
                    true => self.is_named(field, id, name.as_bytes()),
                    false => are_alike(self.text(field.name), name.as_bytes()),
                }
        };
        fields.iter().filter(is_found).map(|field| self.text(field.value))
    }

    /// Takes the client's fields away that are alike to `name` without being the same; true if there was one.
    #[inline]
    pub(super) fn drop_alike(&mut self, name: &[u8]) -> bool {
        self.is_guarded && (self.has_underscores || name.contains(&b'_')) && self.drop_alike_fields(name)
    }

    #[cold]
    fn drop_alike_fields(&mut self, name: &[u8]) -> bool {
        let mut found = false;
        for index in 0..self.fields.len() {
            let field = self.fields[index];
            let text = self.text(field.name);
            if !field.is_removed()
                && !field.is_own()
                && are_alike(text, name)
                && !text.eq_ignore_ascii_case(name)
            {
                self.remove_at(index);
                found = true;
            }
        }
        found
    }

    fn remove_at(&mut self, index: usize) {
        self.fields[index].flags |= REMOVED;
        self.live -= 1;
    }
}

/// Whether `name` with `-` for `_` is in `known`.
fn is_alike_to_known(name: &[u8], known: FieldSet) -> bool {
    let mut folded = [0; KNOWN_NAME_MAX];
    let Some(folded) = folded.get_mut(..name.len()) else { return false };
    for (to, from) in folded.iter_mut().zip(name) {
        *to = if *from == b'_' { b'-' } else { *from };
    }
    known.contains(FieldId::of(folded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_client(names: &[&str]) -> Headers {
        let mut headers = Headers::new();
        names.iter().for_each(|name| headers.append(name, name.as_bytes()).unwrap());
        headers.guard_names(FieldSet::of(&[FieldId::XRealIp, FieldId::XForwardedFor]));
        headers
    }

    /// The names that are left after `edit` of a client's fields.
    fn check(client: &[&str], edit: impl FnOnce(&mut Headers), expected: &[&str]) {
        let mut headers = of_client(client);
        edit(&mut headers);
        let names: Vec<_> =
            headers.iter().map(|field| String::from_utf8(field.name.to_vec()).unwrap()).collect();
        assert_eq!(names, expected, "{client:?}");
        assert_eq!(headers.len(), expected.len());
    }

    #[test]
    fn alike_fields_of_clients_are_dropped() {
        check(&["X_Real_IP", "x-real_ip", "X-Real-IP", "X_FORWARDED_FOR"], |_| {}, &["X-Real-IP"]);
        check(&["X_User", "x_user", "A"], |h| h.set("X-User", b"1").unwrap(), &["A", "X-User"]);
        check(&["X-User", "A"], |h| h.set("X_User", b"1").unwrap(), &["A", "X_User"]);
        check(&["X_User", "A"], |h| h.append("X-User", b"1").unwrap(), &["A", "X-User"]);
        check(&["X_User", "X-User"], |h| assert!(h.remove("X-User")), &[]);
        check(&["X_User"], |h| assert!(h.remove("X-User")), &[]);
        check(&["X_User", "X-User"], |h| h.set("X-User", b"1").unwrap(), &["X-User"]);
        check(&["X_Other", "X-User-"], |h| h.set("X-User", b"1").unwrap(), &["X_Other", "X-User-", "X-User"]);
        // Fields that the gateway has set itself are not a client's.
        let both = |h: &mut Headers| {
            h.set("X-User", b"1").unwrap();
            h.set("X_User", b"2").unwrap();
        };
        check(&["x_user", "x-user"], both, &["X-User", "X_User"]);
    }

    #[test]
    fn alike_fields_are_found_together() {
        let find = |headers: &Headers, name: &str| -> Vec<String> {
            headers.get_all_alike(name).map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
        };
        let headers = of_client(&["a_b", "A-B", "a-b", "User_Agent", "ab"]);
        for name in ["a-b", "a_b", "A-b"] {
            assert_eq!(find(&headers, name), ["a_b", "A-B", "a-b"], "{name}");
        }
        assert_eq!(find(&headers, "user-agent"), ["User_Agent"]);
        let headers = of_client(&["a-b", "Host"]);
        assert_eq!((find(&headers, "a_b").len(), find(&headers, "host").len()), (1, 1));
        assert!(find(&headers, "accept").is_empty());
    }

    #[test]
    fn unguarded_fields_stay() {
        let mut headers = Headers::new();
        headers.append("X_User", b"1").unwrap();
        headers.set("X-User", b"2").unwrap();
        assert_eq!((headers.len(), headers.get_all_alike("x-user").count()), (2, 2));
        headers.guard_names(FieldSet::EMPTY);
        headers.clear();
        headers.append("X_User", b"1").unwrap();
        headers.set("X-User", b"2").unwrap();
        assert_eq!(headers.len(), 2, "cleared fields are guarded no more");
    }
}
