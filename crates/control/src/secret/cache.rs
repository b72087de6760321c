//! The known value of each secret, and the next request: a state machine without a clock, a thread or a
//! socket. Times are passed in. It does not know how a manager is asked.
//!
//! A document is the answer of a manager for one path; several references may name fields of one document.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::secret_reference::SecretReference;
use serde_json::Value;

/// The fields of a document.
pub(super) type SecretFields = BTreeMap<Box<str>, String>;

/// The reason why a manager gave no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretFailure {
    /// A sentence without any secret.
    pub(super) reason: String,
    /// Whether the manager says that the document does not exist, so that the last value is no longer valid.
    pub(super) gone: bool,
}

impl SecretFailure {
    /// The manager could not be asked, or its answer could not be used; the last value stays valid.
    pub(super) fn passing(reason: impl Into<String>) -> SecretFailure {
        SecretFailure { reason: reason.into(), gone: false }
    }
}

/// The name of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DocumentId {
    /// The secret manager object, `vault/1`.
    pub(super) manager: Arc<str>,
    /// The path of the document within the manager.
    pub(super) path: Arc<str>,
}

/// A document to request.
#[derive(Debug)]
pub(super) struct SecretTask {
    pub(super) id: DocumentId,
    /// The manager object as written.
    pub(super) manager: Arc<Value>,
    version: u64,
}

/// Count of references in each state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReferenceCounts {
    pub(super) fresh: usize,
    pub(super) stale: usize,
    pub(super) unresolved: usize,
}

/// Documents and their managers.
#[derive(Debug)]
pub(super) struct SecretCache {
    refresh: Duration,
    stale: Duration,
    timeout: Duration,
    managers: HashMap<Arc<str>, Arc<Value>>,
    documents: HashMap<DocumentId, CachedDocument>,
    /// Counts changes of managers, so that an answer to a request from before a change is ignored.
    version: u64,
}

#[derive(Debug)]
struct CachedDocument {
    /// The last good answer.
    fields: Option<SecretFields>,
    /// The time until which that answer is valid, even if the manager fails.
    good_until: Instant,
    /// The reason why there is no newer answer.
    fault: Option<String>,
    failures: u32,
    due: Instant,
    /// The time until which an answer may come, if the document was requested.
    asked_until: Option<Instant>,
    version: u64,
    tried: bool,
    /// The references to the document, each with the key of its field.
    wanted: HashMap<Arc<str>, Box<str>>,
}

impl CachedDocument {
    fn value(&self, key: &str) -> Result<String, String> {
        match (&self.fields, &self.fault) {
            (Some(fields), _) => match fields.get(key) {
                Some(value) => Ok(value.clone()),
                None => Err(format!("the secret manager has the path, and no text under `{key}` there")),
            },
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Err("the secret manager has not answered yet".to_owned()),
        }
    }

    fn values(&self) -> Vec<(Arc<str>, Result<String, String>)> {
        self.wanted.iter().map(|(reference, key)| (Arc::clone(reference), self.value(key))).collect()
    }
}

impl SecretCache {
    pub(super) fn new(refresh: Duration, stale: Duration, timeout: Duration) -> SecretCache {
        let (managers, documents) = (HashMap::new(), HashMap::new());
        SecretCache { refresh, stale, timeout, managers, documents, version: 0 }
    }

    /// Whether there are no references.
    pub(super) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Adds a reference, so that its value is kept. References to the environment and malformed ones are
    /// ignored.
    pub(super) fn follow(&mut self, reference: &Arc<str>, now: Instant) {
        let Some((id, key)) = parts(reference) else { return };
        let room = self.documents.len() < MAX_DOCUMENTS;
        if !room && !self.documents.contains_key(&id) {
            tracing::error!(
                reference = &**reference,
                "more than {MAX_DOCUMENTS} secrets are referred to; this one is not asked for"
            );
            return;
        }
        let (version, known) = (self.version, self.managers.contains_key(&id.manager));
        let document = self.documents.entry(id).or_insert_with(|| CachedDocument {
            fields: None,
            good_until: now,
            fault: (!known).then(|| NO_MANAGER.to_owned()),
            failures: 0,
            // Without a manager there is no request; when the manager object appears, all of its documents
            // are due.
            due: if known { now } else { now + FAR },
            asked_until: None,
            version,
            tried: !known,
            wanted: HashMap::new(),
        });
        document.wanted.insert(Arc::clone(reference), key.into());
    }

    /// Removes a reference.
    pub(super) fn forget(&mut self, reference: &Arc<str>) {
        let Some((id, _)) = parts(reference) else { return };
        if let Some(document) = self.documents.get_mut(&id) {
            document.wanted.remove(reference);
            if document.wanted.is_empty() {
                self.documents.remove(&id);
            }
        }
    }

    /// Sets or removes the manager object under `id`. Its documents are requested again; if it is removed,
    /// their values are dropped. Returns the references with a changed value.
    pub(super) fn set_manager(
        &mut self,
        id: &Arc<str>,
        manager: Option<Value>,
        now: Instant,
    ) -> Vec<Arc<str>> {
        self.version += 1;
        let gone = manager.is_none();
        match manager {
            Some(manager) => self.managers.insert(Arc::clone(id), Arc::new(manager)),
            None => self.managers.remove(id),
        };
        let mut changed = Vec::new();
        let version = self.version;
        for (_, document) in self.documents.iter_mut().filter(|(document, _)| document.manager == *id) {
            (document.due, document.failures, document.asked_until) = (now, 0, None);
            (document.version, document.tried) = (version, gone);
            changed.extend(replace(document, |document| {
                document.fault = gone.then(|| NO_MANAGER.to_owned());
                if gone {
                    document.fields = None;
                    document.due = now + FAR;
                }
            }));
        }
        changed
    }

    /// The documents to request now, at most `room` of them.
    pub(super) fn due(&mut self, now: Instant, room: usize) -> Vec<SecretTask> {
        let mut tasks = Vec::new();
        for (id, document) in &mut self.documents {
            if tasks.len() >= room {
                break;
            }
            if document.due > now || document.asked_until.is_some_and(|until| until > now) {
                continue;
            }
            if let Some(manager) = self.managers.get(&id.manager) {
                document.asked_until = Some(now + 2 * self.timeout);
                let (id, manager) = (id.clone(), Arc::clone(manager));
                tasks.push(SecretTask { id, manager, version: document.version });
            }
        }
        tasks
    }

    /// Takes up an answer. Returns the references with a changed value.
    pub(super) fn answered(
        &mut self,
        task: &SecretTask,
        answer: Result<SecretFields, SecretFailure>,
        now: Instant,
    ) -> Vec<Arc<str>> {
        let (refresh, stale, timeout) = (self.refresh, self.stale, self.timeout);
        let Some(document) = self.documents.get_mut(&task.id) else { return Vec::new() };
        if document.version != task.version {
            return Vec::new();
        }
        document.asked_until = None;
        document.tried = true;
        match answer {
            Ok(fields) => {
                document.failures = 0;
                document.due = now + refresh;
                // The value is valid for longer than a new request takes; otherwise it would expire before
                // each answer.
                document.good_until = now + stale.max(refresh + 2 * timeout);
                replace(document, |document| {
                    document.fields = Some(fields);
                    document.fault = None;
                })
            }
            Err(failure) => {
                let SecretFailure { reason, gone } = failure;
                if document.fault.as_ref() != Some(&reason) {
                    tracing::warn!(manager = &*task.id.manager, path = &*task.id.path, reason, "no secret");
                }
                document.due = now + pause(document.failures).min(refresh);
                document.failures = document.failures.saturating_add(1);
                let over = document.good_until <= now;
                replace(document, |document| {
                    if gone || over {
                        document.fields = None;
                    }
                    document.fault = Some(reason);
                })
            }
        }
    }

    /// Drops expired values. Returns the references with a changed value.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Arc<str>> {
        let over = |document: &&mut CachedDocument| document.fields.is_some() && document.good_until <= now;
        let expired = self.documents.values_mut().filter(over);
        expired.flat_map(|document| replace(document, |document| document.fields = None)).collect()
    }

    /// The time of the next action; a time far in the future if there is none.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let moments = self.documents.values().flat_map(|document| {
            let ask = document.asked_until.map_or(document.due, |until| until.max(document.due));
            [Some(ask), document.fields.is_some().then_some(document.good_until)]
        });
        moments.flatten().min().unwrap_or(now + FAR)
    }

    /// The value of a reference to a manager.
    ///
    /// # Errors
    /// The reason why there is no value.
    pub(super) fn value(&self, reference: &str) -> Result<String, String> {
        let Some((id, key)) = parts(reference) else { return Err("it is no such reference".to_owned()) };
        match self.documents.get(&id) {
            Some(document) => document.value(key),
            None => Err("the secret manager was not asked for it".to_owned()),
        }
    }

    /// Whether every document was requested at least once.
    pub(super) fn all_tried(&self) -> bool {
        self.documents.values().all(|document| document.tried)
    }

    /// Count of references in each state.
    pub(super) fn counts(&self) -> ReferenceCounts {
        let mut counts = ReferenceCounts::default();
        for document in self.documents.values() {
            for key in document.wanted.values() {
                match (document.value(key), &document.fault) {
                    (Ok(_), None) => counts.fresh += 1,
                    (Ok(_), Some(_)) => counts.stale += 1,
                    (Err(_), _) => counts.unresolved += 1,
                }
            }
        }
        counts
    }
}

/// Changes a document. Returns the references with a changed value, or with another reason for having none.
fn replace(document: &mut CachedDocument, change: impl FnOnce(&mut CachedDocument)) -> Vec<Arc<str>> {
    let before = document.values();
    change(document);
    let after: HashMap<Arc<str>, Result<String, String>> = document.values().into_iter().collect();
    before
        .into_iter()
        .filter(|(reference, value)| after.get(reference) != Some(value))
        .map(|(name, _)| name)
        .collect()
}

fn parts(reference: &str) -> Option<(DocumentId, &str)> {
    match SecretReference::parse(reference)? {
        SecretReference::Managed { manager, path, key } => {
            Some((DocumentId { manager: manager.into(), path: path.into() }, key))
        }
        _ => None,
    }
}

/// The text of a JSON value that can be a secret: a string, a number with all its digits, or a boolean.
pub(super) fn read_secret_text(value: &jsonx::Value) -> Option<String> {
    match value {
        jsonx::Value::Text(text) => Some(text.to_string()),
        jsonx::Value::Boolean(_) | jsonx::Value::Number(_) => Some(value.to_string()),
        jsonx::Value::Null | jsonx::Value::List(_) | jsonx::Value::Object(_) => None,
    }
}

/// The pause after that many failures; it doubles each time.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(10))
}

/// First pause after a failure. It is short, because most failures are restarts.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Limit of documents. A gateway has some hundred secrets; more than this limit come from a program that
/// writes references without end.
const MAX_DOCUMENTS: usize = 10_000;
/// A time that is never reached.
const FAR: Duration = Duration::from_secs(86_400 * 365);
const NO_MANAGER: &str = "there is no such secret manager";

#[cfg(test)]
mod tests;
