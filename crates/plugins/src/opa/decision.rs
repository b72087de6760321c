//! The server's answer: whether the request passes, and what the client is told. It asks no server.

use exchange::plugin::BufferedReply;
use jsonx::{Bounds, Object, Value};

/// The decision on a request.
#[derive(Debug)]
pub(super) enum OpaDecision {
    /// The request passes; the fields are those that the policy gave.
    Pass(DecisionFields),
    /// The client is answered with this.
    Refuse(BufferedReply),
}

/// Names and values of fields.
pub(super) type DecisionFields = Vec<(String, String)>;

/// Reads an answer with `status`. Only 200 has a decision: a server that fails may answer with a body of
/// another origin.
///
/// # Errors
/// It holds no decision: the fault, in words that hold nothing of the answer.
pub(super) fn read_opa_decision(status: u16, answer: &[u8]) -> Result<OpaDecision, String> {
    if status != 200 {
        return Err(format!("the server answered with status {status}"));
    }
    let answer = jsonx::parse(answer, Bounds::DEFAULT)
        .map_err(|error| format!("the answer is no JSON: {error}"))?
        .value;
    let result = match answer.get("result") {
        Some(Value::Object(result)) => result,
        Some(_) => {
            return Err("`result` is no object; `policy` has to name a document with `allow`".to_owned());
        }
        None => return Err("there is no `result`: the policy does not exist or is undefined".to_owned()),
    };
    // Only the decision that was meant may let a request pass: a text such as "false" is a fault of the
    // policy.
    Ok(match result.get("allow") {
        Some(Value::Boolean(true)) => OpaDecision::Pass(fields(result)),
        _ => OpaDecision::Refuse(refusal(result)),
    })
}

fn refusal(result: &Object) -> BufferedReply {
    let status = match result.get("status_code") {
        Some(Value::Number(code)) => code.as_str().parse::<u16>().ok(),
        _ => None,
    };
    let mut reply = BufferedReply::status(status.filter(|code| (200..600).contains(code)).unwrap_or(403));
    let mut has_type = false;
    // The reply has a length of its own, and the connection is the gateway's.
    for (name, value) in fields(result).into_iter().filter(|(name, _)| !is_the_gateways(name)) {
        has_type |= name.eq_ignore_ascii_case("content-type");
        reply = reply.with_header(name, value);
    }
    let reason = match result.get("reason") {
        None | Some(Value::Null | Value::Boolean(false)) => return reply,
        Some(Value::Text(text)) => text.to_string(),
        Some(other) => other.to_string(),
    };
    if !has_type {
        reply = reply.with_header("Content-Type", "text/plain; charset=utf-8");
    }
    reply.with_body(reason.into_bytes())
}

fn is_the_gateways(name: &str) -> bool {
    const NAMES: [&str; 7] =
        ["connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];
    NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The fields that the policy gave; those that cannot be fields are left out.
fn fields(result: &Object) -> DecisionFields {
    let mut fields = DecisionFields::new();
    let mut add = |name: &str, value: &Value| {
        let text = match value {
            Value::Text(text) => text.to_string(),
            Value::Number(_) | Value::Boolean(_) => value.to_string(),
            _ => return,
        };
        if crate::shared::fields::parse_field_name(name).is_ok()
            && crate::shared::fields::parse_field_text(&serde_json::Value::from(&*text)).is_ok()
        {
            fields.push((name.to_owned(), text));
        }
    };
    for (name, value) in result.get("headers").and_then(Value::as_object).into_iter().flat_map(Object::iter) {
        match value {
            Value::List(values) => values.iter().for_each(|value| add(name, value)),
            value => add(name, value),
        }
    }
    fields
}
