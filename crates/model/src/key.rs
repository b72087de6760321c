//! Identifiers: the id of an object and the key it is stored under. Knows the rules of their text, not the
//! store.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::ObjectKind;

/// The longest id, in bytes (APISIX's `id` schema).
pub const ID_BYTES_MAX: usize = 64;

/// The longest name of a consumer, which is its id, in bytes (APISIX's `consumer` schema).
pub const USERNAME_BYTES_MAX: usize = 256;

/// The id of an object: 1 to 64 of `[A-Za-z0-9-_.]`. An integer id (at least 1) is kept as its decimal text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<str>);

impl Id {
    /// The id of that text.
    ///
    /// # Errors
    /// When the text is empty, too long, or has a character an id may not have.
    pub fn new(text: &str) -> Result<Id, IdError> {
        check_id(text)?;
        Ok(Id(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

impl Deref for Id {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

/// The name that an object is stored under: its kind and its id. A credential's id is `jack/credentials/c1`,
/// a secret's `vault/1`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The id within the kind.
    pub id: Arc<str>,
}

impl ObjectKey {
    /// The key of an object of that kind and id.
    ///
    /// # Errors
    /// When the id breaks the rule of its kind: a plain id, `CONSUMER/credentials/ID` or `MANAGER/ID`.
    pub fn new(kind: ObjectKind, id: &str) -> Result<ObjectKey, IdError> {
        match kind {
            ObjectKind::Credential => {
                let (consumer, credential) = id.split_once("/credentials/").ok_or(IdError::NotACredential)?;
                check_text(consumer, USERNAME_BYTES_MAX)?;
                check_id(credential)?;
            }
            ObjectKind::Secret => {
                let (manager, secret) = id.split_once('/').ok_or(IdError::NotASecret)?;
                check_id(manager)?;
                check_id(secret)?;
            }
            ObjectKind::Consumer => check_text(id, USERNAME_BYTES_MAX)?,
            _ => check_id(id)?,
        }
        Ok(ObjectKey { kind, id: id.into() })
    }

    /// The key of what `id` refers to. The id's rule has been checked when it was read.
    #[must_use]
    pub fn of(kind: ObjectKind, id: &Id) -> ObjectKey {
        ObjectKey { kind, id: Arc::clone(id.text()) }
    }

    /// The key of a consumer's credential.
    ///
    /// # Errors
    /// When either part is not an id.
    pub fn credential(consumer: &str, credential: &str) -> Result<ObjectKey, IdError> {
        ObjectKey::new(ObjectKind::Credential, &format!("{consumer}/credentials/{credential}"))
    }

    /// The consumer a credential belongs to; none for other kinds.
    #[must_use]
    pub fn consumer(&self) -> Option<&str> {
        match self.kind {
            ObjectKind::Credential => self.id.split('/').next(),
            _ => None,
        }
    }

    /// The key of the consumer a credential belongs to; none for other kinds.
    #[must_use]
    pub fn consumer_key(&self) -> Option<ObjectKey> {
        self.consumer().map(|consumer| ObjectKey { kind: ObjectKind::Consumer, id: consumer.into() })
    }

    /// The last part of the id: what the object's own `id` field says (`c1` of `jack/credentials/c1`).
    #[must_use]
    pub fn own_id(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or(&self.id)
    }

    /// The key below a prefix, as the Admin API shows it: `/routes/1`, `/consumers/jack/credentials/c1`.
    #[must_use]
    pub fn path(&self) -> String {
        match self.kind {
            ObjectKind::Credential => format!("/consumers/{}", self.id),
            kind => format!("/{}/{}", kind.collection(), self.id),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind.collection(), self.id)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing there.
    #[error("the id is empty")]
    Empty,
    /// More bytes than [`ID_BYTES_MAX`], or of a consumer [`USERNAME_BYTES_MAX`].
    #[error("the id is longer than {0} characters")]
    TooLong(usize),
    /// A character that is not allowed.
    #[error("the id may only have letters, digits, '-', '_' and '.'")]
    Character,
    /// Not of the form `CONSUMER/credentials/ID`.
    #[error("the key of a credential is CONSUMER/credentials/ID")]
    NotACredential,
    /// Not of the form `MANAGER/ID`.
    #[error("the key of a secret is MANAGER/ID")]
    NotASecret,
}

fn check_id(text: &str) -> Result<(), IdError> {
    check_text(text, ID_BYTES_MAX)
}

fn check_text(text: &str, bytes_max: usize) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > bytes_max {
        return Err(IdError::TooLong(bytes_max));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.bytes().all(allowed) { Ok(()) } else { Err(IdError::Character) }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an id: an integer of at least 1, or 1 to 64 of [A-Za-z0-9-_.]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        Id::new(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        if number == 0 {
            return Err(E::custom("an integer id is at least 1"));
        }
        Ok(Id(number.to_string().into()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
        u64::try_from(number)
            .map_err(|_| E::custom("an integer id is at least 1"))
            .and_then(|id| self.visit_u64(id))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Id, E> {
        crate::number::integer_of(number)
            .ok_or_else(|| E::custom("a numeric id is an integer"))
            .and_then(|id| self.visit_i64(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<&str>) {
        let id = serde_json::from_str::<Id>(json).ok();
        assert_eq!(id.as_deref(), expected, "{json}");
    }

    #[test]
    fn ids() {
        check("1", Some("1"));
        check("7.0", Some("7"));
        check("\"a-b_c.D9\"", Some("a-b_c.D9"));
        check("0", None);
        check("-1", None);
        check("1.5", None);
        check("\"\"", None);
        check("\"a b\"", None);
        check("\"a/b\"", None);
        check("true", None);
        check(&format!("\"{}\"", "x".repeat(64)), Some(&"x".repeat(64)));
        check(&format!("\"{}\"", "x".repeat(65)), None);
    }

    #[test]
    fn keys_follow_the_form_of_their_kind() {
        assert!(ObjectKey::new(ObjectKind::Route, "a/b").is_err());
        assert_eq!(ObjectKey::new(ObjectKind::Credential, "jack"), Err(IdError::NotACredential));
        assert_eq!(ObjectKey::new(ObjectKind::Secret, "vault"), Err(IdError::NotASecret));
        let credential = ObjectKey::credential("jack", "c1").unwrap();
        assert_eq!(credential.path(), "/consumers/jack/credentials/c1");
        assert_eq!(credential.consumer(), Some("jack"));
        assert_eq!(credential.own_id(), "c1");
        let long = "j".repeat(100);
        assert_eq!(ObjectKey::new(ObjectKind::Route, &long), Err(IdError::TooLong(ID_BYTES_MAX)));
        assert!(
            ObjectKey::new(ObjectKind::Consumer, &long).is_ok() && ObjectKey::credential(&long, "c").is_ok()
        );
        assert_eq!(ObjectKey::new(ObjectKind::Route, "1").unwrap().path(), "/routes/1");
        assert_eq!(ObjectKey::new(ObjectKind::Secret, "vault/1").unwrap().path(), "/secrets/vault/1");
    }
}
