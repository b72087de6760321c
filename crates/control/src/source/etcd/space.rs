//! Which keys of etcd are this gateway's, and which of those are objects (contract 2.2). It refuses to know what the
//! objects mean.

use super::message::KeyValue;
use crate::source::store::Record;

/// The keys below one prefix.
#[derive(Debug, Clone)]
pub struct KeySpace {
    /// With the slash at its end.
    prefix: String,
}

/// A key below the prefix that holds no object, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Below the prefix.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What a key and its value are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An object's text.
    Record(String, Record),
    /// Something of APISIX's that is no object: directory markers, counters, what data planes tell.
    Other,
    /// Nothing that can be used.
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

    /// First key and the one behind the last of what is kept beside the data, where neither APISIX nor anybody else who
    /// reads the data looks.
    pub(super) fn beside(&self, path: &str) -> (Vec<u8>, Vec<u8>) {
        ends_of(format!("/weir{}{path}", self.prefix))
    }

    /// First key and the one behind the last of a collection.
    pub(super) fn collection(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        ends_of(format!("{}{name}/", self.prefix))
    }

    /// First key and the one behind the last.
    pub(super) fn range(&self) -> (Vec<u8>, Vec<u8>) {
        ends_of(self.prefix.clone())
    }

    /// The object that a key holds, if it holds one.
    pub(super) fn record(&self, kv: KeyValue) -> Option<Record> {
        match self.read(kv) {
            Found::Record(_, record) => Some(record),
            Found::Other | Found::Stray(_) => None,
        }
    }

    /// The path of a key; none for what is no text, or not below the prefix.
    pub(super) fn path(&self, key: &[u8]) -> Option<String> {
        std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix).map(str::to_owned)
    }

    pub(super) fn read(&self, kv: KeyValue) -> Found {
        let Some(path) = self.path(&kv.key) else {
            let path = String::from_utf8_lossy(&kv.key).into_owned();
            return Found::Stray(Stray { path, reason: "its key is no text".to_owned() });
        };
        if is_other(&path) || kv.value == MARKER {
            return Found::Other;
        }
        if kv.value.len() > MAX_OBJECT_BYTES {
            let reason =
                format!("its {} bytes are more than the {MAX_OBJECT_BYTES} of an object", kv.value.len());
            return Found::Stray(Stray { path, reason });
        }
        let Ok(text) = String::from_utf8(kv.value) else {
            return Found::Stray(Stray { path, reason: "its value is no text".to_owned() });
        };
        let record = Record {
            text,
            created_index: kv.create_revision.unsigned_abs(),
            modified_index: kv.mod_revision.unsigned_abs(),
            expires_at_ms: None,
        };
        Found::Record(path, record)
    }
}

/// A prefix that ends with a slash, and the first key that has it no more.
fn ends_of(prefix: String) -> (Vec<u8>, Vec<u8>) {
    let first = prefix.into_bytes();
    let mut end = first.clone();
    // A slash is not the last byte there is.
    *end.last_mut().expect("a prefix is not empty") += 1;
    (first, end)
}

/// What else APISIX keeps below its prefix.
fn is_other(path: &str) -> bool {
    path.ends_with('/') || path == "gen_id" || path == "plugins" || path.starts_with("data_plane/")
}

/// The value of the keys that APISIX makes for its directories.
const MARKER: &[u8] = b"init_dir";
/// What the Admin API takes at most, and etcd too unless it is told otherwise.
const MAX_OBJECT_BYTES: usize = 3 << 19;

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &str, value: &[u8]) -> KeyValue {
        KeyValue { key: key.into(), create_revision: 3, mod_revision: 7, value: value.into(), lease: 0 }
    }

    #[test]
    fn keys_and_their_paths() {
        let space = KeySpace::new("/apisix");
        assert_eq!(space.key("routes/1"), b"/apisix/routes/1");
        assert_eq!(space.range(), (b"/apisix/".to_vec(), b"/apisix0".to_vec()));
        assert_eq!(space.beside("versions/").0, b"/weir/apisix/versions/");
        assert_eq!(space.path(b"/apisix/routes/1").as_deref(), Some("routes/1"));
        assert_eq!(space.path(b"/apisix2/routes/1"), None);
        assert_eq!(space.path(b"/apisix/\xff"), None);
    }

    #[test]
    fn what_keys_hold() {
        let check = |key: &str, value: &[u8], expected: Result<Option<&str>, &str>| {
            let found = KeySpace::new("/apisix").read(kv(key, value));
            match (found, expected) {
                (Found::Record(path, record), Ok(Some(expected))) => {
                    assert_eq!(path, expected);
                    assert_eq!((record.created_index, record.modified_index), (3, 7));
                }
                (Found::Other, Ok(None)) => {}
                (Found::Stray(stray), Err(part)) => assert!(stray.reason.contains(part), "{stray:?}"),
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
