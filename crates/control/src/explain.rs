//! Answers "where would this request go?" for the Admin API and the control API. It does not know how the route is
//! found.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{Explain, ExplainQuestion, ExplainWith};
use model::snapshot::{Applied, Change, Policy};
use model::{Catalog, Fault, Written};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::admin::respond;
use crate::serve::Refusal;
use crate::stored_key;
use crate::view::View;

/// Faulty objects that an answer lists at most; `weir/verdicts` lists all.
const FAULTY_MAX: usize = 100;

/// Questions about an object that is not saved that are answered at the same time; others wait. Each holds a thread while it
/// compiles and looks names up, and writes need threads of the same pool.
static UNSAVED: Semaphore = Semaphore::const_new(2);

/// The body is an [`ExplainQuestion`]: `{"method": "GET", "url": "http://...", "headers": [["name", "value"]]}`. An object in
/// `with` is checked as a write of it would be.
pub(crate) async fn answer(
    explain: Option<Arc<dyn Explain>>,
    view: Arc<View>,
    catalog: &Arc<Catalog>,
    body: Option<&Value>,
) -> Response<Bytes> {
    let Some(explain) = explain else {
        return respond::error(StatusCode::NOT_FOUND, "this gateway cannot explain its routing");
    };
    let question = serde_json::from_value::<ExplainQuestion>(body.cloned().unwrap_or_default());
    let question = match question {
        Ok(question) => question,
        Err(fault) => return respond::bad(format!("the body is no question: {fault}")),
    };
    let catalog = Arc::clone(catalog);
    let _turn = match &question.with {
        // The semaphore is never closed.
        Some(_) => UNSAVED.acquire().await.ok(),
        None => None,
    };
    // Names of nodes of an object that is not saved may have to be looked up.
    let answered = respond::blocking(move || record(&*explain, &view, &catalog, &question)).await;
    match answered {
        Ok(Ok(record)) => respond::json(StatusCode::OK, &record),
        Ok(Err(refusal)) | Err(refusal) => *refusal,
    }
}

fn record(
    explain: &dyn Explain,
    view: &View,
    catalog: &Catalog,
    question: &ExplainQuestion,
) -> Result<Value, Refusal> {
    let applied = question.with.as_ref().map(|with| laid_over(view, catalog, with)).transpose()?;
    let mut record = explain.explain(question, applied.as_ref()).map_err(respond::refused)?;
    let faults = applied.as_ref().map_or(&view.snapshot, |applied| &applied.snapshot).faults();
    let all = faults.iter().chain(&view.compile_faults);
    let described = all
        .take(FAULTY_MAX)
        .map(|fault| json!({ "key": fault.key.as_ref().map(stored_key::text), "reason": in_words(fault) }));
    record["faulty"] = described.collect();
    Ok(record)
}

/// The configuration in force with the object of the question over it.
fn laid_over(view: &View, catalog: &Catalog, with: &ExplainWith) -> Result<Applied, Refusal> {
    let key = stored_key::parse(&with.key)
        .ok_or_else(|| respond::refused(format!("with: `{}` is not a key such as routes/1", with.key)))?;
    let index = view.written(&key).map(|written| written.created_index);
    let revision = view.revision();
    let written = Written {
        key: key.clone(),
        text: with.value.to_string().into(),
        created_index: index.unwrap_or(revision + 1),
        modified_index: revision + 1,
    };
    let change = Change { key: key.clone(), written: Some(written) };
    let applied = view.snapshot.apply(catalog, &[change], revision, Policy::Lenient);
    let own: Vec<&Fault> = applied.faults.iter().filter(|fault| fault.key.as_ref() == Some(&key)).collect();
    let Some(first) = own.first() else { return Ok(applied) };
    let faults: Vec<Value> = own
        .iter()
        .map(|fault| json!({ "key": with.key, "pointer": fault.pointer, "reason": fault.reason }))
        .collect();
    let message = format!("with: {}", in_words(first));
    let body = json!({ "error_msg": message, "faults": faults });
    Err(Box::new(respond::json(StatusCode::BAD_REQUEST, &body)))
}

fn in_words(fault: &Fault) -> String {
    if fault.pointer.is_empty() {
        fault.reason.clone()
    } else {
        format!("{}: {}", fault.pointer, fault.reason)
    }
}
