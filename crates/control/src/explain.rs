//! Answers "where would this request go?" for the Admin API and the control API. It does not know how the route is
//! found.

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{Explain, ExplainQuestion};
use serde_json::Value;

use crate::admin::respond;

/// The body is an [`ExplainQuestion`]: `{"method": "GET", "url": "http://...", "headers": [["name", "value"]]}`.
pub(crate) fn answer(explain: Option<&dyn Explain>, body: Option<&Value>) -> Response<Bytes> {
    let Some(explain) = explain else {
        return respond::error(StatusCode::NOT_FOUND, "this gateway cannot explain its routing");
    };
    let question = serde_json::from_value::<ExplainQuestion>(body.cloned().unwrap_or_default());
    match question
        .map_err(|fault| format!("the body is no question: {fault}"))
        .and_then(|question| explain.explain(&question))
    {
        Ok(record) => respond::json(StatusCode::OK, &record),
        Err(reason) => respond::error(StatusCode::BAD_REQUEST, reason),
    }
}
