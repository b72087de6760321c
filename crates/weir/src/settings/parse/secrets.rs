//! Settings that hold secrets: texts, keys of encryption and keys of the Admin API. A message about a fault
//! shows no value; of an Admin key with a role it shows the text in front of the colon, where the role
//! belongs.

use control::Role;

use super::super::fault::SettingLocation;
use super::super::values::{AdminKey, Keyring, RoleKey, Secret};
use super::super::written::SettingTexts;
use super::items;

/// A secret text, or nothing.
pub(in super::super) fn secret(given: &SettingTexts) -> Result<Option<Secret>, String> {
    // Not trimmed, because a secret may begin or end with a space.
    Ok(given.values.first().filter(|text| !text.is_empty()).cloned().map(Secret::new))
}

/// The keys that secrets are encrypted with, separated by commas. A message about a faulty key does not show
/// the key.
pub(in super::super) fn parse_keyring(given: &SettingTexts) -> Result<Keyring, String> {
    let keys: Vec<String> =
        given.values.iter().flat_map(|text| text.split(',')).map(|key| key.trim().to_owned()).collect();
    if keys.len() > control::sealing::MAX_KEYS {
        return Err(format!("has {} keys; at most {} are taken", keys.len(), control::sealing::MAX_KEYS));
    }
    match keys.iter().position(|key| ![16, 32].contains(&key.len())) {
        Some(index) => Err(format!(
            "key {} has {} bytes; each has 16 (AES-128) or 32 (AES-256)",
            index + 1,
            keys[index].len()
        )),
        None => Ok(Keyring::new(keys)),
    }
}

/// The Admin key: visible ASCII without spaces, because it is sent in a header and in a query.
pub(in super::super) fn parse_admin_key(given: &SettingTexts) -> Result<Option<AdminKey>, String> {
    let Some(text) = given.values.first() else { return Ok(None) };
    if text.len() < ADMIN_KEY_LENGTH_MIN {
        return Err(format!("is too short to be safe; use at least {ADMIN_KEY_LENGTH_MIN} characters"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds a space or a character outside visible ASCII".to_owned());
    }
    Ok(Some(AdminKey::new(text.clone())))
}

/// Admin keys with roles. In the environment they are one text with commas; a file gives one text for each.
pub(in super::super) fn parse_admin_keys(given: &SettingTexts) -> Result<Vec<RoleKey>, String> {
    let from_environment = given.place == SettingLocation::Environment;
    let parts =
        if from_environment { items(given) } else { given.values.iter().map(String::as_str).collect() };
    let one = |part: &str| {
        let (role, key) = part.split_once(':').ok_or("each key is written as `admin:KEY` or `viewer:KEY`")?;
        let role = match role.trim() {
            "admin" => Role::Admin,
            "viewer" => Role::Viewer,
            other => return Err(format!("`{other}` is no role; write `admin` or `viewer`")),
        };
        if from_environment && key.len() < ADMIN_KEY_LENGTH_MIN {
            return Err(format!(
                "a key is too short to be safe; use at least {ADMIN_KEY_LENGTH_MIN} characters"
            ));
        }
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a key is empty, or holds a space or a character outside visible ASCII".to_owned());
        }
        Ok(RoleKey { key: AdminKey::new(key.to_owned()), role })
    };
    parts.into_iter().map(one).collect()
}

/// 16 characters of a random key hold at least 64 bits even in hexadecimal; shorter ones can be guessed.
const ADMIN_KEY_LENGTH_MIN: usize = 16;
