//! The check of a response by its operation.

use exchange::Exchange;
use exchange::plugin::{BodyNeed, ResponseStep};
use message::FieldId;
use model::validate::{SchemaFault, SchemaSteps};

use super::problem::{MessageFault, problem};
use super::{FaultAction, OperationPlugin};
use crate::shared::encoding::decode::codings;
use crate::shared::event_stream::is_event_stream;

/// The findings about the response of an exchange.
#[derive(Default)]
struct ResponseState {
    /// The body is to be checked by the rule of this status.
    checked_status: Option<u16>,
    /// The response is replaced.
    is_refused: bool,
}

impl OperationPlugin {
    pub(super) fn check_response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        let is_local = exchange.stats.answered_locally && !exchange.stats.is_stored;
        if self.response == FaultAction::Off || is_local || exchange.response.status < 200 {
            return ResponseStep::Done;
        }
        let status = exchange.response.status;
        let headers = &exchange.response.headers;
        // Both follow from the fields of the request and stand for a 200 (RFC 9110 sections 15.3.7 and
        // 15.4.5), which is why documents do not list them. The body of a 206 is a part.
        if matches!(status, 206 | 304) && self.operation.response(200).is_some() {
            return ResponseStep::Done;
        }
        let Some(rule) = self.operation.response(status) else {
            let fault = SchemaFault::of_rule("responses", format!("status {status} is not in the document"));
            self.refuse(exchange, MessageFault { location: "status", name: "".into(), fault });
            return ResponseStep::Done;
        };
        let Some(body) = &rule.body else { return ResponseStep::Done };
        if is_event_stream(headers) || !codings(headers).is_empty() {
            return ResponseStep::Done;
        }
        let length = headers.get_known(FieldId::ContentLength);
        let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok());
        let is_whole = length.is_some_and(|length| length <= self.max_body_bytes);
        if body.checks(headers.get_known(FieldId::ContentType))
            && (is_whole || self.response == FaultAction::Enforce)
        {
            exchange.state::<ResponseState>().checked_status = Some(status);
        }
        ResponseStep::Done
    }

    pub(super) fn need_of_response_body(&self, exchange: &Exchange) -> BodyNeed {
        let state = exchange.peek_state::<ResponseState>();
        match state.is_some_and(|state| state.is_refused || state.checked_status.is_some()) {
            true => BodyNeed::Buffer { limit_bytes: self.max_body_bytes },
            false => BodyNeed::None,
        }
    }

    pub(super) fn check_response_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>) {
        let Some(state) = exchange.peek_state::<ResponseState>() else { return };
        if state.is_refused {
            *body = refuse_head(exchange);
            return;
        }
        let rule = state.checked_status.and_then(|status| self.operation.response(status));
        let Some(rule) = rule.and_then(|rule| rule.body.as_ref()) else { return };
        if exchange.request.method == message::Method::Head {
            return;
        }
        let content_type = exchange.response.headers.get_known(FieldId::ContentType);
        let faults = rule.faults(content_type, body, &mut SchemaSteps::on_worker());
        if faults.is_empty() {
            return;
        }
        let in_body = |fault: SchemaFault| MessageFault { location: "body", name: "".into(), fault };
        let faults: Vec<MessageFault> = faults.into_iter().map(in_body).collect();
        self.log(exchange, "response", &faults);
        if self.response == FaultAction::Enforce {
            *body = refuse_head(exchange);
        }
    }

    fn refuse(&self, exchange: &mut Exchange, fault: MessageFault) {
        self.log(exchange, "response", &[fault]);
        if self.response == FaultAction::Enforce {
            exchange.state::<ResponseState>().is_refused = true;
            // A response to HEAD has no body that would be replaced.
            refuse_head(exchange);
        }
    }
}

/// Replaces the head of the response, and gives the body. The faults are in the log only, because they are
/// none of the client's.
fn refuse_head(exchange: &mut Exchange) -> Vec<u8> {
    let reply = problem(502, "The response does not match the contract", None, Vec::new());
    exchange.response.status = reply.status;
    exchange.response.reason = Default::default();
    for name in ["Content-Encoding", "Content-Length", "Last-Modified", "ETag", "Set-Cookie"] {
        exchange.response.headers.remove(name);
    }
    let _ = exchange.response.headers.set_known(FieldId::ContentType, b"application/problem+json");
    reply.body.into_owned()
}
