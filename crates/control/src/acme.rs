//! Certificates from authorities by ACME (RFC 8555): ordered, renewed and brought into force as `ssls`
//! objects, by one instance of a cluster for all. The data plane answers challenges through `model::acme`;
//! nothing here knows it.

mod account;
mod answers;
mod attempt;
mod config;
mod current;
mod failure;
mod http;
mod leader;
mod manager;
mod names;
mod objects;
mod on_demand;
mod order;
mod plan;
mod record;
mod report;
mod schedule;

use std::sync::Arc;

use model::ObjectKey;
use model::acme::Challenges;
use outbound::background::BackgroundThread;
use parking_lot::Mutex;
use serde_json::Value;

use crate::clock::Clock;
use crate::reconcile::Reconcile;
use crate::sealing::Sealer;
use crate::shared_state::SharedState;
use crate::view::SharedView;
use account::Accounts;
use answers::AcmeAnswers;
use attempt::{AttemptContext, AttemptCounts};
pub use config::{AcmeConfig, Authority, ChallengeKind, OnDemandConfig};
use leader::Leader;
use manager::Manager;
pub use names::checked as checked_name;
use objects::Objects;
use on_demand::{Asking, Wishes};
use report::AcmeReport;

/// The parts that managed certificates need.
pub(crate) struct AcmeParts {
    pub(crate) config: AcmeConfig,
    pub(crate) shared: SharedState,
    pub(crate) reconcile: Reconcile,
    pub(crate) view: SharedView,
    pub(crate) sealer: Sealer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) challenges: Arc<Challenges>,
    /// The configuration is a resource file, so that certificates are kept beside it.
    pub(crate) beside_file: bool,
}

/// The managed certificates of one instance.
pub(crate) struct Acme {
    environment: Arc<AttemptContext>,
    view: SharedView,
    wishes: Option<Arc<Wishes>>,
    report: AcmeReport,
    thread: Mutex<Option<BackgroundThread>>,
}

impl Acme {
    /// Managed certificates that are not worked on yet.
    ///
    /// # Errors
    /// The file of trusted authorities cannot be used.
    pub(crate) fn new(parts: AcmeParts) -> Result<Acme, String> {
        let AcmeParts { config, shared, reconcile, view, sealer, clock, challenges, beside_file } = parts;
        let transport = http::AcmeTransport::new(config.ca.as_ref(), config.policy.clone())?;
        let wishes = config.on_demand.as_ref().map(Wishes::new);
        if let Some(wishes) = &wishes {
            challenges.serve_on_demand(Box::new(Asking(Arc::clone(wishes))));
        }
        let (hook, wait) = (config.dns_hook.clone(), config.dns_wait);
        let environment = Arc::new(AttemptContext {
            accounts: Accounts {
                shared: shared.clone(),
                sealer: sealer.clone(),
                email: config.email.clone(),
                transport,
            },
            answers: AcmeAnswers::new(shared.clone(), challenges, hook, wait),
            objects: Objects { reconcile, shared: shared.clone(), sealer, beside_file },
            config,
            shared,
            clock,
            limited: Mutex::default(),
            busy: Mutex::default(),
            counts: AttemptCounts::default(),
        });
        let report = AcmeReport {
            environment: Arc::clone(&environment),
            view: view.clone(),
            name: instance_name(),
            cache: Mutex::default(),
        };
        Ok(Acme { environment, view, wishes, report, thread: Mutex::default() })
    }

    /// Begins to order and to renew, on a thread of its own. A second call does nothing.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        let shared = self.environment.shared.clone();
        let (environment, view) = (Arc::clone(&self.environment), self.view.clone());
        let (wishes, name) = (self.wishes.clone(), self.report.name.clone());
        let run = move |stop| {
            let (environment, view, wishes) = (Arc::clone(&environment), view.clone(), wishes.clone());
            Manager { environment, view, wishes, leader: Leader::new(shared.clone(), name.clone()), stop }
                .run()
        };
        *thread = Some(BackgroundThread::start("acme", LOOKUPS_MAX, run)?);
        Ok(())
    }

    /// Ends the work; orders under way are given up and taken up again by the next start.
    pub(crate) fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            thread.stop();
        }
    }

    /// The state of every managed certificate.
    pub(crate) fn certificates(&self) -> Value {
        self.report.certificates()
    }

    /// How many certificates are in which state.
    pub(crate) fn summary(&self) -> Value {
        self.report.summary()
    }

    /// Appends the metrics.
    pub(crate) fn write_metrics(&self, text: &mut String) {
        self.report.write_metrics(text);
    }
}

impl Drop for Acme {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The certificates that an instance with a resource file has ordered before.
pub(crate) fn load_ordered_certificates(shared: &SharedState, sealer: &Sealer) -> Vec<(ObjectKey, Arc<str>)> {
    objects::read_objects_beside_file(shared, sealer)
}

/// A name that no other process has.
fn instance_name() -> String {
    let mut bytes = [0; 8];
    // Without random bytes the process id tells instances of one machine apart.
    let _ = getrandom::fill(&mut bytes);
    format!("{}-{}", std::process::id(), data_encoding::HEXLOWER.encode(&bytes))
}

/// Names that the system's resolver looks up at once, which blocks.
const LOOKUPS_MAX: usize = 4;
