//! Changes of an extension as a whole object: a version more, another active version, a canary, the way back.
//! It reads and writes no store, and names no language.

use model::extension::{
    EXTENSION_TEXT_BYTES_MAX, EXTENSION_VERSIONS_MAX, ExtensionLoader, decoded, encoded, version_of,
};
use serde_json::{Map, Value, json};

/// The fewest characters by which a version may be named instead of its whole digest.
const PREFIX_CHARS_MIN: usize = 6;

/// A version that is added.
#[derive(Debug)]
pub(crate) struct ExtensionPush {
    /// Its language; none: that of the extension.
    pub(crate) language: Option<String>,
    /// Its content, decoded.
    pub(crate) content: Vec<u8>,
    /// A note for people.
    pub(crate) desc: Option<String>,
    /// Its author, for the list of versions.
    pub(crate) author: String,
    /// The time, in seconds since 1970.
    pub(crate) now_s: u64,
    /// Whether it serves all requests from now on.
    pub(crate) activate: bool,
    /// The share of the requests that it serves from now on, in percent.
    pub(crate) canary: Option<f64>,
}

/// The extension with one more version; gives the object and the version. The first version is active at
/// once.
///
/// # Errors
/// The reason, a sentence.
pub(crate) fn push(
    loader: &dyn ExtensionLoader,
    name: &str,
    stored: Option<Map<String, Value>>,
    push: ExtensionPush,
) -> Result<(Map<String, Value>, String), String> {
    let stored_language = stored.as_ref().and_then(|object| object.get("language")).and_then(Value::as_str);
    let language = match (stored_language, push.language) {
        (Some(stored), Some(given)) if stored != given => {
            return Err(format!("the extension {name} is written in {stored}, and this version in {given}"));
        }
        (Some(language), _) => language.to_owned(),
        (None, Some(language)) => language,
        (None, None) => {
            return Err("the language is missing: give it as `language` or in Content-Type".to_owned());
        }
    };
    // A version that serves nothing yet is loaded too, so that a faulty one is refused when it is sent.
    let loaded = loader.load(name, &language, &push.content);
    loaded.map_err(|reason| format!("invalid configuration: {name} cannot be loaded: {reason}"))?;
    let is_first = stored.is_none();
    let mut object = stored.unwrap_or_default();
    object.insert("id".to_owned(), name.into());
    object.insert("language".to_owned(), language.clone().into());
    let is_binary = loader.is_binary(&language);
    let mut versions = versions(&mut object, is_binary)?;
    let version = version_of(&push.content);
    if !versions.iter().any(|known| known["version"] == *version) {
        let content = encoded(is_binary, &push.content)?;
        let mut written = json!({
            "version": version, "content": content, "create_time": push.now_s, "author": push.author,
        });
        if let Some(desc) = push.desc {
            written["desc"] = desc.into();
        }
        versions.push(written);
    }
    object.entry("active").or_insert_with(|| version.clone().into());
    if push.activate && !is_first {
        set_active(&mut object, &version);
    }
    if let Some(percent) = push.canary.filter(|_| !is_first) {
        object.insert("canary".to_owned(), json!({ "version": version, "percent": percent }));
    }
    drop_oldest(&object, &mut versions, &version)?;
    object.insert("versions".to_owned(), versions.into());
    Ok((object, version))
}

/// The extension with this version active; a canary of it ends.
///
/// # Errors
/// There is no such version.
pub(crate) fn activate(
    loader: &dyn ExtensionLoader,
    mut object: Map<String, Value>,
    version: &str,
) -> Result<Map<String, Value>, String> {
    let version = settled(loader, &mut object, version)?;
    set_active(&mut object, &version);
    Ok(object)
}

/// The extension as before the last activation. A canary ends.
///
/// # Errors
/// There is no version to go back to.
pub(crate) fn roll_back_extension(
    loader: &dyn ExtensionLoader,
    mut object: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let previous = object.get("previous").and_then(Value::as_str).map(str::to_owned);
    let previous = previous.ok_or("there is no version that served before")?;
    let version = settled(loader, &mut object, &previous)?;
    set_active(&mut object, &version);
    object.shift_remove("canary");
    Ok(object)
}

/// The extension with a canary, or without one.
///
/// # Errors
/// There is no such version.
pub(crate) fn set_canary(
    loader: &dyn ExtensionLoader,
    mut object: Map<String, Value>,
    canary: Option<Map<String, Value>>,
) -> Result<Map<String, Value>, String> {
    let Some(mut canary) = canary else {
        object.shift_remove("canary");
        return Ok(object);
    };
    let named = canary.get("version").and_then(Value::as_str).map(str::to_owned);
    let named = named.ok_or("property \"version\" is required")?;
    let version = settled(loader, &mut object, &named)?;
    canary.insert("version".to_owned(), version.into());
    object.insert("canary".to_owned(), canary.into());
    Ok(object)
}

/// The versions without their contents, the newest first, with the part that each plays.
pub(crate) fn list_extension_versions(
    loader: &dyn ExtensionLoader,
    mut object: Map<String, Value>,
) -> Result<Vec<Value>, String> {
    let is_binary = is_binary(loader, &object);
    let versions = versions(&mut object, is_binary)?;
    let active = object.get("active").or(versions.last().map(|last| &last["version"])).cloned();
    let canary = object.get("canary").and_then(|canary| canary.get("version")).cloned();
    let previous = object.get("previous").cloned();
    let shown = versions.into_iter().rev().map(|mut version| {
        let bytes = version["content"].as_str().map_or(0, str::len);
        let name = Some(version["version"].clone());
        let state = match () {
            () if name == active => "active",
            () if name == canary => "canary",
            () if name == previous => "previous",
            () => "",
        };
        if let Some(fields) = version.as_object_mut() {
            fields.shift_remove("content");
        }
        version["text_bytes"] = bytes.into();
        version["state"] = state.into();
        version
    });
    Ok(shown.collect())
}

fn is_binary(loader: &dyn ExtensionLoader, object: &Map<String, Value>) -> bool {
    loader.is_binary(object.get("language").and_then(Value::as_str).unwrap_or_default())
}

/// The whole name of a version that is named by its beginning; the object then lists its versions with their
/// names.
fn settled(
    loader: &dyn ExtensionLoader,
    object: &mut Map<String, Value>,
    named: &str,
) -> Result<String, String> {
    let is_binary = is_binary(loader, object);
    let versions = versions(object, is_binary)?;
    let names: Vec<&str> = versions.iter().filter_map(|version| version["version"].as_str()).collect();
    let begins = |name: &&&str| named.len() >= PREFIX_CHARS_MIN && name.starts_with(named);
    let exact = names.iter().find(|name| **name == named);
    let found: Vec<&&str> = exact.map_or_else(|| names.iter().filter(begins).collect(), |name| vec![name]);
    let version = match found.as_slice() {
        [only] => (**only).to_owned(),
        [] => return Err(format!("there is no version {named}")),
        _ => return Err(format!("{named} begins the names of several versions: write more of it")),
    };
    object.insert("versions".to_owned(), versions.into());
    Ok(version)
}

/// Takes the versions out of the object, each with its name.
fn versions(object: &mut Map<String, Value>, is_binary: bool) -> Result<Vec<Value>, String> {
    let mut versions = match (object.shift_remove("content"), object.shift_remove("versions")) {
        (Some(content), _) => vec![json!({ "content": content })],
        (None, Some(Value::Array(versions))) => versions,
        (None, _) => Vec::new(),
    };
    for version in &mut versions {
        if version.get("version").is_none() {
            let content = decoded(is_binary, version["content"].as_str().unwrap_or_default())?;
            version["version"] = version_of(&content).into();
        }
    }
    let last = versions.last().and_then(|last| last["version"].as_str()).map(str::to_owned);
    if let Some(last) = last {
        object.entry("active").or_insert_with(|| last.into());
    }
    Ok(versions)
}

fn set_active(object: &mut Map<String, Value>, version: &str) {
    let before = object.insert("active".to_owned(), version.into());
    if let Some(before) = before.filter(|before| *before != *version) {
        object.insert("previous".to_owned(), before);
    }
    if object.get("canary").is_some_and(|canary| canary["version"] == *version) {
        object.shift_remove("canary");
    }
}

/// Drops the oldest versions that play no part until the rest is within the limits.
fn drop_oldest(object: &Map<String, Value>, versions: &mut Vec<Value>, new: &str) -> Result<(), String> {
    let named = |field: &str| object.get(field).cloned().unwrap_or_default();
    let canary = object.get("canary").map(|canary| canary["version"].clone()).unwrap_or_default();
    let kept = [named("active"), named("previous"), canary, new.into()];
    let bytes = |versions: &[Value]| -> usize {
        versions.iter().filter_map(|version| version["content"].as_str()).map(str::len).sum()
    };
    while versions.len() > EXTENSION_VERSIONS_MAX || bytes(versions) > EXTENSION_TEXT_BYTES_MAX {
        let oldest = versions.iter().position(|version| !kept.contains(&version["version"]));
        let Some(oldest) = oldest else {
            return Err(format!(
                "the versions in use have {} bytes with this one, and an extension has {EXTENSION_TEXT_BYTES_MAX} at most",
                bytes(versions)
            ));
        };
        versions.remove(oldest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::catalog;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn pushed(stored: Option<Map<String, Value>>, content: &str, activate: bool) -> Map<String, Value> {
        let push = ExtensionPush {
            language: Some("tiny".to_owned()),
            content: content.into(),
            desc: None,
            author: "me".to_owned(),
            now_s: 7,
            activate,
            canary: None,
        };
        super::push(catalog().loader().unwrap(), "mine", stored, push).unwrap().0
    }

    fn states(object: Map<String, Value>) -> Vec<String> {
        let listed = list_extension_versions(catalog().loader().unwrap(), object).unwrap();
        listed.iter().map(|version| version["state"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn versions_are_pushed_activated_and_taken_back() {
        let catalog = catalog();
        let loader = catalog.loader().unwrap();
        let first = pushed(None, "a", false);
        assert_eq!(states(first.clone()), ["active"], "the first version serves at once");
        let second = pushed(Some(first.clone()), "b", false);
        assert_eq!(states(second.clone()), ["", "active"]);
        let digest = version_of(b"b");
        let active = activate(loader, second.clone(), &digest[..8]).unwrap();
        assert_eq!(states(active.clone()), ["active", "previous"]);
        let back = roll_back_extension(loader, active.clone()).unwrap();
        assert_eq!(states(back), ["previous", "active"]);
        assert!(roll_back_extension(loader, first).is_err());
        assert_eq!(activate(loader, second.clone(), "none").unwrap_err(), "there is no version none");
        let canary = object(json!({"version": &digest[..8], "percent": 5}));
        let tried = set_canary(loader, second, Some(canary)).unwrap();
        assert_eq!(states(tried.clone()), ["canary", "active"]);
        assert_eq!(states(set_canary(loader, tried.clone(), None).unwrap()), ["", "active"]);
        let promoted = activate(loader, tried, &digest).unwrap();
        assert!(!promoted.contains_key("canary"), "a canary that serves all requests is none");
    }

    #[test]
    fn short_form_becomes_a_list_of_versions() {
        let short = object(json!({"id": "mine", "language": "tiny", "content": "a"}));
        let next = pushed(Some(short), "b", true);
        assert!(!next.contains_key("content"));
        assert_eq!(states(next), ["active", "previous"]);
    }

    #[test]
    fn old_versions_go_and_those_in_use_stay() {
        let mut stored = None;
        for number in 0..EXTENSION_VERSIONS_MAX + 3 {
            stored = Some(pushed(stored, &format!("field-{number}"), false));
        }
        let states = states(stored.unwrap());
        assert_eq!(states.len(), EXTENSION_VERSIONS_MAX);
        assert_eq!(states.last().unwrap(), "active", "the active version is the oldest one");
    }

    #[test]
    fn versions_beyond_the_limit_are_refused() {
        let long = |letter: &str| letter.repeat(EXTENSION_TEXT_BYTES_MAX * 2 / 3);
        let first = pushed(None, &long("a"), false);
        let push = ExtensionPush {
            language: None,
            content: long("b").into(),
            desc: None,
            author: String::new(),
            now_s: 7,
            activate: false,
            canary: None,
        };
        let refused = super::push(catalog().loader().unwrap(), "mine", Some(first), push).unwrap_err();
        assert!(refused.starts_with("the versions in use have"), "{refused}");
    }
}
