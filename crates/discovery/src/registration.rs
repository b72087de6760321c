//! Registration of this instance in service registries. Each kind of registry is a file beside its discovery
//! and one entry of `ALL`. One thread registers the instance when it is ready, renews the registration, and
//! registers it again where the registry has lost it. A registry that is down delays no request: it is asked
//! again later. The connection to a registry has the fields of its `discovery` block, so that a block here
//! names only what differs.

mod block;
mod keep;
mod state;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::outbound::OutboundPolicy;
use outbound::background::BackgroundThread;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

pub(super) use block::RegistrationIdentity;
use block::read_registration;
pub use block::{check_registration_blocks, faults_together};
use keep::RegistrationPhase;
use state::States;

use super::{BuildContext, RegistryKind, consul, eureka, nacos};

/// All kinds of registries that an instance can be registered in.
const ALL: &[RegistrarKind] = &[consul::REGISTRAR, eureka::REGISTRAR, nacos::REGISTRAR];

/// Makes a registrar of a block, for an identity.
type BuildRegistrar = fn(&Value, RegistrationIdentity, &BuildContext) -> Result<Box<dyn Registrar>, String>;

/// A kind of registry that an instance can be registered in.
pub(super) struct RegistrarKind {
    /// Its discovery, which has the name and the schemas of the connection.
    pub(super) registry: RegistryKind,
    /// The fields of the connection, which the `discovery` block of the same name stands in for.
    pub(super) connection: &'static [&'static str],
    /// The JSON Schemas of the fields that only this kind has: an object of properties.
    pub(super) properties: fn() -> Value,
    /// Makes a registrar of a block with its connection. The error is a sentence.
    pub(super) build: BuildRegistrar,
}

/// A call of a registrar; the error is a sentence.
pub(super) type Calling<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// One instance in one registry. Calls do no harm when they are repeated.
pub(super) trait Registrar: Send + Sync + 'static {
    /// The time between two renewals.
    fn interval(&self) -> Duration;

    /// Registers the instance, in place of what is there under its name.
    fn register(&self) -> Calling<'_, ()>;

    /// Renews the registration.
    fn renew(&self) -> Calling<'_, Renewal>;

    /// Takes the instance out; a registry without it is no error.
    fn withdraw(&self) -> Calling<'_, ()>;
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Kept,
    /// The registry does not know the instance: it has to be registered again.
    Lost,
}

/// The listeners of the proxy that are registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyAddresses {
    /// The first listener without TLS.
    pub plain: Option<SocketAddr>,
    /// The first listener with TLS.
    pub tls: Option<SocketAddr>,
}

/// The registrations that the settings ask for.
#[derive(Debug, Default)]
pub struct RegistrationConfig {
    /// The block of each registry, by its name.
    pub blocks: Map<String, Value>,
    /// The blocks of `discovery`, which stand in for fields of the connection.
    pub discovery: Map<String, Value>,
    /// The bound listeners.
    pub addresses: ProxyAddresses,
    /// The addresses that may not be connected to.
    pub policy: OutboundPolicy,
}

/// The registrations of this instance. Dropping it ends the thread and leaves the instance registered, so
/// that a successor with the same identity goes on.
pub struct Registration {
    states: Arc<States>,
    phase: watch::Sender<RegistrationPhase>,
    waiting: Mutex<Option<Vec<keep::KeptRegistration>>>,
    thread: Mutex<Option<BackgroundThread>>,
}

impl Registration {
    /// Reads the blocks; [`Registration::start`] begins.
    ///
    /// # Errors
    /// A block is faulty; the reason names it.
    pub fn new(config: RegistrationConfig) -> Result<Registration, String> {
        let context = BuildContext { policy: config.policy, ..BuildContext::default() };
        let states = Arc::new(States::default());
        let mut waiting = Vec::new();
        for (name, block) in &config.blocks {
            let (kind, block, identity) = read_registration(name, block, &config.discovery, config.addresses)
                .map_err(|reason| format!("registration.{name}: {reason}"))?;
            let shown = identity.shown();
            let registrar = (kind.build)(&block, identity, &context)
                .map_err(|reason| format!("registration.{name}: {reason}"))?;
            states.add(kind.registry.name, shown);
            waiting
                .push(keep::KeptRegistration { name: kind.registry.name, registrar: Arc::from(registrar) });
        }
        let (phase, _) = watch::channel(RegistrationPhase::Registered);
        Ok(Registration { states, phase, waiting: Mutex::new(Some(waiting)), thread: Mutex::default() })
    }

    /// Registers the instance as soon as `is_ready` says so, and keeps it registered. A second call does
    /// nothing.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(&self, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> io::Result<()> {
        let Some(kept) = self.waiting.lock().take().filter(|kept| !kept.is_empty()) else { return Ok(()) };
        let (states, phase) = (Arc::clone(&self.states), self.phase.subscribe());
        let is_ready: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(is_ready);
        let started = BackgroundThread::start("registration", MAX_LOOKUPS, move |stopping| {
            keep::keep_registrations(
                kept.clone(),
                Arc::clone(&states),
                Arc::clone(&is_ready),
                phase.clone(),
                stopping,
            )
        });
        *self.thread.lock() = Some(started?);
        Ok(())
    }

    /// Takes the instance out of all registries, and waits for that at most for `WITHDRAW_WITHIN` or until
    /// `abandon`. True if no registry has the instance any more.
    pub fn withdraw(&self, abandon: &dyn Fn() -> bool) -> bool {
        if self.thread.lock().is_none() {
            return true;
        }
        self.phase.send_replace(RegistrationPhase::Withdrawing);
        self.states.wait_until_withdrawn(WITHDRAW_WITHIN, abandon)
    }

    /// Ends the thread; what is registered stays registered until its lease ends.
    pub fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            thread.stop();
        }
    }

    /// The state in each registry, for `GET /v1/registration`.
    pub fn shown(&self) -> Value {
        self.states.shown()
    }

    /// Appends the metrics of all registrations.
    pub fn write_metrics(&self, text: &mut String) {
        self.states.write_metrics(text);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Registration")
    }
}

/// Longest wait for registries when the instance takes itself out. A registry that does not answer by then
/// removes the instance when its lease ends; the drain must not wait for that.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(5);
/// Threads for name lookups.
const MAX_LOOKUPS: usize = 2;

#[cfg(test)]
mod tests;
