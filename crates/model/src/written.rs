//! An object as it was written and stored. Knows its text and revisions, not its meaning.

use std::sync::Arc;

use crate::ObjectKey;

/// An object as stored: the JSON text byte for byte (with `id`, `create_time`, `update_time`) and its
/// revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenObject {
    /// The key it is stored under.
    pub key: ObjectKey,
    /// The JSON text.
    pub text: Arc<str>,
    /// The revision that made it.
    pub created_index: u64,
    /// The revision that changed it last.
    pub modified_index: u64,
}

impl WrittenObject {
    /// A stand-in for an object with a stored text that cannot be read, because of `reason`, a sentence. It
    /// is no JSON, so that the object is a faulty one, and states the reason.
    #[must_use]
    pub fn unreadable(reason: &str) -> Arc<str> {
        format!("{UNREADABLE}{reason}").into()
    }

    /// As [`WrittenObject::unreadable`], with the JSON as far as it is known: what a route matches is read
    /// from it.
    #[must_use]
    pub fn unreadable_json(reason: &str, json: &str) -> Arc<str> {
        format!("{UNREADABLE}{}\n{json}", reason.replace('\n', " ")).into()
    }

    /// Why there is no text, if it is [`WrittenObject::unreadable`].
    #[must_use]
    pub fn why_unreadable(&self) -> Option<&str> {
        self.text.strip_prefix(UNREADABLE)?.split('\n').next()
    }

    /// The JSON behind the reason, if it is [`WrittenObject::unreadable_json`].
    pub(crate) fn json_behind_reason(&self) -> Option<&str> {
        Some(self.text.strip_prefix(UNREADABLE)?.split_once('\n')?.1)
    }
}

/// No JSON begins so.
const UNREADABLE: &str = "unreadable: ";
