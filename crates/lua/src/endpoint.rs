//! An endpoint of a plugin in Lua: calls its handler for a request, and makes a reply of what the handler
//! returns.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::extension::EndpointCode;
use exchange::plugin::{BodyNeed, BufferedReply, Flow, PhaseDecision, Plugin};
use mlua::MultiValue;
use model::loaded_endpoint::LoadedEndpoint;
use serde_json::Value as Json;

use crate::plugin::{Begun, FunctionArguments, LuaPlugin};
use crate::runtime::call::ProgramCall;
use crate::runtime::engine::LuaEngine;
use crate::runtime::program::{EntryPoint, LoadedProgram, Program};
use crate::runtime::run::RunningCall;
use crate::runtime::state::Reach;
use crate::runtime::tables::ContextTables;

/// The media type of a table as a body, as in APISIX, unless the handler sets another.
const CONTENT_TYPE_OF_TABLES: &str = "application/json";

/// See the module.
struct LuaEndpoint {
    plugin: LuaPlugin,
    /// The function that declares it.
    entry: EntryPoint,
    /// Its place in the list of that function, and the length of the list.
    index: usize,
    count: usize,
}

/// The endpoints that `program` declares in the function `entry`.
///
/// # Errors
/// The function's error, or the fault of an endpoint, as a sentence.
pub(crate) fn endpoints(
    engine: &LuaEngine,
    program: &Arc<Program>,
    loaded: &LoadedProgram,
    entry: EntryPoint,
) -> Result<Arc<[LoadedEndpoint]>, String> {
    let instance = program.instance(&format!("/extensions/{}", program.name), Json::Null, None);
    let declared = loaded.endpoints(engine, &instance, entry)?;
    let mut endpoints = Vec::new();
    for (index, one) in declared.iter().enumerate() {
        let plugin = LuaPlugin::new(instance.clone(), Vec::new(), FunctionArguments::ConfigAndContext, false);
        let endpoint = LuaEndpoint { plugin, entry, index, count: declared.len() };
        let code = Arc::new(EndpointCode(Arc::new(endpoint)));
        for path in &one.paths {
            let made = LoadedEndpoint::new(&one.methods, path, code.clone());
            endpoints.push(made.map_err(|reason| format!("{}: {reason}", entry.name()))?);
        }
    }
    Ok(endpoints.into())
}

impl LuaEndpoint {
    fn begin(&self, tables: &Rc<ContextTables>, reach: &mut Reach<'_>) -> Result<Begun, String> {
        let (engine, instance) = (&tables.engine, self.plugin.instance());
        let loaded = engine.begun_program(instance)?;
        let declared = loaded.endpoints(engine, instance, self.entry)?;
        let one = declared
            .get(self.index)
            .filter(|_| declared.len() == self.count)
            .ok_or_else(|| format!("{} returns other routes than when it was loaded", self.entry.name()))?;
        let call = ProgramCall::new(self.entry.ngx_phase(), true, instance.clone(), engine);
        *call.tables.borrow_mut() = Some(tables.clone());
        // As in APISIX: handlers of the control API get no context.
        let run = match self.entry {
            EntryPoint::Api => RunningCall::begin(engine, &call, &one.handler, tables.context()?, reach),
            _ => RunningCall::begin(engine, &call, &one.handler, (), reach),
        };
        Ok(Begun::new(call, run?))
    }

    /// The reply of the handler; none if it has neither returned nor printed anything.
    fn reply(
        &self,
        exchange: &mut Exchange,
        call: &ProgramCall,
        result: Result<MultiValue, String>,
    ) -> Option<BufferedReply> {
        let is_table = |values: &MultiValue| values.iter().take(2).any(mlua::Value::is_table);
        let has_table = result.as_ref().is_ok_and(is_table);
        let ended = self.plugin.outcome(exchange, self.entry, call, result);
        // A handler makes the whole answer: text without an end is one.
        let mut reply = ended.or_else(|| exchange.begun_reply.take().map(|begun| *begun))?;
        let is_type = |name: &str| name.eq_ignore_ascii_case("content-type");
        if has_table && let Some(field) = reply.headers.iter_mut().find(|(name, _)| is_type(name)) {
            CONTENT_TYPE_OF_TABLES.clone_into(&mut field.1);
        }
        Some(reply)
    }
}

impl Plugin for LuaEndpoint {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        self.plugin.wants_request_body(exchange)
    }

    fn api<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let begun =
            ContextTables::of(exchange).and_then(|tables| self.begin(&tables, &mut Reach::Edit(exchange)));
        let mut begun = match begun {
            Ok(begun) => begun,
            Err(reason) => return Flow::reply(self.plugin.failed(exchange, self.entry, &reason)),
        };
        if let Some(result) = begun.take_finished() {
            return match self.reply(exchange, begun.call(), result) {
                Some(reply) => Flow::reply(reply),
                None => Flow::Continue,
            };
        }
        Flow::Wait(Box::pin(async move {
            let result = poll_fn(|cx| begun.poll_result(cx, exchange)).await;
            match self.reply(exchange, begun.call(), result) {
                Some(reply) => PhaseDecision::Reply(Box::new(reply)),
                None => PhaseDecision::Continue,
            }
        }))
    }
}
