//! The check of a request by its operation, and the answer made of the document.

use std::cell::RefCell;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BodyNeed, BufferedReply, Explained, Flow, PhaseDecision};
use message::FieldId;
use model::validate::{SchemaFault, SchemaSteps};
use router::Params;

use super::problem::{ERRORS_MAX, MessageFault, contract_refusal, problem};
use super::{FaultAction, OperationPlugin, passed_fields};
use crate::shared::openapi::parameters::{ParameterSources, decoded_arguments};
use crate::shared::side_thread;

/// A longer body is checked on a thread beside the workers, because the check would delay other requests.
const CHECKED_AT_ONCE_BYTES: usize = 64 * 1024;
/// The title of a refusal.
const TITLE: &str = "The request does not match the contract";

impl OperationPlugin {
    pub(super) fn need_of_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        let checks = self.request != FaultAction::Off && self.operation.request.body.is_some();
        match checks {
            true => BodyNeed::Buffer { limit_bytes: self.max_body_bytes },
            false => BodyNeed::None,
        }
    }

    pub(super) fn check_request<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.request != FaultAction::Off {
            let faults = self.parameter_faults(exchange);
            let body_length = exchange.request_body().map_or(0, <[u8]>::len);
            if faults.len() < ERRORS_MAX
                && self.operation.request.body.is_some()
                && body_length > CHECKED_AT_ONCE_BYTES
            {
                return self.check_long_body(exchange, faults);
            }
            let faults = self.with_body_faults(exchange, faults);
            if let Some(reply) = self.conclude(exchange, &faults) {
                return Flow::reply(reply);
            }
        }
        self.forward(exchange)
    }

    /// Goes on with a request that may pass.
    fn forward<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.answer(exchange) {
            Some(reply) => Flow::reply(reply),
            None => Flow::Continue,
        }
    }

    /// The response of the document, if it answers; otherwise fields that are not sent on are removed.
    fn answer(&self, exchange: &mut Exchange) -> Option<BufferedReply> {
        if self.is_mocked {
            return Some(self.mock(exchange));
        }
        if self.passes_declared_fields_only {
            let has_consumer = exchange.consumer().is_some();
            passed_fields::keep_declared(
                &mut exchange.request.headers,
                &self.operation.request,
                has_consumer,
            );
        }
        None
    }

    /// The faults of all parameters.
    fn parameter_faults(&self, exchange: &Exchange) -> Vec<MessageFault> {
        let parameters = &self.operation.request.parameters;
        if parameters.is_empty() {
            return Vec::new();
        }
        let below = exchange.path().get(self.base_length..).unwrap_or_default();
        let mut values = Params::default();
        // Without the form of the template, which the route has as well, each parameter of the path is
        // missing.
        self.operation.path.read(below, &mut values);
        let text = String::from_utf8_lossy;
        let values: Vec<_> = values.iter().map(|(name, value)| (text(name), text(value))).collect();
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (&**name, &**value)).collect();
        let query = decoded_arguments(exchange.request.query().unwrap_or_default());
        let parts = ParameterSources {
            path: &values,
            query: &query,
            headers: &exchange.request.headers,
            parameters,
            steps: RefCell::new(SchemaSteps::on_worker()),
        };
        let each = parameters.iter().flat_map(|parameter| {
            let with_place = |fault: SchemaFault| MessageFault {
                location: parameter.place.as_str(),
                name: parameter.name.clone(),
                fault,
            };
            parameter.faults(&parts).into_iter().map(with_place)
        });
        each.take(ERRORS_MAX).collect()
    }

    fn with_body_faults(&self, exchange: &Exchange, mut faults: Vec<MessageFault>) -> Vec<MessageFault> {
        let Some(rule) = &self.operation.request.body else { return faults };
        let headers = &exchange.request.headers;
        if headers.get_all("content-type").nth(1).is_some() {
            let fault = SchemaFault::of_rule("content", "there are two fields Content-Type");
            faults.push(MessageFault { location: "header", name: "Content-Type".into(), fault });
            return faults;
        }
        let body = exchange.request_body().unwrap_or_default();
        let content_type = headers.get_known(FieldId::ContentType);
        let found = rule.faults(content_type, body, &mut SchemaSteps::on_worker());
        faults.extend(found.into_iter().map(of_body));
        faults
    }

    fn check_long_body<'a>(&'a self, exchange: &'a mut Exchange, faults: Vec<MessageFault>) -> Flow<'a> {
        let length = exchange.request_body().map_or(0, <[u8]>::len);
        // Before the body is copied, because the thread may be behind with many copies.
        let Some(held) = side_thread::hold_job_bytes(length) else {
            return Flow::reply(unchecked("too many bodies wait for their check"));
        };
        let headers = &exchange.request.headers;
        let content_type = headers.get_known(FieldId::ContentType).map(<[u8]>::to_vec);
        let body = exchange.request_body().unwrap_or_default().to_vec();
        let operation = Arc::clone(&self.operation);
        Flow::Wait(Box::pin(async move {
            let check = move || {
                let _held = held;
                let rule = operation.request.body.as_ref()?;
                Some(rule.faults(content_type.as_deref(), &body, &mut SchemaSteps::beside_workers()))
            };
            let mut faults = faults;
            match side_thread::run_on_side_thread(check).await {
                Ok(found) => faults.extend(found.unwrap_or_default().into_iter().map(of_body)),
                Err(reason) => return PhaseDecision::Reply(Box::new(unchecked(reason))),
            }
            let reply = self.conclude(exchange, &faults).or_else(|| self.answer(exchange));
            reply.map_or(PhaseDecision::Continue, |reply| PhaseDecision::Reply(Box::new(reply)))
        }))
    }

    /// The refusal of a request with these faults, if it is refused.
    fn conclude(&self, exchange: &Exchange, faults: &[MessageFault]) -> Option<BufferedReply> {
        if faults.is_empty() {
            return None;
        }
        self.log(exchange, "request", faults);
        (self.request == FaultAction::Enforce).then(|| contract_refusal(400, TITLE, faults))
    }

    pub(super) fn log(&self, exchange: &Exchange, side: &str, faults: &[MessageFault]) {
        if let Some(messages) = self.pace.add(1, exchange.local().now_ms()) {
            let route = exchange.route().map_or("", |route| &*route.id);
            let lines: Vec<String> = faults.iter().take(LOGGED_FAULTS).map(MessageFault::line).collect();
            tracing::warn!(
                route,
                messages,
                faults = lines.join("; "),
                "a {side} does not match its contract"
            );
        }
    }

    /// The response that the document describes.
    fn mock(&self, exchange: &Exchange) -> BufferedReply {
        let fields = &exchange.request.headers;
        let text = |name: &str| fields.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        super::docs::mocked_reply(
            &self.document,
            &self.operation.place,
            text("prefer").as_deref(),
            text("accept").as_deref(),
        )
    }

    pub(super) fn explain(&self, exchange: &Exchange) -> Explained {
        let faults =
            if self.request == FaultAction::Off { Vec::new() } else { self.parameter_faults(exchange) };
        match self.request {
            FaultAction::Enforce if !faults.is_empty() => {
                Explained::replies(&contract_refusal(400, TITLE, &faults))
            }
            _ if self.is_mocked => Explained::replies(&self.mock(exchange)),
            _ if self.request != FaultAction::Off && self.operation.request.body.is_some() => {
                Explained::unknown("the body, which is not part of the question, is checked by the contract")
            }
            _ => Explained::passes(),
        }
    }
}

/// Faults in one line of the log.
const LOGGED_FAULTS: usize = 5;

fn of_body(fault: SchemaFault) -> MessageFault {
    MessageFault { location: "body", name: "".into(), fault }
}

/// The refusal of a request of which the body could not be checked, which is no fault of the client.
fn unchecked(reason: &str) -> BufferedReply {
    problem(503, "The body could not be checked", Some(reason), Vec::new())
}
