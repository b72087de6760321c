//! Plugins of the simulation: `stamp` writes the request's identity on every response and counts log calls,
//! `edit` changes bodies, `wait` delays requests and may reply itself, `witness` names the request on the
//! response. They panic if a request asks for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use serde_json::{Value, json};

use super::exchange::{LOCAL_FIELD, WITNESS_FIELD};
use exchange::Exchange;
use exchange::plugin::{
    BodyNeed, BufferedReply, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase, Portion, ResponseStep,
};
use net::env;
use net::env::memory::Planted;

/// Value that `edit` XORs with every byte of a body.
pub(crate) const EDIT_MASK: u8 = 0x5A;
/// Status of the reply that `wait` makes.
pub(crate) const LOCAL_STATUS: u16 = 418;
/// Largest body that the plugins buffer, in bytes.
const COLLECTED_MAX: usize = 1 << 20;

thread_local! {
    static LOGGED: RefCell<BTreeMap<u64, u64>> = RefCell::default();
}

/// Returns how often each request was logged since the last call.
pub(crate) fn take_logged() -> BTreeMap<u64, u64> {
    LOGGED.take()
}

fn id(exchange: &Exchange) -> Option<u64> {
    std::str::from_utf8(exchange.request.headers.get("X-Id")?).ok()?.parse().ok()
}

fn panic_if_asked(exchange: &Exchange, place: &str) {
    if exchange.request.headers.get("X-Panic") == Some(place.as_bytes()) {
        resume_unwind(Box::new(Planted));
    }
}

/// Plugin `stamp`: writes the request's identity on every response and counts log calls.
struct Stamp;

impl Plugin for Stamp {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        panic_if_asked(exchange, "access");
        Flow::Continue
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        panic_if_asked(exchange, "head");
        if let Some(id) = id(exchange) {
            exchange.response.headers.set("X-Stamp", id.to_string().as_bytes()).unwrap();
        }
        ResponseStep::Done
    }

    fn log(&self, exchange: &Exchange) {
        if let Some(id) = id(exchange) {
            LOGGED.with_borrow_mut(|logged| *logged.entry(id).or_default() += 1);
        }
    }
}

/// Plugin `witness`: writes on every response the request that it was made for, and whether the gateway made
/// it itself.
struct Witness;

impl Plugin for Witness {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        let mut request = exchange.request.method_text().to_vec();
        request.push(b' ');
        request.extend_from_slice(exchange.forward_path());
        let headers = &mut exchange.response.headers;
        headers.remove(LOCAL_FIELD);
        // The line of a refused request may be no value of a field; its witness is empty.
        let is_value = headers.set(WITNESS_FIELD, &request).is_ok();
        headers.set(WITNESS_FIELD, if is_value { &request } else { b"" }).unwrap();
        if exchange.stats.answered_locally {
            headers.set(LOCAL_FIELD, b"1").unwrap();
        }
        ResponseStep::Done
    }
}

/// Plugin `edit`: XORs response bodies with [`EDIT_MASK`], as a stream or buffered.
struct Edit {
    buffers: bool,
}

impl Plugin for Edit {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        exchange.response.headers.set("X-Edited", b"1").unwrap();
        ResponseStep::Done
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        if self.buffers { BodyNeed::Buffer { limit_bytes: COLLECTED_MAX } } else { BodyNeed::Stream }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        _: Portion,
    ) -> ResponseStep<'a> {
        panic_if_asked(exchange, "body");
        body.iter_mut().for_each(|byte| *byte ^= EDIT_MASK);
        ResponseStep::Done
    }
}

/// Plugin `wait`: delays a request and may reply itself or buffer the request's body.
struct Wait {
    wait_ms: u64,
    answers: bool,
    collects: bool,
}

impl Plugin for Wait {
    fn wants_request_body(&self, _: &Exchange) -> BodyNeed {
        if self.collects { BodyNeed::Buffer { limit_bytes: COLLECTED_MAX } } else { BodyNeed::None }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Wait(Box::pin(async move {
            env::sleep_ms(self.wait_ms).await;
            if !self.answers {
                return PhaseDecision::Continue;
            }
            let text = format!("local {}", id(exchange).unwrap_or_default());
            PhaseDecision::Reply(Box::new(BufferedReply::status(LOCAL_STATUS).with_body(text.into_bytes())))
        }))
    }
}

const fn kind(
    name: &'static str,
    priority: i32,
    phases: &'static [PluginPhase],
    build: exchange::plugin::BuildPlugin,
) -> PluginKind {
    PluginKind::new(name, priority, phases, || json!({"type": "object"}), build)
}

fn flag(config: &Value, name: &str) -> bool {
    config[name].as_bool().unwrap_or_default()
}

static STAMP: PluginKind =
    kind("stamp", 3, &[PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::Log], |_, _| {
        Ok(Arc::new(Stamp))
    });
static EDIT: PluginKind =
    kind("edit", 2, &[PluginPhase::ResponseHead, PluginPhase::ResponseBody], |_, config| {
        Ok(Arc::new(Edit { buffers: flag(config, "buffers") }))
    });
static WAIT: PluginKind = kind("wait", 1, &[PluginPhase::RequestBody, PluginPhase::Access], |_, config| {
    let wait_ms = config["wait_ms"].as_u64().unwrap_or_default();
    Ok(Arc::new(Wait { wait_ms, answers: flag(config, "answers"), collects: flag(config, "collects") }))
});
static WITNESS: PluginKind = kind("witness", 4, &[PluginPhase::ResponseHead], |_, _| Ok(Arc::new(Witness)));
/// All plugins of the simulation.
pub(crate) static KINDS: &[&PluginKind] = &[&STAMP, &EDIT, &WAIT, &WITNESS];
