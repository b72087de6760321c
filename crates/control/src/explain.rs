//! The destination of a request, for the Admin API and the control API. The search for the route is
//! elsewhere. A key that may not read secrets gets none with the answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{Explain, ExplainQuestion, ExplainSession, ExplainWith};
use model::snapshot::{Applied, FaultPolicy, SnapshotChange};
use model::{ConfigFault, PluginCatalog, WrittenObject};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::hidden::places::HIDDEN;
use crate::serve::role::Role;
use crate::serve::{RefusalResponse, respond};
use crate::view::View;
use crate::{hidden, stored_key};

/// Faulty objects that an answer lists at most; `weir/verdicts` lists all.
const FAULTY_MAX: usize = 100;
/// The text of a 403.
const WITH_NEEDS_ADMIN: &str =
    "`with` needs the Admin API and a key with the role admin, because an object can name secrets";
/// Fields that the gateway makes itself, of values that are no secrets.
const MADE_FIELDS: [&str; 14] = [
    "Host",
    "Connection",
    "Content-Length",
    "TE",
    "Transfer-Encoding",
    "Via",
    "X-Real-IP",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Consumer-Username",
    "X-Credential-Identifier",
    "X-Request-Id",
];

/// Questions about an object that is not saved that are answered at the same time; others wait. Each holds a
/// thread while it compiles and looks names up, and writes need threads of the same pool.
static UNSAVED: Semaphore = Semaphore::const_new(2);

/// The body is an [`ExplainQuestion`]:
/// `{"method": "GET", "url": "http://...", "headers": [["name", "value"]]}`, or an
/// [`ExplainSession`]: `{"stream": {"local": "127.0.0.1:9100"}}`. An object in
/// `with` is checked as a write of it would be. A viewer may not ask with one, because it could name the
/// secrets of this instance and show them; and is shown only those values of forwarded fields that it sent
/// itself, or that the gateway makes.
pub(crate) async fn answer_explain(
    explain: Option<Arc<dyn Explain>>,
    view: Arc<View>,
    catalog: &Arc<PluginCatalog>,
    body: Option<&Value>,
    role: Role,
) -> Response<Bytes> {
    let Some(explain) = explain else {
        return respond::error_response(StatusCode::NOT_FOUND, "this gateway cannot explain its routing");
    };
    if let Some(session) = body.and_then(|body| body.get("stream")) {
        return of_session(&*explain, session);
    }
    let question = serde_json::from_value::<ExplainQuestion>(body.cloned().unwrap_or_default());
    let question = match question {
        Ok(question) => question,
        Err(fault) => return respond::bad(format!("the body is no question: {fault}")),
    };
    if role == Role::Viewer && question.with.is_some() {
        return respond::error_response(StatusCode::FORBIDDEN, WITH_NEEDS_ADMIN);
    }
    let catalog = Arc::clone(catalog);
    let _turn = match &question.with {
        // The semaphore is never closed.
        Some(_) => UNSAVED.acquire().await.ok(),
        None => None,
    };
    // Names of nodes of an object that is not saved may have to be looked up.
    let answered = respond::blocking(move || record(&*explain, &view, &catalog, &question, role)).await;
    match answered {
        Ok(Ok(record)) => respond::json(StatusCode::OK, &record),
        Ok(Err(refusal)) | Err(refusal) => *refusal,
    }
}

fn of_session(explain: &dyn Explain, session: &Value) -> Response<Bytes> {
    match serde_json::from_value::<ExplainSession>(session.clone()) {
        Ok(session) => match explain.explain_session(&session) {
            Ok(record) => respond::json(StatusCode::OK, &record),
            Err(reason) => respond::bad(reason),
        },
        Err(fault) => respond::bad(format!("`stream` is no question: {fault}")),
    }
}

fn record(
    explain: &dyn Explain,
    view: &View,
    catalog: &PluginCatalog,
    question: &ExplainQuestion,
    role: Role,
) -> Result<Value, RefusalResponse> {
    let applied = question.with.as_ref().map(|with| laid_over(view, catalog, with)).transpose()?;
    let mut record = explain.explain(question, applied.as_ref()).map_err(respond::refuse_request)?;
    let faults = applied.as_ref().map_or(&view.snapshot, |applied| &applied.snapshot).faults();
    let all = faults.iter().chain(&view.compile_faults);
    let described = all.take(FAULTY_MAX).map(|fault| {
        let key = fault.key.as_ref().map(stored_key::format_stored_key);
        json!({ "key": key, "reason": in_words(fault) })
    });
    record["faulty"] = described.collect();
    if role == Role::Viewer {
        hide_set_values(&mut record, question);
    }
    Ok(record)
}

/// Hides what plugins make of the request: a path, a change or a field may be a secret of their
/// configuration.
fn hide_set_values(record: &mut Value, question: &ExplainQuestion) {
    if let Some(fields) = record.pointer_mut("/forwarded/headers") {
        hide_fields(fields, &question.headers);
    }
    if let Some(url) = record.pointer_mut("/forwarded/url")
        && url.as_str().is_some_and(|url| target(url) != target(&question.url))
    {
        *url = HIDDEN.into();
    }
    for step in record["pipeline"].as_array_mut().into_iter().flatten() {
        if step["would"]["action"] == "change" {
            step["would"]["text"] = HIDDEN.into();
        }
    }
}

/// The path of a URL with its query.
fn target(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find(['/', '?']).map_or("/", |start| &rest[start..])
}

/// Hides the values of the fields that a plugin may have set: they may be secrets of its configuration.
fn hide_fields(fields: &mut Value, asked: &[(String, String)]) {
    for field in fields.as_array_mut().into_iter().flatten() {
        let (Some(name), Some(value)) = (field[0].as_str(), field[1].as_str()) else { continue };
        let is_asked =
            asked.iter().any(|(known, text)| known.eq_ignore_ascii_case(name) && text.trim() == value);
        let is_made = MADE_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !is_asked && !is_made {
            field[1] = HIDDEN.into();
        }
    }
}

/// The configuration in force with the object of the question over it.
fn laid_over(view: &View, catalog: &PluginCatalog, with: &ExplainWith) -> Result<Applied, RefusalResponse> {
    let key = stored_key::parse_stored_key(&with.key).ok_or_else(|| {
        respond::refuse_request(format!("with: `{}` is not a key such as routes/1", with.key))
    })?;
    let before = view.written(&key);
    let index = before.map(|written| written.created_index);
    let mut value = with.value.clone();
    hidden::put_back(catalog, &key, &mut value, before.map(|written| &*written.text))
        .map_err(|fault| respond::refuse_request(format!("with: {fault}")))?;
    let revision = view.revision();
    let written = WrittenObject {
        key: key.clone(),
        text: value.to_string().into(),
        created_index: index.unwrap_or(revision + 1),
        modified_index: revision + 1,
    };
    let change = SnapshotChange { key: key.clone(), written: Some(written) };
    let applied = view.snapshot.apply(catalog, &[change], revision, FaultPolicy::Lenient);
    let own: Vec<&ConfigFault> =
        applied.faults.iter().filter(|fault| fault.key.as_ref() == Some(&key)).collect();
    let Some(first) = own.first() else { return Ok(applied) };
    let faults: Vec<Value> = own
        .iter()
        .map(|fault| json!({ "key": with.key, "pointer": fault.pointer, "reason": fault.reason }))
        .collect();
    let message = format!("with: {}", in_words(first));
    let body = json!({ "error_msg": message, "faults": faults });
    Err(Box::new(respond::json(StatusCode::BAD_REQUEST, &body)))
}

fn in_words(fault: &ConfigFault) -> String {
    if fault.pointer.is_empty() {
        fault.reason.clone()
    } else {
        format!("{}: {}", fault.pointer, fault.reason)
    }
}

#[cfg(test)]
mod tests {
    use model::snapshot::Snapshot;

    use super::*;
    use crate::testing::{block_on, catalog};

    /// Forwards with a field that a plugin has set.
    struct Forwards;

    impl Explain for Forwards {
        fn explain(&self, _: &ExplainQuestion, _: Option<&Applied>) -> Result<Value, String> {
            let fields = [["Host", "h"], ["x-own", "1"], ["X-Own", "2"], ["Authorization", "Bearer s3cr3t"]];
            let would = json!({ "action": "change", "status": null, "text": "path: /s3cr3t" });
            Ok(json!({
                "forwarded": { "url": "http://h/s3cr3t", "headers": fields },
                "pipeline": [{ "plugin": "proxy-rewrite", "would": would }, { "plugin": "cors", "would": null }],
            }))
        }

        fn explain_session(&self, session: &ExplainSession) -> Result<Value, String> {
            Ok(json!({ "port": session.local.port() }))
        }
    }

    #[test]
    fn question_about_a_session_is_answered_apart() {
        let asked = |body: &Value| {
            let view = Arc::new(View { snapshot: Snapshot::default(), ..View::default() });
            let catalog = catalog();
            let answered =
                block_on(answer_explain(Some(Arc::new(Forwards)), view, &catalog, Some(body), Role::Viewer));
            let (head, body) = answered.into_parts();
            (head.status, serde_json::from_slice::<Value>(&body).unwrap())
        };
        let (status, record) = asked(&json!({ "stream": { "local": "127.0.0.1:9100", "sni": "a" } }));
        assert_eq!((status, record), (StatusCode::OK, json!({ "port": 9100 })));
        let (status, refused) = asked(&json!({ "stream": { "local": "9100" } }));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    }

    fn asked(role: Role, more: &Value) -> (StatusCode, Value) {
        let mut body = json!({ "method": "GET", "url": "/", "headers": [["X-Own", "1"]] });
        body["with"] = more.clone();
        let view = Arc::new(View { snapshot: Snapshot::default(), ..View::default() });
        let catalog = catalog();
        let answered = block_on(answer_explain(Some(Arc::new(Forwards)), view, &catalog, Some(&body), role));
        let (head, body) = answered.into_parts();
        (head.status, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn viewer_is_shown_no_value_that_a_plugin_set() {
        for (role, own, secret) in [(Role::Admin, "2", "Bearer s3cr3t"), (Role::Viewer, HIDDEN, HIDDEN)] {
            let (_, record) = asked(role, &Value::Null);
            let fields = [["Host", "h"], ["x-own", "1"], ["X-Own", own], ["Authorization", secret]];
            assert_eq!(record["forwarded"]["headers"], json!(fields), "{role:?}");
            let shows = record.to_string().contains("s3cr3t");
            assert_eq!(shows, role == Role::Admin, "{role:?}: {record}");
        }
    }

    #[test]
    fn target_of_a_url_has_its_query() {
        let cases = [("http://h/a?b=c", "/a?b=c"), ("https://h", "/"), ("/a", "/a"), ("http://h?b", "?b")];
        for (url, expected) in cases {
            assert_eq!(target(url), expected, "{url}");
        }
    }

    #[test]
    fn viewer_may_not_ask_with_an_object() {
        let object = json!({ "key": "routes/1", "value": { "uri": "$ENV://HOME" } });
        let (status, answer) = asked(Role::Viewer, &object);
        assert_eq!((status, &answer["error_msg"]), (StatusCode::FORBIDDEN, &json!(WITH_NEEDS_ADMIN)));
    }
}
