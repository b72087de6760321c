//! Plugins of the simulation: one that stamps every answer with its request's identity and counts what is logged, one
//! that edits bodies, one that waits and may answer itself. They panic where a request asks for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use serde_json::{Value, json};

use super::exchange::{LOCAL_FIELD, WITNESS_FIELD};
use exchange::Exchange;
use exchange::plugin::{BodyNeed, Decision, Flow, Phase, Plugin, PluginKind, Portion, Reply, Step};
use net::env;
use net::env::memory::Planted;

/// What edited bodies are combined with, byte by byte.
pub(crate) const EDIT_MASK: u8 = 0x5A;
/// The status of an answer that the waiting plugin gives itself.
pub(crate) const LOCAL_STATUS: u16 = 418;
/// The largest body that is collected.
const COLLECTED_MAX: usize = 1 << 20;

thread_local! {
    static LOGGED: RefCell<BTreeMap<u64, u64>> = RefCell::default();
}

/// How often each request was logged since this was last asked.
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

/// See the module.
struct Stamp;

impl Plugin for Stamp {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        panic_if_asked(exchange, "access");
        Flow::Continue
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        panic_if_asked(exchange, "head");
        if let Some(id) = id(exchange) {
            exchange.response.headers.set("X-Stamp", id.to_string().as_bytes()).unwrap();
        }
        Step::Done
    }

    fn log(&self, exchange: &Exchange) {
        if let Some(id) = id(exchange) {
            LOGGED.with_borrow_mut(|logged| *logged.entry(id).or_default() += 1);
        }
    }
}

/// Says on every answer which request it was made for, and whether by the gateway itself.
struct Witness;

impl Plugin for Witness {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let mut request = exchange.request.method_text().to_vec();
        request.push(b' ');
        request.extend_from_slice(exchange.forward_path());
        let headers = &mut exchange.response.headers;
        headers.remove(LOCAL_FIELD);
        headers.set(WITNESS_FIELD, &request).unwrap();
        if exchange.stats.answered_locally {
            headers.set(LOCAL_FIELD, b"1").unwrap();
        }
        Step::Done
    }
}

/// See the module.
struct Edit {
    buffers: bool,
}

impl Plugin for Edit {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        exchange.response.headers.set("X-Edited", b"1").unwrap();
        Step::Done
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        if self.buffers { BodyNeed::Buffer { limit_bytes: COLLECTED_MAX } } else { BodyNeed::Stream }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        _: Portion,
    ) -> Step<'a> {
        panic_if_asked(exchange, "body");
        body.iter_mut().for_each(|byte| *byte ^= EDIT_MASK);
        Step::Done
    }
}

/// See the module.
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
                return Decision::Continue;
            }
            let text = format!("local {}", id(exchange).unwrap_or_default());
            Decision::Reply(Box::new(Reply::status(LOCAL_STATUS).with_body(text.into_bytes())))
        }))
    }
}

const fn kind(
    name: &'static str,
    priority: i32,
    phases: &'static [Phase],
    build: exchange::plugin::BuildPlugin,
) -> PluginKind {
    PluginKind {
        name,
        priority,
        phases,
        auth: false,
        prefer_route: false,
        schema: || json!({"type": "object"}),
        consumer_schema: None,
        metadata_schema: None,
        check: |_| Ok(()),
        check_running: None,
        consumer_key: &[],
        check_consumer: |_| Ok(()),
        check_metadata: |_| Ok(()),
        build,
        stream: None,
        documentation: "",
    }
}

fn flag(config: &Value, name: &str) -> bool {
    config[name].as_bool().unwrap_or_default()
}

static STAMP: PluginKind =
    kind("stamp", 3, &[Phase::Access, Phase::ResponseHead, Phase::Log], |_, _| Ok(Arc::new(Stamp)));
static EDIT: PluginKind = kind("edit", 2, &[Phase::ResponseHead, Phase::ResponseBody], |_, config| {
    Ok(Arc::new(Edit { buffers: flag(config, "buffers") }))
});
static WAIT: PluginKind = kind("wait", 1, &[Phase::RequestBody, Phase::Access], |_, config| {
    let wait_ms = config["wait_ms"].as_u64().unwrap_or_default();
    Ok(Arc::new(Wait { wait_ms, answers: flag(config, "answers"), collects: flag(config, "collects") }))
});
static WITNESS: PluginKind = kind("witness", 4, &[Phase::ResponseHead], |_, _| Ok(Arc::new(Witness)));
/// All of them.
pub(crate) static KINDS: &[&PluginKind] = &[&STAMP, &EDIT, &WAIT, &WITNESS];
