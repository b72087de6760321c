//! The keys of etcd that belong to this gateway, and those of them that are objects (contract 2.2). It does
//! not know the meaning of the objects.

use std::borrow::Cow;

use model::lenient_json;
use outbound::etcd::message::KeyValue;

use crate::source::store::StoredRecord;

/// The keys below one prefix.
#[derive(Debug, Clone)]
pub struct KeySpace {
    /// The prefix with the slash at its end.
    prefix: String,
}

/// A key below the prefix that holds no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The key without the prefix.
    pub path: String,
    /// The reason why it holds no object.
    pub reason: String,
}

/// The meaning of a key and its value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyContent {
    /// The text of an object.
    Record(String, StoredRecord),
    /// A value of APISIX that is no object: directory markers, counters, reports of data planes.
    Other,
    /// A value that cannot be used.
    Stray(Stray),
}

impl KeySpace {
    /// The keys below `prefix`, which has no slash at its end.
    pub fn new(prefix: &str) -> KeySpace {
        KeySpace { prefix: format!("{prefix}/") }
    }

    /// The prefix of its keys, without the slash at the end.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.trim_end_matches('/')
    }

    /// The key of an object's path.
    pub(super) fn key(&self, path: &str) -> Vec<u8> {
        format!("{}{path}", self.prefix).into_bytes()
    }

    /// The first key of a collection, and the key after the last one.
    pub(super) fn collection(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        ends_of(format!("{}{name}/", self.prefix))
    }

    /// The first key below the prefix, and the key after the last one.
    pub(super) fn range(&self) -> (Vec<u8>, Vec<u8>) {
        ends_of(self.prefix.clone())
    }

    /// The object of a key; none for other values.
    pub(super) fn record(&self, kv: KeyValue) -> Option<StoredRecord> {
        match self.read(kv) {
            KeyContent::Record(_, record) => Some(record),
            KeyContent::Other | KeyContent::Stray(_) => None,
        }
    }

    /// The path of a key; none where the key is not UTF-8, or not below the prefix.
    pub(super) fn path(&self, key: &[u8]) -> Option<String> {
        std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix).map(str::to_owned)
    }

    pub(super) fn read(&self, kv: KeyValue) -> KeyContent {
        let Some(path) = self.path(&kv.key) else {
            let path = String::from_utf8_lossy(&kv.key).into_owned();
            return KeyContent::Stray(Stray { path, reason: "its key is no text".to_owned() });
        };
        if is_other(&path) || kv.value == MARKER {
            return KeyContent::Other;
        }
        if kv.value.len() > MAX_OBJECT_BYTES {
            let reason =
                format!("its {} bytes are more than the {MAX_OBJECT_BYTES} of an object", kv.value.len());
            return KeyContent::Stray(Stray { path, reason });
        }
        // Values come from any client of etcd; those of an escaped text are read everywhere.
        let value = match lenient_json::escape_controls(&kv.value) {
            Cow::Owned(escaped) => escaped,
            Cow::Borrowed(_) => kv.value,
        };
        if let Err(fault) = jsonx::measure(&value, jsonx::Bounds::DEFAULT) {
            return KeyContent::Stray(Stray { path, reason: format!("its value has {fault}") });
        }
        let Ok(text) = String::from_utf8(value) else {
            return KeyContent::Stray(Stray { path, reason: "its value is no text".to_owned() });
        };
        let record = StoredRecord {
            text,
            created_index: kv.create_revision.unsigned_abs(),
            modified_index: kv.mod_revision.unsigned_abs(),
            expires_at_ms: None,
        };
        KeyContent::Record(path, record)
    }
}

/// A prefix that ends with a slash, and the first key after all keys with this prefix.
fn ends_of(prefix: String) -> (Vec<u8>, Vec<u8>) {
    let first = prefix.into_bytes();
    let mut end = first.clone();
    // The last byte is a slash, so that adding one does not overflow.
    *end.last_mut().expect("a prefix is not empty") += 1;
    (first, end)
}

/// Whether the path is one of APISIX's keys that are no objects.
fn is_other(path: &str) -> bool {
    path.ends_with('/') || path == "gen_id" || path == "plugins" || path.starts_with("data_plane/")
}

/// The value of the keys that APISIX creates for its directories.
const MARKER: &[u8] = b"init_dir";
/// Limit of a value: the limit of the Admin API, and etcd's default.
const MAX_OBJECT_BYTES: usize = 3 << 19;

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &str, value: &[u8]) -> KeyValue {
        KeyValue { key: key.into(), create_revision: 3, mod_revision: 7, value: value.into(), lease: 0 }
    }

    #[test]
    fn key_and_path_are_converted() {
        let space = KeySpace::new("/apisix");
        assert_eq!(space.key("routes/1"), b"/apisix/routes/1");
        assert_eq!(space.range(), (b"/apisix/".to_vec(), b"/apisix0".to_vec()));
        assert_eq!(space.path(b"/apisix/routes/1").as_deref(), Some("routes/1"));
        assert_eq!(space.path(b"/apisix2/routes/1"), None);
        assert_eq!(space.path(b"/apisix/\xff"), None);
    }

    #[test]
    fn keys_and_values_are_classified() {
        let check = |key: &str, value: &[u8], expected: Result<Option<&str>, &str>| {
            let found = KeySpace::new("/apisix").read(kv(key, value));
            match (found, expected) {
                (KeyContent::Record(path, record), Ok(Some(expected))) => {
                    assert_eq!(path, expected);
                    assert_eq!((record.created_index, record.modified_index), (3, 7));
                }
                (KeyContent::Other, Ok(None)) => {}
                (KeyContent::Stray(stray), Err(part)) => assert!(stray.reason.contains(part), "{stray:?}"),
                (found, _) => panic!("{key}: {found:?}"),
            }
        };
        check("/apisix/routes/1", b"{}", Ok(Some("routes/1")));
        check("/apisix/routes/1", b"no json", Ok(Some("routes/1")));
        check("/apisix/routes/", b"init_dir", Ok(None));
        check("/apisix/gen_id", b"1", Ok(None));
        check("/apisix/plugins", b"[]", Ok(None));
        check("/apisix/data_plane/server_info/x", b"{}", Ok(None));
        check("/apisix/routes/1", b"\xff", Err("no text"));
        check("/apisix/routes/1", &vec![b' '; MAX_OBJECT_BYTES + 1], Err("more than"));
        check("/other/routes/1", b"{}", Err("no text"));
    }
}
