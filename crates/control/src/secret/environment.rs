//! Secrets in environment variables, which are read at each lookup.

use jsonx::Bounds;
use model::lenient_json;

use super::cache;

/// Finds the value of an environment variable.
pub type SecretEnvironment = fn(&str) -> Option<String>;

/// The value of an environment variable, or of a key of the JSON object in it.
pub(super) fn value(lookup: SecretEnvironment, name: &str, key: Option<&str>) -> Result<String, String> {
    let text = lookup(name).ok_or("there is no such environment variable")?;
    let value = match key {
        None => Some(text),
        Some(key) => {
            let text = lenient_json::escape_controls(text.as_bytes());
            let object = jsonx::parse(&text, Bounds::SMALL)
                .map_err(|_| "the environment variable holds no JSON")?
                .value;
            object.get(key).and_then(cache::read_secret_text)
        }
    };
    // An empty secret is a mistake of the deployment, and must not give access.
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| "the environment variable holds no such text".to_owned())
}
