//! The plugin behind a name: a kind that is built in, or an extension with the versions that serve.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use exchange::plugin::canary::{self, CanaryShare, CanaryVersion};
use exchange::plugin::extension::{Extension, interned_phases};
use exchange::plugin::extension_loader::LoadedCode;
use exchange::plugin::stream::{StreamPhase, StreamPlugin};
use exchange::plugin::{Build, Plugin, PluginKind, PluginPhase};
use model::extension::LoadedVersion;
use model::loaded_endpoint::LoadedEndpoint;
use model::resource::{Canary, Resource};
use model::snapshot::{Difference, Snapshot};
use model::{ObjectKey, ObjectKind};
use router::vars::Expression;
use serde_json::Value;
use stdx::hash::FastMap;

/// Extensions that the settings name.
pub(super) type FixedExtensions = FastMap<&'static str, LoadedVersion>;

/// The plugin behind a name.
pub(super) enum PluginSource<'a> {
    /// Built in.
    Kind(&'static PluginKind),
    /// Loaded.
    Extension(ServedVersions<'a>),
}

/// The versions of an extension that serve.
pub(super) struct ServedVersions<'a> {
    active: (&'a LoadedCode, u64),
    canary: Option<(&'a LoadedCode, u64, &'a Canary)>,
}

/// The extension of that name that can serve.
pub(super) fn find_served_versions<'a>(
    fixed: &'a FixedExtensions,
    snapshot: &'a Snapshot,
    name: &str,
) -> Option<ServedVersions<'a>> {
    if let Some(version) = fixed.get(name) {
        return Some(ServedVersions { active: code(version)?, canary: None });
    }
    let key = ObjectKey::new(ObjectKind::Extension, name).ok()?;
    let Resource::Extension(extension) = &snapshot.get(&key)?.resource else { return None };
    let loaded = extension.loaded.as_ref()?;
    let canary = loaded.canary.as_ref().zip(extension.canary.as_ref());
    let canary = canary.and_then(|(version, canary)| {
        let (code, serial) = code(version)?;
        Some((code, serial, canary))
    });
    Some(ServedVersions { active: code(&loaded.active)?, canary })
}

fn code(version: &LoadedVersion) -> Option<(&LoadedCode, u64)> {
    Some((version.code.downcast_ref::<LoadedCode>()?, version.serial))
}

/// The endpoints for clients of all extensions that can serve.
pub(super) fn endpoints(fixed: &FixedExtensions, snapshot: &Snapshot) -> Vec<LoadedEndpoint> {
    let mut names: Vec<&str> = fixed.keys().copied().collect();
    names.sort_unstable();
    let written = snapshot.iter(ObjectKind::Extension).map(|object| object.key().own_id());
    let mut written: Vec<&str> = written.filter(|name| !fixed.contains_key(name)).collect();
    written.sort_unstable();
    names.append(&mut written);
    let served = names.into_iter().filter_map(|name| find_served_versions(fixed, snapshot, name));
    served.flat_map(|served| served.active.0.extension.public_endpoints().to_vec()).collect()
}

/// Whether a version of the extension that serves, or served, has endpoints for clients.
pub(super) fn has_endpoints(difference: &Difference) -> bool {
    let forms = [&difference.before, &difference.after];
    forms.into_iter().flatten().any(|object| match &object.resource {
        Resource::Extension(extension) => {
            let active = extension.loaded.as_ref().and_then(|loaded| code(&loaded.active));
            active.is_some_and(|(code, _)| !code.extension.public_endpoints().is_empty())
        }
        _ => false,
    })
}

impl ServedVersions<'_> {
    /// The name of the plugin.
    pub(super) fn name(&self) -> &'static str {
        self.active.0.name
    }

    /// A number that changes when other versions serve, or in other shares.
    pub(super) fn version(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.active.1.hash(&mut hasher);
        if let Some((_, serial, canary)) = &self.canary {
            serial.hash(&mut hasher);
            canary.percent.map(f64::to_bits).hash(&mut hasher);
            canary.vars.as_ref().map(Value::to_string).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn phases(&self) -> &'static [PluginPhase] {
        let active = self.active.0.extension.phases();
        match &self.canary {
            Some((canary, ..)) => interned_phases(&[active, canary.extension.phases()].concat()),
            None => active,
        }
    }

    /// The phases of sessions; none unless all versions that serve take part in sessions.
    fn stream_phases(&self) -> &'static [StreamPhase] {
        const BOTH: &[StreamPhase] = &[StreamPhase::Preread, StreamPhase::Log];
        let active = self.active.0.extension.stream_phases();
        match &self.canary {
            None => active,
            Some((canary, ..)) => match canary.extension.stream_phases() {
                canary if active == canary => active,
                canary if active.is_empty() || canary.is_empty() => &[],
                _ => BOTH,
            },
        }
    }

    /// An instance; a configuration that a version refuses makes none.
    fn build(&self, build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
        let one = |code: &dyn Extension| {
            Ok(CanaryVersion { plugin: code.build(build, config)?, phases: code.phases() })
        };
        self.chosen(config, one, |both| Arc::new(both))
    }

    /// As [`ServedVersions::build`], for sessions.
    fn build_stream(&self, build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
        let one = |code: &dyn Extension| {
            Ok(CanaryVersion { plugin: code.build_stream(build, config)?, phases: code.stream_phases() })
        };
        self.chosen(config, one, |both| Arc::new(both))
    }

    /// The instance of the active version, or one that holds it beside that of the version on trial.
    fn chosen<P: ?Sized, F: PartialEq + 'static>(
        &self,
        config: &Value,
        version: impl Fn(&dyn Extension) -> Result<CanaryVersion<P, F>, String>,
        hold: impl FnOnce(canary::Canary<P, F>) -> Arc<P>,
    ) -> Result<Arc<P>, String> {
        let one = |code: &LoadedCode| {
            code.extension.check(config)?;
            version(&*code.extension)
        };
        let active = one(self.active.0)?;
        let Some((code, _, canary)) = &self.canary else { return Ok(active.plugin) };
        let trial = one(code).map_err(|reason| format!("the canary version: {reason}"))?;
        Ok(hold(canary::Canary::new(active, trial, share(code, canary)?)))
    }
}

/// The share of the version on trial.
fn share(code: &LoadedCode, canary: &Canary) -> Result<CanaryShare, String> {
    let vars = canary.vars.as_ref().map(Expression::compile).transpose();
    Ok(CanaryShare {
        percent: canary.percent.unwrap_or(100.0),
        vars: vars.map_err(|error| format!("canary.vars: {error}"))?,
        choice: code.choice,
    })
}

impl PluginSource<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            PluginSource::Kind(kind) => kind.name,
            PluginSource::Extension(served) => served.name(),
        }
    }

    pub(super) fn priority(&self) -> i64 {
        match self {
            PluginSource::Kind(kind) => i64::from(kind.priority),
            PluginSource::Extension(served) => served.active.0.priority,
        }
    }

    pub(super) fn phases(&self) -> &'static [PluginPhase] {
        match self {
            PluginSource::Kind(kind) => kind.phases,
            PluginSource::Extension(served) => served.phases(),
        }
    }

    /// The phases of sessions; empty for a plugin of HTTP alone.
    pub(super) fn stream_phases(&self) -> &'static [StreamPhase] {
        match self {
            PluginSource::Kind(kind) => kind.stream.as_ref().map_or(&[], |stream| stream.phases),
            PluginSource::Extension(served) => served.stream_phases(),
        }
    }

    pub(super) fn prefers_route(&self) -> bool {
        matches!(self, PluginSource::Kind(kind) if kind.prefer_route)
    }

    pub(super) fn schema(&self) -> Value {
        match self {
            PluginSource::Kind(kind) => (kind.schema)(),
            PluginSource::Extension(served) => served.active.0.extension.schema(),
        }
    }

    /// Checks a configuration of a plugin inside another one.
    ///
    /// # Errors
    /// The fault, a sentence.
    pub(super) fn check(&self, config: &Value) -> Result<(), String> {
        match self {
            PluginSource::Kind(kind) => (kind.check)(config),
            PluginSource::Extension(served) => served.active.0.extension.check(config),
        }
    }

    /// Builds an instance.
    ///
    /// # Errors
    /// Why it cannot be built, a sentence.
    pub(super) fn build(&self, build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
        match self {
            PluginSource::Kind(kind) => (kind.build)(build, config),
            PluginSource::Extension(served) => served.build(build, config),
        }
    }

    /// Builds an instance for sessions.
    ///
    /// # Errors
    /// Why it cannot be built, a sentence.
    pub(super) fn build_stream(
        &self,
        build: &Build<'_>,
        config: &Value,
    ) -> Result<Arc<dyn StreamPlugin>, String> {
        match self {
            PluginSource::Kind(kind) => match &kind.stream {
                Some(stream) => (stream.build)(build, config),
                None => Err("it serves HTTP only, not layer 4".to_owned()),
            },
            PluginSource::Extension(served) => served.build_stream(build, config),
        }
    }
}

#[cfg(test)]
mod tests;
