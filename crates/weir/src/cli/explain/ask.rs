//! The request of `weir explain` to the control API of an instance.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::ExplainQuery;
use crate::ask::{RequestFailure, ask_instance as ask_node};

/// The decision record of the instance at `control`.
pub(super) fn fetch_decision(control: SocketAddr, asked: &ExplainQuery) -> Result<Value, RequestFailure> {
    let body = serde_json::to_string(asked).map_err(|error| RequestFailure::Refused(error.to_string()))?;
    let question = crate::ask::InstanceRequest {
        method: "POST",
        target: "/v1/weir/explain",
        fields: &[],
        body: &body,
        patience: PATIENCE,
        tls: None,
    };
    let answer = ask_node(control, &question)?;
    let reason = match (answer.status, &answer.body) {
        (200, Ok(_)) => return Ok(answer.body.unwrap_or_default()),
        (200, Err(_)) => "its answer is not JSON".to_owned(),
        (404, _) => "it cannot explain; is it the control API of a weir of this version?".to_owned(),
        _ => answer.reason(),
    };
    Err(RequestFailure::Refused(format!("the instance at {control}: {reason}")))
}

/// An instance answers in milliseconds; one that is stuck never does.
const PATIENCE: Duration = Duration::from_secs(5);
