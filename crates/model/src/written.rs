//! An object as it was written and stored. Knows its text and revisions, not its meaning.

use std::sync::Arc;

use crate::Key;

/// An object as stored: the JSON text byte for byte (with `id`, `create_time`, `update_time`) and its revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What it is stored under.
    pub key: Key,
    /// The JSON text.
    pub text: Arc<str>,
    /// The revision that made it.
    pub created_index: u64,
    /// The revision that changed it last.
    pub modified_index: u64,
}
