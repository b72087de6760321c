//! `weir/plan`, `weir/apply` and `weir/rollback`: the changes of a whole set or an older revision, and making
//! them. The reconciling thread compares and writes sets.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use model::ConfigFault;
use serde_json::{Value, json};

use crate::admin::call::AdminParts;
use crate::admin::endpoint::SetCommand;
use crate::admin::resources::refusal_of_write;
use crate::plan::ConfigPlan;
use crate::reconcile::Author;
use crate::reconcile::whole::{
    ApplyOutcome, ApplyRequest, DesiredSet, DesiredState, WholeRefused, plan_set as plan_of,
};
use crate::serve::RefusalResponse;
use crate::serve::list_query::whole_number;
use crate::serve::query::Query;
use crate::serve::respond::{self, refuse_request};
use crate::source::file::{ConfigDocument, FileFault};

/// Answers one command. It reads the body as it was sent, which may be YAML.
pub(in crate::admin) async fn answer_plan(
    parts: &Arc<AdminParts>,
    method: &Method,
    command: SetCommand,
    query: &Query,
    body: &Bytes,
    author: Author,
) -> Response<Bytes> {
    if *method != Method::POST {
        return respond::not_found();
    }
    let answered = match command {
        SetCommand::Plan => plan(parts, query, body).await,
        SetCommand::Apply => apply(parts, query, body, author).await,
        SetCommand::Rollback => rollback(parts, query, author).await,
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

/// The plan for the set in the body, for a rollback to the revision `to`, or from the revision `from` to
/// `to`.
async fn plan(
    parts: &Arc<AdminParts>,
    query: &Query,
    body: &Bytes,
) -> Result<Response<Bytes>, RefusalResponse> {
    let plan = if let Some(from) = whole_number(query, FROM)? {
        let Some(to) = whole_number(query, TO)? else {
            return Err(refuse_request("the argument to is missing: weir/plan?from=REVISION&to=REVISION"));
        };
        let planned = parts.reconcile.run(move |control| control.plan_between(from, to)).await;
        planned.ok_or_else(respond::busy)?.map_err(|refused| Box::new(answer_set_refusal(refused, None)))?
    } else if query.get(TO).is_some() {
        let version = whole_number(query, TO)?.unwrap_or_default();
        let planned = parts.reconcile.run(move |reconciler| reconciler.plan_back(version)).await;
        planned.ok_or_else(respond::busy)?.map_err(|refused| Box::new(answer_set_refusal(refused, None)))?
    } else {
        let (document, set) = read(query, body).await?;
        let (view, catalog) = (parts.view.load(), parts.catalog());
        let planned = respond::blocking(move || plan_of(&catalog, &view, &set)).await?;
        planned.map_err(|faults| Box::new(faulty(&faults, Some(&document))))?
    };
    Ok(respond::json(StatusCode::OK, &plan))
}

/// Brings the set in the body into force.
async fn apply(
    parts: &Arc<AdminParts>,
    query: &Query,
    body: &Bytes,
    author: Author,
) -> Result<Response<Bytes>, RefusalResponse> {
    let (document, set) = read(query, body).await?;
    let order = ApplyRequest {
        wanted: DesiredState::Set(set),
        expect: whole_number(query, EXPECT)?,
        lenient: false,
        author,
    };
    change(parts, order, Some(document)).await
}

/// Brings the revision `to` into force again.
async fn rollback(
    parts: &Arc<AdminParts>,
    query: &Query,
    author: Author,
) -> Result<Response<Bytes>, RefusalResponse> {
    let Some(version) = whole_number(query, TO)? else {
        return Err(refuse_request("the argument to is missing: weir/rollback?to=REVISION"));
    };
    let (expect, lenient) = (whole_number(query, EXPECT)?, switch(query, "force")?);
    change(parts, ApplyRequest { wanted: DesiredState::Version(version), expect, lenient, author }, None)
        .await
}

async fn change(
    parts: &Arc<AdminParts>,
    order: ApplyRequest,
    document: Option<ConfigDocument>,
) -> Result<Response<Bytes>, RefusalResponse> {
    let taken = parts.reconcile.change(move |reconciler| reconciler.take_whole(&order)).await;
    match taken.ok_or_else(respond::busy)? {
        Ok(outcome) => {
            let mut response = done_response(&outcome);
            let keys = document.iter().flat_map(|document| &document.objects).map(|object| &object.key);
            respond::warn_of(&mut response, &parts.view.load().snapshot, keys);
            Ok(response)
        }
        Err(refused) => Err(Box::new(answer_set_refusal(refused, document.as_ref()))),
    }
}

/// The plan that was carried out, with the new revision and the one before it.
fn done_response(outcome: &ApplyOutcome) -> Response<Bytes> {
    let ApplyOutcome { plan, revision } = outcome;
    let ConfigPlan { revision: before, .. } = plan;
    let mut body = serde_json::to_value(plan).expect("a plan is texts and numbers");
    body["revision"] = Value::from(*revision);
    body["before"] = Value::from(*before);
    let mut response = respond::json(StatusCode::OK, &body);
    response.headers_mut().insert(crate::admin::call::REVISION, (*revision).into());
    response
}

/// The set in the body, JSON or YAML; the text itself shows which.
async fn read(query: &Query, body: &Bytes) -> Result<(ConfigDocument, DesiredSet), RefusalResponse> {
    let keep_others = switch(query, "keep_others")?;
    let body = body.clone();
    let parsed = respond::blocking(move || {
        let whole = |reason: &str| {
            let (path, place, reason) = (Path::new(BODY).to_owned(), String::new(), reason.to_owned());
            vec![FileFault { path, line: 1, place, reason }]
        };
        let text = std::str::from_utf8(&body).map_err(|_| whole("is not UTF-8 text"))?;
        if text.trim().is_empty() {
            return Err(whole("is empty; for no objects, write {}"));
        }
        let mut document = ConfigDocument::parse_set(Path::new(BODY), text)?;
        if !keep_others {
            document.refuse_deletes(DELETES_ALL);
        }
        if document.faults.is_empty() { Ok(document) } else { Err(document.faults) }
    });
    let document = parsed.await?.map_err(|faults| Box::new(malformed(&faults)))?;
    let set = DesiredSet::of(&document, keep_others);
    Ok((document, set))
}

/// The answer to a refused change.
pub(in crate::admin) fn answer_set_refusal(
    refused: WholeRefused,
    document: Option<&ConfigDocument>,
) -> Response<Bytes> {
    match refused {
        WholeRefused::Write(refused) => refusal_of_write(refused),
        WholeRefused::Faulty(faults) => faulty(&faults, document),
        WholeRefused::Moved { revision, expected } => {
            let message = format!(
                "the configuration is at revision {revision}, not at {expected}: it was changed in the meantime; \
                 make a new plan"
            );
            let body = json!({ "error_msg": message, "revision": revision });
            respond::json(StatusCode::CONFLICT, &body)
        }
        WholeRefused::Unknown { version, oldest } => {
            let message = format!("revision {version} is not kept; the oldest one is {oldest}");
            respond::json(StatusCode::NOT_FOUND, &json!({ "error_msg": message, "oldest": oldest }))
        }
    }
}

/// Faulty objects, each with its place in the text if the object is in it.
fn faulty(faults: &[ConfigFault], document: Option<&ConfigDocument>) -> Response<Bytes> {
    let describe = |fault: &ConfigFault| {
        let place = document.and_then(|document| document.place(fault));
        let (key, pointer) = (fault.key.as_ref().map(model::ObjectKey::path), &fault.pointer);
        let mut described = json!({ "key": key, "pointer": pointer, "reason": fault.reason });
        if let Some(place) = place {
            described["line"] = place.line.into();
            described["place"] = place.place.into();
        }
        described
    };
    refused_whole(faults.iter().take(MAX_FAULTS).map(describe).collect(), faults.len())
}

fn malformed(faults: &[FileFault]) -> Response<Bytes> {
    let describe =
        |fault: &FileFault| json!({ "line": fault.line, "place": fault.place, "reason": fault.reason });
    refused_whole(faults.iter().take(MAX_FAULTS).map(describe).collect(), faults.len())
}

fn refused_whole(faults: Vec<Value>, count: usize) -> Response<Bytes> {
    let noun = if count == 1 { "fault" } else { "faults" };
    let body =
        json!({ "error_msg": format!("nothing was changed: the set has {count} {noun}"), "faults": faults });
    respond::json(StatusCode::BAD_REQUEST, &body)
}

fn switch(query: &Query, name: &str) -> Result<bool, RefusalResponse> {
    match query.get(name) {
        None | Some("false") => Ok(false),
        Some("true" | "") => Ok(true),
        Some(_) => Err(refuse_request(format!("the argument {name} must be true or false"))),
    }
}

/// The argument with the revision that a plan of two revisions begins with.
const FROM: &str = "from";
/// The fault of deletions in a set that is complete.
const DELETES_ALL: &str =
    "`delete` needs keep_others=true: without it, all objects that the set does not have are deleted";
/// The argument with the revision of a rollback.
const TO: &str = "to";
/// The argument with the revision that must be in force.
const EXPECT: &str = "expect";
/// The name of the body in faults, where a file has its path.
const BODY: &str = "body";
/// Faults listed in an answer; their number is given in full.
const MAX_FAULTS: usize = 1_000;
