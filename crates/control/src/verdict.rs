//! The state of each stored object: in force as it was written, in its last good form, or out; and why. The
//! Admin API, the control API and the metrics show the same. It does not know how a verdict comes about.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::{ConfigFault, ObjectKey, ObjectKind, Warning};
use serde_json::{Value, json};
use stdx::nearest::nearest;
use stdx::prometheus_text::{header, sample, scalar};

use crate::object_path::ObjectPath;
use crate::serve::respond;
use crate::view::View;

/// The form of an object that serves requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerdictState {
    /// The form that was written last. Its faults can only be references that are not resolved.
    InForce,
    /// An earlier form, because the last one is faulty.
    LastGood,
    /// No form: the object is faulty and has no earlier good form, or cannot be compiled. Its requests, and
    /// those of every object that needs it, are answered 503.
    Out,
    /// No form, and it is a route with a match that cannot be read: it has no entry in the routing table.
    Unplaced,
}

impl VerdictState {
    /// The name in the APIs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            VerdictState::InForce => "in_force",
            VerdictState::LastGood => "last_good",
            VerdictState::Out => "out",
            VerdictState::Unplaced => "unplaced",
        }
    }
}

/// The state of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVerdict {
    pub key: ObjectKey,
    /// The form that is in force.
    pub state: VerdictState,
    /// The revision that wrote the form in force; none when it is out, or when an earlier compiled form
    /// without its text is kept.
    pub revision_in_force: Option<u64>,
    /// The revision of the last write.
    pub revision_written: u64,
    /// The faults of the text that was written last.
    pub faults: Vec<ConfigFault>,
    /// Faulty plugins that are left out of the form in force (`ignore_faulty_plugins`).
    pub skipped: Vec<ConfigFault>,
    /// Parts of the object as it was written last that have no effect; empty where that form is faulty.
    pub warnings: Vec<Warning>,
}

impl View {
    /// The state of the object under `key`; none when there is no such object.
    pub fn verdict(&self, key: &ObjectKey) -> Option<ObjectVerdict> {
        let compile_faults = self.compile_faults.iter().filter(|fault| fault.key.as_ref() == Some(key));
        self.judge(key, compile_faults.cloned().collect())
    }

    /// The verdicts of all objects that have a fault, ordered by key; of one kind, or of all.
    pub fn verdicts(&self, kind: Option<ObjectKind>) -> Vec<ObjectVerdict> {
        let wanted = |key: &ObjectKey| kind.is_none_or(|kind| key.kind == kind);
        let mut faults: BTreeMap<&ObjectKey, Vec<ConfigFault>> = BTreeMap::new();
        for faulty in self.snapshot.faulty().filter(|faulty| wanted(&faulty.written.key)) {
            faults.entry(&faulty.written.key).or_default();
        }
        for fault in &self.compile_faults {
            if let Some(key) = fault.key.as_ref().filter(|key| wanted(key)) {
                faults.entry(key).or_default().push(fault.clone());
            }
        }
        // All objects are scanned only where plugins may be skipped, because the scan is expensive.
        let skipping = ObjectKind::ALL.into_iter().filter(|_| self.skips_plugins);
        let skipping = skipping.flat_map(|kind| self.snapshot.iter(kind));
        for object in skipping.filter(|object| !object.skipped().is_empty() && wanted(object.key())) {
            faults.entry(object.key()).or_default();
        }
        for key in self.reference_faults.iter().filter_map(|fault| fault.key.as_ref()) {
            if wanted(key) {
                faults.entry(key).or_default();
            }
        }
        faults.into_iter().filter_map(|(key, compile_faults)| self.judge(key, compile_faults)).collect()
    }

    fn judge(&self, key: &ObjectKey, compile_faults: Vec<ConfigFault>) -> Option<ObjectVerdict> {
        let revision_written = self.written(key)?.modified_index;
        let in_force = self.snapshot.get(key);
        let checked = in_force.map(|object| object.written.modified_index);
        let mut faults = self.snapshot.faults_at(key);
        let (state, revision_in_force) = match checked {
            None if key.kind == ObjectKind::Route && self.snapshot.closed(key).is_none() => {
                (VerdictState::Unplaced, None)
            }
            None => (VerdictState::Out, None),
            Some(_) if compile_faults.iter().any(|fault| !fault.kept) => (VerdictState::Out, None),
            Some(_) if !compile_faults.is_empty() => (VerdictState::LastGood, None),
            Some(revision) if faults.is_empty() => (VerdictState::InForce, Some(revision)),
            Some(revision) => (VerdictState::LastGood, Some(revision)),
        };
        faults.extend(compile_faults);
        // These faults do not change the form that serves; the fields with these references open no access.
        let references = self.reference_faults.iter().filter(|fault| fault.key.as_ref() == Some(key));
        faults.extend(references.cloned());
        let skipped = in_force.map(|object| object.skipped().to_vec()).unwrap_or_default();
        let warnings = self.snapshot.warnings_at(key);
        let key = key.clone();
        Some(ObjectVerdict { key, state, revision_in_force, revision_written, faults, skipped, warnings })
    }
}

/// Answers `verdicts` (`path` empty, faulty objects only, of `kind` where one is named) and
/// `verdicts/KIND/ID`.
pub(crate) fn answer_verdicts(view: &View, path: &[String], kind: Option<&str>) -> Response<Bytes> {
    if path.is_empty() {
        return list(view, kind);
    }
    let target = ObjectPath::parse(path).filter(|target| target.sub_path.is_empty());
    let Some((kind, id)) = target.and_then(|target| Some((target.kind, target.key_id()?))) else {
        return respond::error_response(
            StatusCode::NOT_FOUND,
            "write verdicts, or verdicts/KIND/ID (verdicts/routes/1)",
        );
    };
    match ObjectKey::new(kind, &id).ok().and_then(|key| view.verdict(&key)) {
        Some(verdict) => respond::json(StatusCode::OK, &describe(&verdict)),
        None => respond::key_not_found(),
    }
}

fn list(view: &View, kind: Option<&str>) -> Response<Bytes> {
    let kind = match kind.map(|name| ObjectKind::from_collection(name).ok_or(name)) {
        None => None,
        Some(Ok(kind)) => Some(kind),
        Some(Err(name)) => return respond::error_response(StatusCode::BAD_REQUEST, unknown_kind(name)),
    };
    let verdicts = view.verdicts(kind);
    let total = verdicts.len();
    let list: Vec<Value> = verdicts.iter().take(MAX_LISTED).map(describe).collect();
    let general = view.compile_faults.iter().filter(|fault| fault.key.is_none()).map(|fault| &fault.reason);
    let source_faults: Vec<&String> = view.faults.iter().chain(general).collect();
    let body = json!({
        "revision": view.revision(),
        "total": total,
        "list": list,
        "source_faults": source_faults,
    });
    respond::json(StatusCode::OK, &body)
}

fn describe(verdict: &ObjectVerdict) -> Value {
    let fault = |fault: &ConfigFault| json!({ "pointer": fault.pointer, "reason": fault.reason });
    let warning = |warning: &Warning| json!({ "pointer": warning.pointer, "reason": warning.reason });
    json!({
        "kind": verdict.key.kind.collection(),
        "id": &*verdict.key.id,
        "state": verdict.state.as_str(),
        "revision_in_force": verdict.revision_in_force,
        "revision_written": verdict.revision_written,
        "faults": verdict.faults.iter().map(fault).collect::<Vec<_>>(),
        "skipped_plugins": verdict.skipped.iter().map(fault).collect::<Vec<_>>(),
        "warnings": verdict.warnings.iter().map(warning).collect::<Vec<_>>(),
    })
}

fn unknown_kind(name: &str) -> String {
    let hint = nearest(name, ObjectKind::ALL.map(ObjectKind::collection))
        .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    format!("unknown kind: {name}{hint}")
}

/// Appends the count of objects of each kind that are not in force as written, and the count of faults of the
/// source as a whole.
pub(crate) fn write_verdict_metrics(view: &View, text: &mut String) {
    let mut counts: BTreeMap<(ObjectKind, VerdictState), usize> = BTreeMap::new();
    let mut skipped = 0;
    for verdict in view.verdicts(None) {
        skipped += verdict.skipped.len();
        *counts.entry((verdict.key.kind, verdict.state)).or_default() += 1;
    }
    let name = "weir_config_faulty_objects";
    header(text, name, "gauge", "Objects that are not in force as they were written last.");
    // Every series is always present, so that an alert can tell a zero from an instance that does not answer.
    for kind in ObjectKind::ALL {
        for state in [VerdictState::LastGood, VerdictState::Out, VerdictState::Unplaced] {
            let count = counts.get(&(kind, state)).copied().unwrap_or_default();
            let (kind, state) = (kind.collection(), state.as_str());
            sample(text, name, &[("kind", &kind), ("state", &state)], count);
        }
    }
    let help = "Faults of the configuration's source that belong to no object.";
    scalar(text, "weir_config_source_faults", "gauge", help, view.faults.len());
    let help = "Faulty plugins that ignore_faulty_plugins names and that objects run without.";
    scalar(text, "weir_config_skipped_plugins", "gauge", help, skipped);
}

/// Verdicts in one answer. The first thousand usually show the cause, and `total` is the full count.
const MAX_LISTED: usize = 1000;

#[cfg(test)]
mod tests;
