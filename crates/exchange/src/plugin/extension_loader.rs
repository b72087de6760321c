//! Loads extensions in the languages that boot handed in, and keeps recently loaded ones. It names no
//! language.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use model::PluginInfo;
use model::catalog::Subsystem;
use model::extension::{ExtensionLoader, LoadedVersion, version_of};
use parking_lot::Mutex;
use serde_json::Value;

use super::extension::{Extension, ExtensionLanguage, interned_name};
use super::services::Services;

/// Versions that were loaded last and stay loaded, so that a write loads its version once for the check and
/// for coming into force.
const RECENT_MAX: usize = 8;

/// A loaded version, as the compiler finds it in [`LoadedVersion::code`].
pub struct LoadedCode {
    /// The name of the plugin.
    pub name: &'static str,
    /// Where its instances run among those of other plugins: higher first.
    pub priority: i64,
    /// Under this number a request keeps which version of the plugin serves it.
    pub choice: u32,
    /// The code.
    pub extension: Arc<dyn Extension>,
}

/// Makes the services that code is loaded with.
type MakeServices = Box<dyn Fn() -> Result<Arc<Services>, String> + Send + Sync>;

/// Loads extensions.
pub struct Loader {
    languages: Vec<Box<dyn ExtensionLanguage>>,
    make_services: MakeServices,
    services: OnceLock<Arc<Services>>,
    recent: Mutex<VecDeque<Recent>>,
}

struct Recent {
    language: &'static str,
    name: &'static str,
    digest: String,
    loaded: LoadedVersion,
}

impl Loader {
    /// A loader for these languages. The services are made when the first extension is loaded.
    pub fn new(
        languages: Vec<Box<dyn ExtensionLanguage>>,
        services: impl Fn() -> Result<Arc<Services>, String> + Send + Sync + 'static,
    ) -> Loader {
        Loader {
            languages,
            make_services: Box::new(services),
            services: OnceLock::new(),
            recent: Mutex::default(),
        }
    }

    /// Loads a version; `priority` replaces that of the code.
    ///
    /// # Errors
    /// Why it cannot be loaded, a sentence.
    pub fn load_with_priority(
        &self,
        name: &str,
        language: &str,
        content: &[u8],
        priority: Option<i64>,
    ) -> Result<LoadedVersion, String> {
        let loaded = self.load(name, language, content)?;
        let (Some(priority), Some(code)) = (priority, loaded.code.downcast_ref::<LoadedCode>()) else {
            return Ok(loaded);
        };
        Ok(loaded_version(code.name, code.extension.clone(), priority))
    }

    fn services(&self) -> Result<Arc<Services>, String> {
        if let Some(services) = self.services.get() {
            return Ok(services.clone());
        }
        let made = (self.make_services)()?;
        Ok(self.services.get_or_init(|| made).clone())
    }
}

impl ExtensionLoader for Loader {
    fn languages(&self) -> Vec<&'static str> {
        self.languages.iter().map(|language| language.name()).collect()
    }

    fn is_binary(&self, language: &str) -> bool {
        self.languages.iter().any(|one| one.name() == language && one.is_binary())
    }

    fn load(&self, name: &str, language: &str, content: &[u8]) -> Result<LoadedVersion, String> {
        let known = self.languages.iter().find(|one| one.name() == language);
        let known = known.ok_or_else(|| format!("there is no language {language}"))?;
        let (name, digest) = (interned_name(name)?, version_of(content));
        let is_it = |one: &&Recent| one.language == known.name() && one.name == name && one.digest == digest;
        if let Some(recent) = self.recent.lock().iter().find(is_it) {
            return Ok(recent.loaded.clone());
        }
        let services = self.services()?;
        // A panic of a language's own code must not end the thread that decides on writes.
        let load = catch_unwind(AssertUnwindSafe(|| known.load(name, content, &services)));
        let extension = load.unwrap_or_else(|_| Err(format!("the code of {language} has panicked")))?;
        let loaded = loaded_version(name, extension.clone(), extension.priority());
        let mut recent = self.recent.lock();
        recent.push_front(Recent { language: known.name(), name, digest, loaded: loaded.clone() });
        recent.truncate(RECENT_MAX);
        Ok(loaded)
    }
}

fn loaded_version(name: &'static str, extension: Arc<dyn Extension>, priority: i64) -> LoadedVersion {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    let checked = extension.clone();
    let (on_http, on_streams) = (extension.phases(), extension.stream_phases());
    let mut phases = Vec::new();
    if extension.serves_http() {
        phases.extend(on_http.iter().filter_map(|phase| phase.contract_name()));
    }
    for name in on_streams.iter().map(|phase| phase.name()) {
        if !phases.contains(&name) {
            phases.push(name);
        }
    }
    let info = PluginInfo {
        phases,
        subsystems: match (extension.serves_http(), on_streams.is_empty()) {
            (true, true) => &[Subsystem::Http],
            (true, false) => &[Subsystem::Http, Subsystem::Stream],
            (false, _) => &[Subsystem::Stream],
        },
        metadata_schema: extension.metadata_schema().map(Arc::new),
        loaded_endpoints: extension.control_endpoints(),
        check_running: Some(Arc::new(move |config: &Value| checked.check(config))),
        ..PluginInfo::new(name, priority, extension.schema())
    };
    let code: Arc<dyn Any + Send + Sync> =
        Arc::new(LoadedCode { name, priority, choice: choice_of(name), extension });
    LoadedVersion { info, serial: SERIAL.fetch_add(1, Ordering::Relaxed), code }
}

/// The number of the choice between versions of `name`; from the end of the numbers, which those of instances
/// never reach.
fn choice_of(name: &'static str) -> u32 {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock();
    let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    u32::MAX - u32::try_from(index).unwrap_or(u32::MAX)
}
