//! Tests of guests in a thread with an event loop, without sockets of the gateway.

mod assembly_filter;
mod functions;
mod hostile;
mod lab_filter;
mod rust_filter;
mod sessions;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::extension::{Extension, ExtensionLanguage, interned_name};
use exchange::plugin::{BufferedReply, Flow, PhaseDecision, Plugin};
use exchange::testing::{Scene, build, services};
use serde_json::{Value, json};

use crate::language::Language;

/// The part of a module that every guest has: its version, its memory and an allocator that gives ever higher
/// addresses.
const HEAD: &str = include_str!("tests/head.wat");

/// A module of these imports and this code behind [`HEAD`].
fn module(imports: &str, code: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {imports} {HEAD} {code})")).unwrap()
}

fn load(name: &str, content: &[u8]) -> Result<Arc<dyn Extension>, String> {
    Language::default().load(interned_name(name).unwrap(), content, &services())
}

fn run<T>(body: impl Future<Output = T>) -> T {
    net::env::block_on(body).unwrap()
}

/// An instance of the extension on a route.
fn plugin(extension: &Arc<dyn Extension>, scene: &Scene, config: &Value) -> Arc<dyn Plugin> {
    extension.check(config).unwrap();
    let (states, services) = (scene.states(), services());
    extension.build(&build("routes/1", None, &states, &services), config).unwrap()
}

/// Runs a phase to its end.
async fn end(flow: Flow<'_>) -> Option<BufferedReply> {
    let decision = match flow {
        Flow::Wait(future) => future.await,
        Flow::Continue => PhaseDecision::Continue,
        Flow::Reply(reply) => PhaseDecision::Reply(reply),
        _ => panic!("guests reply whole"),
    };
    match decision {
        PhaseDecision::Continue => None,
        PhaseDecision::Reply(reply) => Some(*reply),
        _ => panic!("guests reply whole"),
    }
}

fn detail(exchange: &Exchange) -> String {
    exchange.failure.as_ref().map(|failure| failure.detail.to_string()).unwrap_or_default()
}

fn conf() -> Value {
    json!({ "conf": "x" })
}
