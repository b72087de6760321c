//! The loop that keeps certificates valid: it looks which are due, makes attempts at a few at a time, takes
//! up names that handshakes asked for, and leaves all of that to the leader where there are several
//! instances.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use super::attempt::{AttemptContext, DueCertificate, RECORDS, record_path};
use super::current::Current;
use super::leader::Leader;
use super::names;
use super::on_demand::{TokenBucket, Wishes};
use super::plan::{self, CertificateStep};
use super::record::CertificateRecord;
use crate::view::SharedView;

/// See the module.
pub(super) struct Manager {
    pub(super) environment: Arc<AttemptContext>,
    pub(super) view: SharedView,
    pub(super) wishes: Option<Arc<Wishes>>,
    pub(super) leader: Leader,
    pub(super) stop: watch::Receiver<bool>,
}

/// A certificate that is to be kept valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedCertificate {
    pub(super) id: String,
    pub(super) names: Vec<String>,
    pub(super) on_demand: bool,
}

/// The certificates in force, by their ids, so that each is parsed once.
#[derive(Default)]
pub(super) struct CurrentCache(HashMap<String, (u64, Option<Current>)>);

impl AttemptContext {
    /// Every certificate that is to be kept valid: those of the settings, and those that were asked for and
    /// still may be.
    pub(super) fn wanted(&self) -> Vec<WantedCertificate> {
        let mut all: Vec<WantedCertificate> = self
            .config
            .certificates
            .iter()
            .map(|names| WantedCertificate {
                id: names::id_of(names),
                names: names.clone(),
                on_demand: false,
            })
            .collect();
        let Some(rules) = &self.config.on_demand else { return all };
        let on_demand = self.shared.list(RECORDS).into_iter().filter_map(|(id, text)| {
            let record = CertificateRecord::read(&text).filter(|record| record.on_demand)?;
            let is_allowed = record.names.iter().all(|name| names::is_allowed(&rules.allow, name));
            (is_allowed && !record.names.is_empty()).then_some(WantedCertificate {
                id,
                names: record.names,
                on_demand: true,
            })
        });
        let on_demand: Vec<WantedCertificate> = on_demand.take(rules.limit).collect();
        all.extend(
            on_demand.into_iter().filter(|wanted| !self.is_of_settings(&wanted.id)).collect::<Vec<_>>(),
        );
        all
    }

    fn is_of_settings(&self, id: &str) -> bool {
        self.config.certificates.iter().any(|names| names::id_of(names) == id)
    }
}

impl CurrentCache {
    /// The certificate in force for `id`.
    pub(super) fn get(&mut self, view: &SharedView, id: &str) -> Option<Current> {
        let key = names::key_of(id)?;
        let snapshot = &view.load().snapshot;
        let revision = snapshot.get(&key).map_or(0, |object| object.written.modified_index);
        let known = self.0.entry(id.to_owned()).or_insert((u64::MAX, None));
        if known.0 != revision {
            *known = (revision, Current::in_force(snapshot, &key));
        }
        known.1.clone()
    }

    /// Forgets certificates that are no longer wanted.
    fn keep(&mut self, wanted: &[WantedCertificate]) {
        if self.0.len() > wanted.len() {
            self.0.retain(|id, _| wanted.iter().any(|wanted| wanted.id == *id));
        }
    }
}

impl Manager {
    /// Runs until it is stopped.
    pub(super) async fn run(mut self) {
        // Attempts of a run that has panicked ended with it.
        self.environment.busy.lock().clear();
        let mut attempts: JoinSet<()> = JoinSet::new();
        let mut ids: HashMap<Id, String> = HashMap::new();
        let mut cache = CurrentCache::default();
        let mut rate = TokenBucket::new(Instant::now());
        while !*self.stop.borrow() {
            self.environment.answers.publish();
            let mut next = Instant::now() + IDLE_MAX;
            if self.leader.lead().await {
                self.take_wishes(&mut rate).await;
                next = next.min(self.start_due(&mut attempts, &mut ids, &mut cache));
            } else {
                self.pass_wishes_on().await;
                if !attempts.is_empty() {
                    tracing::warn!(
                        "another instance orders certificates now; orders under way are left to it"
                    );
                    attempts.abort_all();
                }
            }
            next = self.leader.next().map_or(next, |renew| next.min(renew));
            // Together with the pause, so that a flood of changes is looked at in batches.
            tokio::time::sleep(LEAST_PAUSE).await;
            let ended = tokio::select! {
                Some(ended) = attempts.join_next_with_id(), if !attempts.is_empty() => Some(ended),
                () = tokio::time::sleep_until(next.into()) => None,
                () = self.environment.shared.changed() => None,
                () = noted(self.wishes.as_deref()) => None,
                _ = self.stop.wait_for(|stop| *stop) => None,
            };
            let (task, panicked) = match ended {
                None => continue,
                Some(Ok((task, ()))) => (task, false),
                Some(Err(fault)) => (fault.id(), fault.is_panic()),
            };
            if let Some(id) = ids.remove(&task) {
                self.end(&id, panicked).await;
            }
        }
        self.leader.resign().await;
    }

    /// Starts attempts at what is due, as many as there are places; when there is something to do again.
    fn start_due(
        &self,
        attempts: &mut JoinSet<()>,
        ids: &mut HashMap<Id, String>,
        cache: &mut CurrentCache,
    ) -> Instant {
        let now_ms = self.environment.clock.unix_ms();
        let mut next_ms = u64::MAX;
        let wanted = self.environment.wanted();
        cache.keep(&wanted);
        for WantedCertificate { id, names, .. } in wanted {
            if self.environment.busy.lock().contains(&id) {
                continue;
            }
            let current = cache.get(&self.view, &id);
            let step = plan::plan_next_step(&names, current.as_ref(), &self.environment.record(&id), now_ms);
            if let CertificateStep::WaitUntil(at_ms) = step {
                next_ms = next_ms.min(at_ms);
                continue;
            }
            if attempts.len() >= ATTEMPTS_MAX {
                continue;
            }
            self.environment.busy.lock().insert(id.clone());
            let (environment, due) =
                (Arc::clone(&self.environment), DueCertificate { id: id.clone(), names, current });
            let task = attempts.spawn(async move {
                match step {
                    CertificateStep::Order => environment.order(&due).await,
                    _ => environment.ask_for_advice(&due).await,
                }
            });
            ids.insert(task.id(), id);
        }
        Instant::now() + Duration::from_millis(next_ms.saturating_sub(now_ms).min(IDLE_MAX_MS))
    }

    /// Frees the place of an attempt. One that panicked counts as failed, because it would be made again at
    /// once otherwise.
    async fn end(&self, id: &str, panicked: bool) {
        if panicked {
            tracing::error!(certificate = id, "an attempt at a certificate has panicked");
            self.environment.counts.failed.fetch_add(1, Ordering::Relaxed);
            let mut record = self.environment.record(id);
            record.fail("the attempt has panicked".to_owned(), None, self.environment.clock.unix_ms(), 0);
            // Kept or not, the error is logged.
            let _ = self.environment.shared.put(&record_path(id), &record.text(), None).await;
        }
        self.environment.busy.lock().remove(id);
    }

    /// Takes up names that handshakes asked for, here and at other instances.
    async fn take_wishes(&self, rate: &mut TokenBucket) {
        let (Some(wishes), Some(rules)) = (&self.wishes, &self.environment.config.on_demand) else { return };
        let shared = &self.environment.shared;
        let mut names: Vec<String> = Vec::new();
        for (name, _) in shared.list(WISHES).into_iter().take(WISHES_AT_ONCE) {
            // Taken now or refused, the text has served; what cannot be removed ends by itself.
            let _ = shared.remove(&format!("{WISHES}{name}")).await;
            names.push(name);
        }
        names.extend(wishes.take(WISHES_AT_ONCE));
        names
            .retain(|name| names::checked(name).is_ok_and(|checked| checked == *name) && wishes.allows(name));
        if names.is_empty() {
            return;
        }
        let wanted = self.environment.wanted();
        names.retain(|name| {
            !wanted.iter().any(|wanted| wanted.names.iter().any(|other| names::covers(other, name)))
        });
        let room = rules.limit.saturating_sub(wanted.iter().filter(|wanted| wanted.on_demand).count());
        let taken = rate.take(names.len().min(room), Instant::now());
        if taken < names.len() {
            let (asked, limit) = (names.len(), rules.limit);
            tracing::warn!(
                asked,
                taken,
                limit,
                "not every name that clients ask for gets a certificate on demand"
            );
        }
        for name in names.into_iter().take(taken) {
            let names = vec![name];
            let id = names::id_of(&names);
            let record = CertificateRecord { on_demand: true, names, ..self.environment.record(&id) };
            if let Err(fault) = shared.put(&record_path(&id), &record.text(), None).await {
                tracing::warn!(certificate = id, %fault, "a certificate on demand is not noted");
            }
        }
    }

    /// Tells the leader of names that handshakes asked for here.
    async fn pass_wishes_on(&self) {
        let Some(wishes) = &self.wishes else { return };
        for name in wishes.take(WISHES_AT_ONCE) {
            let path = format!("{WISHES}{name}");
            if let Err(fault) = self.environment.shared.put(&path, "1", Some(WISH_TTL)).await {
                tracing::warn!(name, %fault, "the leader does not hear of a name that a client asked for");
            }
        }
    }
}

async fn noted(wishes: Option<&Wishes>) {
    match wishes {
        Some(wishes) => wishes.noted().await,
        None => std::future::pending().await,
    }
}

/// The folder in which instances tell the leader of names.
const WISHES: &str = "wishes/";
/// Names that are taken up in one turn.
const WISHES_AT_ONCE: usize = 16;
/// A name that no leader takes up is asked for again by the next handshake.
const WISH_TTL: Duration = Duration::from_secs(600);
/// Attempts at once: an authority checks names for seconds, and its limits count by the hour.
const ATTEMPTS_MAX: usize = 4;
/// The longest pause between two looks: objects may be removed and clocks be set without a word.
const IDLE_MAX: Duration = Duration::from_millis(IDLE_MAX_MS);
const IDLE_MAX_MS: u64 = 30_000;
/// Between two looks.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
