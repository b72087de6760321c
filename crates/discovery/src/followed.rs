//! A followed service for tests of registries: started against a stand-in or a real server, with its nodes as
//! text.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use model::discovery::{ServiceDirectory, ServiceKey, ServiceNodes};
use model::outbound::OutboundPolicy;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use testkit::wait_until;

use super::parts::show_instances;
use super::{DiscoveryConfig, ServiceDiscovery};

/// A followed service of a running registry.
pub(super) struct Followed {
    pub(super) discovery: Arc<ServiceDiscovery>,
    registry: String,
    /// Every state since the start, oldest first.
    states: Arc<Mutex<Vec<ServiceNodes>>>,
    _guard: Box<dyn Any + Send + Sync>,
}

impl Followed {
    /// Starts the registry with this block and follows the service.
    pub(super) fn start(registry: &str, block: &Value, service: &str) -> Followed {
        Followed::start_with(registry, block, &ServiceKey::new(registry, service))
    }

    /// As [`Followed::start`], with the whole key.
    pub(super) fn start_with(registry: &str, block: &Value, key: &ServiceKey) -> Followed {
        let blocks = Map::from_iter([(registry.to_owned(), block.clone())]);
        let discovery = ServiceDiscovery::start(DiscoveryConfig {
            blocks,
            policy: OutboundPolicy::default(),
            settle: Duration::from_millis(1),
            ..DiscoveryConfig::default()
        })
        .unwrap();
        follow(Arc::new(discovery), registry, key)
    }

    /// Follows a further service of the same registry.
    pub(super) fn follow(&self, key: &ServiceKey) -> Followed {
        follow(Arc::clone(&self.discovery), &self.registry, key)
    }

    /// Each instance as `HOST:PORT WEIGHT`.
    pub(super) fn shown(&self) -> Vec<String> {
        show_instances(&self.last().instances)
    }

    /// The instances of every state since the start, as [`Followed::shown`] gives them.
    pub(super) fn all_shown(&self) -> Vec<Vec<String>> {
        self.states.lock().iter().map(|nodes| show_instances(&nodes.instances)).collect()
    }

    fn last(&self) -> ServiceNodes {
        self.states.lock().last().cloned().unwrap_or_default()
    }

    /// The priority of each instance, in the order of [`Followed::shown`].
    pub(super) fn priorities(&self) -> Vec<i32> {
        self.last().instances.iter().map(|instance| instance.priority).collect()
    }

    /// Waits for exactly these instances.
    pub(super) fn wait_for(&self, expected: &[&str]) {
        wait_until(&format!("{expected:?} of {}", self.registry), || self.shown() == expected);
    }

    /// Waits until the note about the service contains this text.
    pub(super) fn wait_for_note(&self, text: &str) {
        wait_until(&format!("a note with `{text}`"), || {
            self.last().note.as_ref().is_some_and(|note| note.contains(text))
        });
    }

    /// Waits until the shown state of the registries contains this text of a failure.
    pub(super) fn wait_for_failure(&self, text: &str) {
        wait_until(&format!("a failure with `{text}`"), || {
            self.discovery.states().to_string().contains(text)
        });
    }
}

fn follow(discovery: Arc<ServiceDiscovery>, registry: &str, key: &ServiceKey) -> Followed {
    let states = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&states);
    let guard = discovery.follow(key, Box::new(move |nodes| kept.lock().push(nodes.clone())));
    Followed { discovery, registry: registry.to_owned(), states, _guard: guard }
}
