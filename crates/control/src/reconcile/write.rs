//! One write of the Admin API and its result, and the text that a write stores (contract 2.1: ids, times). It
//! does not know how writes are checked against others and made durable.

use std::sync::Arc;

use model::{ObjectKey, ObjectKind};
use serde_json::{Map, Value};

use crate::reconcile::patch;

/// The author of a write: an address, after a name where one was given. It is kept with the revision.
pub type Author = Arc<str>;

/// A write through the Admin API.
#[derive(Debug, Clone)]
pub enum Write {
    /// Creates or replaces an object.
    Put {
        /// The key of the object.
        key: ObjectKey,
        /// The object as sent, with its id filled in where its kind has one.
        body: Map<String, Value>,
        /// Seconds until the object expires.
        ttl_s: Option<f64>,
    },
    /// Creates an object under a generated id.
    Create {
        /// The kind of the object.
        kind: ObjectKind,
        /// The object as sent.
        body: Map<String, Value>,
        /// Seconds until the object expires.
        ttl_s: Option<f64>,
    },
    /// Changes part of an object.
    Patch {
        /// The key of the object.
        key: ObjectKey,
        part: PatchPart,
        /// Seconds until the object expires.
        ttl_s: Option<f64>,
    },
    /// Removes an object.
    Delete {
        /// The key of the object.
        key: ObjectKey,
        /// Also if other objects refer to it.
        force: bool,
    },
}

/// The part of a PATCH.
#[derive(Debug, Clone)]
pub enum PatchPart {
    /// Merged into the object.
    Merge(Map<String, Value>),
    /// Put at a sub-path.
    At(Vec<String>, Value),
}

/// A write that is durable and published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// An object was written.
    Stored {
        key: ObjectKey,
        text: Arc<str>,
        /// Whether the object is new.
        created: bool,
        /// The revision of the write.
        revision: u64,
    },
    /// An object was removed.
    Deleted {
        key: ObjectKey,
        /// The revision of the write.
        revision: u64,
    },
}

impl Write {
    /// The object that is written; none for an object that gets its id with the write.
    pub(super) fn key(&self) -> Option<&ObjectKey> {
        match self {
            Write::Put { key, .. } | Write::Patch { key, .. } | Write::Delete { key, .. } => Some(key),
            Write::Create { .. } => None,
        }
    }
}

impl Done {
    /// The object that was written.
    pub(super) fn key(&self) -> &ObjectKey {
        let (Done::Stored { key, .. } | Done::Deleted { key, .. }) = self;
        key
    }

    /// The same result at the revision that etcd assigned.
    pub(super) fn at(mut self, real: u64) -> Done {
        let (Done::Stored { revision, .. } | Done::Deleted { revision, .. }) = &mut self;
        *revision = real;
        self
    }
}

/// The reasons why a write was not done; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRefusal {
    /// The object does not exist.
    NotFound,
    /// The object is not at a revision that the condition of the write admits.
    Changed(ObjectKey),
    /// The consumer of the credential does not exist.
    NoConsumer,
    /// The write breaks a rule; holds the contract's text.
    Invalid(String),
    /// The source of the configuration is a file; holds the name of the file and the action to take.
    ReadOnly(String),
    /// The store could not take the write, or the object changed in the meantime.
    Store(String),
}

impl PatchPart {
    /// The object with this part in it, its update time renewed as the contract requires.
    ///
    /// # Errors
    /// The contract's text.
    pub(super) fn apply(self, text: &str, now_s: u64) -> Result<Map<String, Value>, String> {
        let mut object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|fault| format!("the stored object is no JSON object: {fault}"))?;
        let keeps_update_time = match self {
            PatchPart::Merge(part) => {
                let given = part.contains_key(UPDATE_TIME);
                patch::merge(&mut object, part);
                given
            }
            PatchPart::At(path, value) => {
                patch::replace_at(&mut object, &path, value)?;
                false
            }
        };
        if !object.contains_key(CREATE_TIME) {
            object.insert(CREATE_TIME.to_owned(), now_s.into());
        }
        if !keeps_update_time || !object.contains_key(UPDATE_TIME) {
            object.insert(UPDATE_TIME.to_owned(), now_s.into());
        }
        Ok(object)
    }
}

/// Refuses the times that only the gateway sets, in the object and in the upstream and plugins within it.
///
/// # Errors
/// The contract's text, which names the first one.
pub(super) fn forbid_times(body: &Map<String, Value>) -> Result<(), String> {
    let within = |name: &str| Some((format!("{name}."), body.get(name)?.as_object()?));
    let places = [Some((String::new(), body)), within("upstream"), within("plugins")];
    for (prefix, object) in places.into_iter().flatten() {
        for name in [CREATE_TIME, UPDATE_TIME] {
            if object.contains_key(name) {
                return Err(format!("the property is forbidden:  {prefix}{name}"));
            }
        }
    }
    Ok(())
}

/// Sets the times of a whole object; `before` is the text it replaces.
pub(super) fn set_times(kind: ObjectKind, body: &mut Map<String, Value>, before: Option<&str>, now_s: u64) {
    // All fields of metadata belong to the plugin.
    if kind == ObjectKind::PluginMetadata {
        return;
    }
    let created =
        before.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok()?.remove(CREATE_TIME));
    body.insert(CREATE_TIME.to_owned(), created.unwrap_or_else(|| now_s.into()));
    body.insert(UPDATE_TIME.to_owned(), now_s.into());
}

const CREATE_TIME: &str = "create_time";
const UPDATE_TIME: &str = "update_time";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn times_are_set_and_kept() {
        let check = |kind, before: Option<&str>, expected: Value| {
            let mut body = object(json!({"uri": "/"}));
            set_times(kind, &mut body, before, 9);
            assert_eq!(Value::Object(body), expected);
        };
        check(ObjectKind::Route, None, json!({"uri": "/", "create_time": 9, "update_time": 9}));
        check(
            ObjectKind::Route,
            Some(r#"{"create_time":5,"update_time":6}"#),
            json!({"uri": "/", "create_time": 5, "update_time": 9}),
        );
        check(ObjectKind::Route, Some("{}"), json!({"uri": "/", "create_time": 9, "update_time": 9}));
        check(ObjectKind::PluginMetadata, None, json!({"uri": "/"}));
    }

    #[test]
    fn times_are_forbidden_wherever_they_are() {
        let check = |body: Value, expected: Option<&str>| {
            let expected = expected.map_or(Ok(()), |name| Err(format!("the property is forbidden:  {name}")));
            assert_eq!(forbid_times(&object(body)), expected);
        };
        check(json!({"uri": 1, "upstream": [], "plugins": 1}), None);
        check(json!({"update_time": 1, "create_time": 1}), Some("create_time"));
        check(json!({"update_time": null}), Some("update_time"));
        check(json!({"upstream": {"create_time": 1}, "plugins": {}}), Some("upstream.create_time"));
        check(json!({"plugins": {"update_time": {}}}), Some("plugins.update_time"));
    }

    #[test]
    fn parts_renew_the_update_time() {
        let check = |part: PatchPart, expected: Value| {
            let patched = part.apply(r#"{"a":1,"create_time":5,"update_time":6}"#, 9).unwrap();
            assert_eq!(Value::Object(patched), expected);
        };
        check(PatchPart::Merge(object(json!({"a": 2}))), json!({"a": 2, "create_time": 5, "update_time": 9}));
        check(
            PatchPart::Merge(object(json!({"update_time": 7}))),
            json!({"a": 1, "create_time": 5, "update_time": 7}),
        );
        check(
            PatchPart::At(vec!["a".to_owned()], json!(3)),
            json!({"a": 3, "create_time": 5, "update_time": 9}),
        );
    }
}
