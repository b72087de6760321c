//! Plugins in WebAssembly as extensions of the gateway: loading a module, the schema of its configurations,
//! and building instances.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest;
use exchange::plugin::extension::{Extension, ExtensionLanguage, interned_phases};
use exchange::plugin::services::Services;
use exchange::plugin::stream::{StreamPhase, StreamPlugin};
use exchange::plugin::{Build, Plugin, PluginPhase};
use model::report::MetricsText;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cache::CodeCache;
use crate::module::CompiledModule;
use crate::plugin::{BodyMode, Configured, FaultCounters, WasmPlugin, WasmStreamPlugin};
use crate::shared::SharedStore;

/// Accepted configurations that one module remembers.
const ACCEPTED_MAX: usize = 1_000;

/// The language `wasm`.
#[derive(Default)]
pub struct Language {
    shared: Arc<SharedStore>,
    /// The folder of compiled code, which is made with the first module.
    cache_folder: Option<PathBuf>,
    cache: OnceLock<Option<CodeCache>>,
    options: BTreeMap<String, PluginOptions>,
}

/// The settings of one plugin that its code does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginOptions {
    /// Where it runs among other plugins.
    pub priority: i64,
    /// The phase in which it sees requests.
    pub phase: RequestPhase,
}

/// The phase in which a guest sees requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestPhase {
    /// Before authentication.
    Rewrite,
    /// After authentication.
    #[default]
    Access,
}

impl Language {
    /// Keeps compiled code in `folder`. Where it cannot be used, a warning says why, and each start compiles.
    #[must_use]
    pub fn with_cache(mut self, folder: PathBuf) -> Language {
        self.cache_folder = Some(folder);
        self
    }

    fn cache(&self) -> Option<&CodeCache> {
        let folder = self.cache_folder.as_ref()?;
        let open = || match CodeCache::open(folder) {
            Ok(cache) => Some(cache),
            Err(reason) => {
                tracing::warn!(target: "wasm", %reason, "compiled code is not kept");
                None
            }
        };
        self.cache.get_or_init(open).as_ref()
    }

    /// Gives the plugins of these names settings.
    #[must_use]
    pub fn with_options(mut self, options: BTreeMap<String, PluginOptions>) -> Language {
        self.options = options;
        self
    }
}

impl ExtensionLanguage for Language {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn load(
        &self,
        name: &'static str,
        content: &[u8],
        services: &Services,
    ) -> Result<Arc<dyn Extension>, String> {
        let module = CompiledModule::new(name, content, &self.shared, self.cache())?;
        let metrics: Arc<dyn MetricsText> = self.shared.metrics.clone();
        services.add_metrics(metrics);
        let options = self.options.get(name).copied().unwrap_or_default();
        Ok(Arc::new(WasmExtension { module: Arc::new(module), options, accepted: Mutex::default() }))
    }
}

/// A module as an extension.
struct WasmExtension {
    module: Arc<CompiledModule>,
    options: PluginOptions,
    /// Digests of configurations that the guest has accepted: many objects have the same one, and a check
    /// starts the guest.
    accepted: Mutex<BTreeSet<Vec<u8>>>,
}

impl Extension for WasmExtension {
    fn priority(&self) -> i64 {
        self.options.priority
    }

    fn phases(&self) -> &'static [PluginPhase] {
        let mut phases = vec![
            PluginPhase::Access,
            PluginPhase::ResponseHead,
            PluginPhase::ResponseBody,
            PluginPhase::BeforeLog,
        ];
        if self.options.phase == RequestPhase::Rewrite {
            phases.push(PluginPhase::Rewrite);
        }
        if self.module.has_request_body {
            phases.push(PluginPhase::RequestBody);
        }
        interned_phases(&phases)
    }

    /// `conf` is that of APISIX; the rest is of the gateway.
    fn schema(&self) -> Value {
        let modes: Vec<&str> = BodyMode::ALL.iter().map(|(name, _)| *name).collect();
        json!({
            "type": "object",
            "properties": {
                "conf": {
                    "oneOf": [
                        { "type": "object", "minProperties": 1 },
                        { "type": "string", "minLength": 1 },
                    ],
                },
                "request_body": { "type": "string", "enum": modes, "default": "auto" },
                "response_body": { "type": "string", "enum": modes, "default": "auto" },
                "downstream_data": { "type": "string", "enum": ["preread", "off"], "default": "preread" },
            },
            "required": ["conf"],
        })
    }

    /// The guest is configured in an instance of its own, which serves nothing.
    fn check(&self, config: &Value) -> Result<(), String> {
        let text = text(config);
        let digest = digest::digest(&digest::SHA256, &text).as_ref().to_vec();
        if self.accepted.lock().contains(&digest) {
            return Ok(());
        }
        let mut vm = self.module.trial()?;
        vm.configure(&text).map_err(|fault| fault.text)?;
        let mut accepted = self.accepted.lock();
        if accepted.len() >= ACCEPTED_MAX {
            accepted.clear();
        }
        accepted.insert(digest);
        Ok(())
    }

    fn stream_phases(&self) -> &'static [StreamPhase] {
        if self.module.has_sessions { &[StreamPhase::Preread, StreamPhase::Log] } else { &[] }
    }

    fn serves_http(&self) -> bool {
        self.module.has_requests || !self.module.has_sessions
    }

    fn build_stream(&self, build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
        let (configured, counters) = self.configured(build, config);
        let is_off = config.get("downstream_data").and_then(Value::as_str) == Some("off");
        let sees_data = self.module.has_first_bytes && !is_off;
        Ok(Arc::new(WasmStreamPlugin { configured: Arc::new(configured), sees_data, counters }))
    }

    fn build(&self, build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
        let (configured, counters) = self.configured(build, config);
        let mode = |name: &str| BodyMode::of(config.get(name).and_then(Value::as_str).unwrap_or_default());
        Ok(Arc::new(WasmPlugin {
            configured: Arc::new(configured),
            phase: self.options.phase,
            request_body: mode("request_body"),
            response_body: mode("response_body"),
            counters,
        }))
    }
}

impl WasmExtension {
    fn configured(&self, build: &Build<'_>, config: &Value) -> (Configured, FaultCounters) {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let counters = FaultCounters::new(self.module.identity.name, build.services);
        let configured = Configured {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            module: self.module.clone(),
            text: text(config),
            opener: build.services.opener(),
            background_faults: counters.background.clone(),
        };
        (configured, counters)
    }
}

/// The text that the guest is given: a text as it is, an object as JSON.
fn text(config: &Value) -> Arc<[u8]> {
    match config.get("conf") {
        Some(Value::String(text)) => text.as_bytes().into(),
        Some(other) => other.to_string().into_bytes().into(),
        None => Arc::default(),
    }
}
