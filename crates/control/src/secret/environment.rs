//! Secrets in environment variables, which are read at each lookup.

use model::lenient_json;

use super::cache;

/// Finds the value of an environment variable.
pub type Environment = fn(&str) -> Option<String>;

/// The value of an environment variable, or of a key of the JSON object in it.
pub(super) fn value(lookup: Environment, name: &str, key: Option<&str>) -> Result<String, String> {
    let text = lookup(name).ok_or("there is no such environment variable")?;
    let value = match key {
        None => Some(text),
        Some(key) => {
            let object: serde_json::Value = lenient_json::from_slice(text.as_bytes())
                .map_err(|_| "the environment variable holds no JSON")?;
            object.get(key).and_then(cache::text_of)
        }
    };
    // An empty secret is a mistake of the deployment, and must not give access.
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| "the environment variable holds no such text".to_owned())
}
