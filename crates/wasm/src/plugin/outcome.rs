//! The end of a request by a guest's reply or fault: replies, failures, counters and log lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure, FailureResponse};
use exchange::plugin::BufferedReply;
use exchange::plugin::events::EventCounter;
use exchange::plugin::services::Services;

use super::WasmPlugin;
use super::state::RequestState;
use crate::fault::GuestFault;
use crate::pool::InstancePool;

/// The message of the reply to a request that a guest's fault has ended.
const MESSAGE: &str = "a plugin of this route failed";

/// The counters of faults of one plugin.
pub(crate) struct FaultCounters {
    by_code: Vec<(&'static str, EventCounter)>,
    other: EventCounter,
    /// Faults of timers, queues and answers between requests.
    pub background: EventCounter,
}

/// The faults that have a counter of their own.
const CODES: [&str; 7] =
    ["trap", "deadline", "host_calls", "stack_overflow", "breaker_open", "not_started", "not_configured"];

impl FaultCounters {
    /// The counters of the plugin `name`.
    pub(crate) fn new(name: &'static str, services: &Services) -> FaultCounters {
        FaultCounters {
            by_code: CODES.iter().map(|code| (*code, services.event_counter(name, code))).collect(),
            other: services.event_counter(name, "other_fault"),
            background: services.event_counter(name, "background_fault"),
        }
    }

    pub(super) fn of(&self, code: &str) -> &EventCounter {
        self.by_code.iter().find(|(known, _)| *known == code).map_or(&self.other, |(_, counter)| counter)
    }
}

impl WasmPlugin {
    /// Counts and logs a fault, and names it as the failure of the request.
    pub(super) fn note(&self, exchange: &mut Exchange, fault: &GuestFault) -> ExchangeFailure {
        let plugin = self.configured.module.identity.name;
        self.counters.of(fault.code).fetch_add(1, Ordering::Relaxed);
        if fault.ends_instance {
            exchange.local().resource(InstancePool::default).failed(self.configured.module.number);
            tracing::error!(target: "wasm", plugin, cause = fault.code, "the instance is ended: {}", fault.text);
        } else {
            // The access log has the cause of each request.
            tracing::debug!(target: "wasm", plugin, cause = fault.code, "{}", fault.text);
        }
        let state = exchange.state::<RequestState>();
        state.has_failed = true;
        let detail = format!("the plugin {plugin} failed ({}): {}", fault.code, fault.text);
        ExchangeFailure::new(Cause::PluginFailed, detail).of_plugin(plugin)
    }

    /// The reply to a request that cannot pass.
    pub(super) fn refused(&self, exchange: &mut Exchange, fault: &GuestFault) -> Box<BufferedReply> {
        let failure = self.note(exchange, fault);
        exchange.failure.get_or_insert(failure);
        Box::new(BufferedReply::message(500, MESSAGE))
    }

    /// Puts a reply in place of the response.
    pub(super) fn replace_response(&self, exchange: &mut Exchange, reply: BufferedReply) {
        exchange.begin_response();
        exchange.response.status = reply.status;
        for (name, value) in &reply.headers {
            // A field that cannot be sent is left out.
            let _ = exchange.response.headers.append(name, value.as_bytes());
        }
        exchange.state::<RequestState>().replacement = Some(reply.body.into_owned());
    }

    /// Puts an error in place of the response.
    pub(super) fn fail_response(&self, exchange: &mut Exchange, fault: &GuestFault) {
        let failure = self.note(exchange, fault);
        exchange.failure.get_or_insert(failure);
        self.replace_response(exchange, BufferedReply::message(500, MESSAGE));
    }

    /// Ends a request of which a part of the body was sent.
    pub(super) fn fail_upload(&self, exchange: &mut Exchange, fault: &GuestFault) {
        let failure = self.note(exchange, fault);
        exchange.request_fault = Some(Box::new(failure));
    }

    /// Ends a request of which a part of the body was sent, with the guest's reply.
    pub(super) fn answer_upload(&self, exchange: &mut Exchange, reply: &BufferedReply) {
        let plugin = self.configured.module.identity.name;
        let answer = FailureResponse {
            status: reply.status,
            headers: reply.headers.iter().map(|(name, value)| (name[..].into(), value[..].into())).collect(),
            body: Some(String::from_utf8_lossy(&reply.body).into()),
        };
        let detail = format!("the plugin {plugin} replied while the body was sent");
        let failure = ExchangeFailure::new(Cause::PluginFailed, detail).of_plugin(plugin);
        exchange.request_fault = Some(Box::new(failure.answered_with(&Arc::new(answer))));
        exchange.state::<RequestState>().has_failed = true;
    }
}
