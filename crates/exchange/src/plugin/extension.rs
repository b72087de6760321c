//! Plugins of users, which are loaded while the gateway runs: one loaded version of an extension stands in
//! for a [`PluginKind`](super::PluginKind). It knows no language.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::loaded_endpoint::LoadedEndpoint;
use parking_lot::Mutex;
use serde_json::Value;

use super::build::Build;
use super::phase::Plugin;
use super::phase_name::PluginPhase;
use super::services::Services;
use super::stream::{StreamPhase, StreamPlugin};

/// Names of extensions that one process ever loads: a name lives as long as the process, because instances,
/// logs and metrics keep it.
pub const EXTENSION_NAMES_MAX: usize = 1_000;
/// The longest name of an extension, in bytes.
pub const EXTENSION_NAME_BYTES_MAX: usize = 100;

/// One version of an extension, loaded: its code compiles and has told of itself. Any thread may use it;
/// interpreters and memories belong to workers.
pub trait Extension: Send + Sync + 'static {
    /// Where its instances run among those of other plugins: higher first.
    fn priority(&self) -> i64;

    /// The phases that its code takes part in; see [`interned_phases`].
    fn phases(&self) -> &'static [PluginPhase];

    /// The JSON Schema of its configurations.
    fn schema(&self) -> Value;

    /// The JSON Schema of its metadata; none: anything.
    fn metadata_schema(&self) -> Option<Value> {
        None
    }

    /// Checks a configuration that the schema accepts, by the code's own rules.
    ///
    /// # Errors
    /// The code's reason, or the limit that it exceeded, as a sentence.
    fn check(&self, config: &Value) -> Result<(), String>;

    /// Makes an instance for a checked configuration.
    ///
    /// # Errors
    /// Why there can be none, a sentence.
    fn build(&self, build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String>;

    /// The phases of sessions that its code takes part in; empty: it may not stand in a stream route.
    fn stream_phases(&self) -> &'static [StreamPhase] {
        &[]
    }

    /// Whether it may serve requests.
    fn serves_http(&self) -> bool {
        true
    }

    /// As [`Extension::build`], for sessions of layer 4.
    ///
    /// # Errors
    /// Why there can be none, a sentence.
    fn build_stream(&self, _: &Build<'_>, _: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
        Err("it serves HTTP only, not layer 4".to_owned())
    }

    /// Its endpoints for clients, which a route with `public-api` serves. The code of each is an
    /// [`EndpointCode`].
    fn public_endpoints(&self) -> Arc<[LoadedEndpoint]> {
        Arc::default()
    }

    /// Its endpoints in the control API; as [`Extension::public_endpoints`].
    fn control_endpoints(&self) -> Arc<[LoadedEndpoint]> {
        Arc::default()
    }
}

/// The code of an endpoint of an extension: [`Plugin::api`] answers requests to it.
pub struct EndpointCode(pub Arc<dyn Plugin>);

impl EndpointCode {
    /// The code of `endpoint`; none if it is of another kind.
    pub fn of(endpoint: &LoadedEndpoint) -> Option<&dyn Plugin> {
        endpoint.code.downcast_ref::<EndpointCode>().map(|code| &*code.0)
    }
}

/// Loads the extensions of one language.
pub trait ExtensionLanguage: Send + Sync + 'static {
    /// The language as objects and commands name it: `lua`, `wasm`.
    fn name(&self) -> &'static str;

    /// Whether contents are no text: objects hold them in base64.
    fn is_binary(&self) -> bool {
        self.name() == "wasm"
    }

    /// Compiles `content` and asks it what it is, in a sandbox that serves no request.
    ///
    /// # Errors
    /// Why it cannot be loaded, a sentence, with the line where the language has lines.
    fn load(
        &self,
        name: &'static str,
        content: &[u8],
        services: &Services,
    ) -> Result<Arc<dyn Extension>, String>;
}

/// `name` for as long as the process lives.
///
/// # Errors
/// The name is no identifier, or too many were used.
pub fn interned_name(name: &str) -> Result<&'static str, String> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > EXTENSION_NAME_BYTES_MAX || !name.bytes().all(is_letter) {
        return Err(format!(
            "the name of an extension has 1 to {EXTENSION_NAME_BYTES_MAX} of the letters a to z, A to Z, 0 to 9, `-`, `_` and `.`"
        ));
    }
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() >= EXTENSION_NAMES_MAX {
        return Err(format!(
            "this process has loaded extensions of {EXTENSION_NAMES_MAX} names; a restart forgets those that are gone"
        ));
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    Ok(kept)
}

/// The set of `phases`, in their order, for as long as the process lives. There are only as many sets as
/// extensions differ in.
pub fn interned_phases(phases: &[PluginPhase]) -> &'static [PluginPhase] {
    static SETS: Mutex<Vec<&'static [PluginPhase]>> = Mutex::new(Vec::new());
    let mut wanted = phases.to_vec();
    wanted.sort_unstable_by_key(|phase| *phase as usize);
    wanted.dedup();
    let mut sets = SETS.lock();
    if let Some(known) = sets.iter().find(|set| ***set == *wanted) {
        return known;
    }
    let kept: &'static [PluginPhase] = Box::leak(wanted.into_boxed_slice());
    sets.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_phases_are_kept_once() {
        let first = interned_name("my-plugin.v1_a").unwrap();
        assert!(std::ptr::eq(first, interned_name(&["my-plugin.", "v1_a"].concat()).unwrap()));
        for faulty in ["", "a b", "ä", "a/b", &"x".repeat(EXTENSION_NAME_BYTES_MAX + 1)] {
            assert!(interned_name(faulty).is_err(), "{faulty}");
        }
        let first = interned_phases(&[PluginPhase::Log, PluginPhase::Access, PluginPhase::Log]);
        assert_eq!(first, [PluginPhase::Access, PluginPhase::Log]);
        assert!(std::ptr::eq(first, interned_phases(&[PluginPhase::Access, PluginPhase::Log])));
    }
}
