//! Secondary keys (RFC 9111 section 4.1): the fields that `Vary` names, and the values of a request for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use message::{FieldId, Headers};
use parking_lot::Mutex;

use super::key::append_length_prefixed;

/// Variants of one key that are kept; another one takes the place of the oldest. As many as in the contract.
pub(super) const VARIANTS_MAX: usize = 64;

/// The variants of a key.
pub(super) struct Variants {
    /// A number that no other value of this process has; the keys of the variants begin with it.
    id: u64,
    /// The names in lower case and in order.
    pub(super) fields: Box<[Box<str>]>,
    /// The keys of the variants, the oldest first.
    keys: Mutex<VecDeque<Arc<[u8]>>>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The names in the Vary fields of a response, in lower case and in order.
pub(super) fn parse_vary_fields(headers: &Headers) -> Box<[Box<str>]> {
    let lists = headers.get_all_known(FieldId::Vary).flat_map(|list| list.split(|byte| *byte == b','));
    let mut names: Vec<Box<str>> = lists
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase().into_boxed_str())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// Appends the values of a request for these fields.
pub(super) fn write_signature(fields: &[Box<str>], request: &Headers, out: &mut Vec<u8>) {
    for name in fields {
        let start = out.len();
        append_length_prefixed(out, |out| {
            for (index, value) in request.get_all(name).enumerate() {
                out.extend_from_slice(if index == 0 { b"" } else { b", " });
                out.extend_from_slice(value);
            }
        });
        // A missing field is not an empty one.
        if !request.contains(name) {
            out[start..start + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        }
    }
}

impl Variants {
    /// No variants yet.
    pub(super) fn new(fields: Box<[Box<str>]>) -> Variants {
        Variants { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), fields, keys: Mutex::default() }
    }

    /// Appends the key of the variant with this `signature`. Other keys begin with a letter.
    pub(super) fn write_key(&self, signature: &[u8], out: &mut Vec<u8>) {
        out.push(0);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(signature);
    }

    /// Notes a variant; gives the key of the one that it displaces.
    pub(super) fn note(&self, key: &Arc<[u8]>) -> Option<Arc<[u8]>> {
        let mut keys = self.keys.lock();
        if keys.contains(key) {
            return None;
        }
        keys.push_back(key.clone());
        if keys.len() > VARIANTS_MAX { keys.pop_front() } else { None }
    }

    /// Takes the keys of all variants.
    pub(super) fn take_keys(&self) -> VecDeque<Arc<[u8]>> {
        std::mem::take(&mut *self.keys.lock())
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::headers_of;

    use super::*;

    #[test]
    fn names_have_one_spelling_and_order() {
        let check = |values: &[&str], expected: &[&str]| {
            let fields: Vec<_> = values.iter().map(|value| ("Vary", *value)).collect();
            let got = parse_vary_fields(&headers_of(&fields));
            assert_eq!(got.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{values:?}");
        };
        check(&[], &[]);
        check(&[" , "], &[]);
        check(&["Accept-Encoding"], &["accept-encoding"]);
        check(&["b, A", "a"], &["a", "b"]);
    }

    #[test]
    fn signatures_tell_requests_apart() {
        let fields = parse_vary_fields(&headers_of(&[("Vary", "a, b")]));
        let of = |request: &[(&str, &str)]| {
            let mut out = Vec::new();
            write_signature(&fields, &headers_of(request), &mut out);
            out
        };
        assert_eq!(of(&[("A", "1"), ("C", "2")]), of(&[("a", "1")]));
        assert_ne!(of(&[("A", "1")]), of(&[("B", "1")]));
        assert_ne!(of(&[("A", "1")]), of(&[]));
        assert_ne!(of(&[("A", "")]), of(&[]));
        assert_eq!(of(&[("A", "1"), ("A", "2")]), of(&[("A", "1, 2")]));
    }

    #[test]
    fn oldest_variant_makes_room() {
        let variants = Variants::new(Box::default());
        let key = |number: usize| -> Arc<[u8]> { number.to_be_bytes().into() };
        let displaced: Vec<_> = (0..=VARIANTS_MAX).map(|number| variants.note(&key(number))).collect();
        assert!(displaced[..VARIANTS_MAX].iter().all(Option::is_none));
        assert_eq!(displaced[VARIANTS_MAX], Some(key(0)));
        assert_eq!(variants.note(&key(5)), None, "it is known");
        assert_eq!(variants.take_keys().len(), VARIANTS_MAX);
    }
}
