//! Scripts in objects beside their plugins: `filter_func` and `script` of a route, `pre_function` of `_meta`.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::extension::interned_phases;
use exchange::plugin::scripts::{RouteCondition, Scripts};
use exchange::plugin::services::Services;
use exchange::plugin::{
    BodyEncoder, BodyNeed, BufferedReply, Build, Explained, Flow, LogTask, NextAttempt, PhaseDecision,
    Plugin, PluginPhase, Portion, ResponseStep, StoredReply,
};
use message::{Headers, ResponseHead};
use model::catalog::ScriptChecks;
use serde_json::Value;

use crate::language::Language;
use crate::plugin::{FunctionArguments, LuaPlugin, phases, reads_body};
use crate::runtime::call::ProgramCall;
use crate::runtime::engine::LuaEngine;
use crate::runtime::outside::Outside;
use crate::runtime::program::{EntryPoint, Program, ProgramForm, ProgramInstance};
use crate::runtime::run::RunningCall;
use crate::runtime::state::Reach;
use crate::runtime::tables::ContextTables;
use crate::script::LuaScript;

/// Milliseconds between two lines about failures of one condition.
const LOG_INTERVAL_MS: u64 = 1_000;

/// The checks of scripts when an object is written.
pub const SCRIPT_CHECKS: ScriptChecks = ScriptChecks {
    condition: |source| {
        let script = compiled("filter_func", &format!("return {source}"))
            .map_err(|reason| format!("failed to load 'filter_func' string: {reason}"))?;
        LuaEngine::for_checks()?.check_function(&script).map_err(|reason| {
            let is_other = reason.starts_with("only accept");
            if is_other { "'filter_func' should be a function".to_owned() } else { reason }
        })
    },
    script: |source| {
        let script = compiled("script", source)
            .map_err(|reason| format!("failed to load 'script' string: {reason}"))?;
        match LuaEngine::for_checks()?.value_of(&script)? {
            mlua::Value::Table(_) => Ok(()),
            _ => Err("'script' should be a Lua object".to_owned()),
        }
    },
    before: |source| LuaEngine::for_checks()?.check_function(&compiled("pre_function", source)?),
};

fn compiled(name: &'static str, source: &str) -> Result<Arc<LuaScript>, String> {
    LuaScript::compile(name, source.as_bytes().to_vec())
}

/// A condition in Lua.
struct LuaCondition {
    instance: Arc<ProgramInstance>,
    pace: Pace,
}

/// A plugin with a function before each of its phases.
struct Preceded {
    before: LuaPlugin,
    plugin: Arc<dyn Plugin>,
}

impl Scripts for Language {
    fn condition(
        &self,
        services: &Services,
        owner: &str,
        source: &str,
    ) -> Result<Arc<dyn RouteCondition>, String> {
        let program = functions("filter_func", &format!("return {source}"), services)?;
        let instance = program.instance(owner, Value::Null, None);
        Ok(Arc::new(LuaCondition { instance, pace: Pace::every_ms(LOG_INTERVAL_MS) }))
    }

    fn script(
        &self,
        build: &Build<'_>,
        source: &str,
    ) -> Result<(&'static [PluginPhase], Arc<dyn Plugin>), String> {
        let script = LuaScript::compile("script", source.as_bytes().to_vec())?;
        let program =
            Program::new("script", ProgramForm::Plugin, vec![script], Outside::new("script", build.services));
        let loaded = LuaEngine::for_checks()?.program(&program)?;
        // APISIX runs these functions of a script and no others.
        let run = [EntryPoint::Access, EntryPoint::HeaderFilter, EntryPoint::BodyFilter, EntryPoint::Log];
        let entries: Vec<EntryPoint> =
            run.into_iter().filter(|entry| loaded.program_function(*entry).is_some()).collect();
        let phases = interned_phases(&phases(&entries, reads_body(source.as_bytes())));
        let instance = program.instance(build.owner, Value::Null, None);
        Ok((phases, Arc::new(LuaPlugin::new(instance, entries, FunctionArguments::Context, true))))
    }

    fn before(
        &self,
        build: &Build<'_>,
        name: &'static str,
        config: &Value,
        source: &str,
        plugin: Arc<dyn Plugin>,
    ) -> Result<Arc<dyn Plugin>, String> {
        let program = functions(name, source, build.services)?;
        let instance = program.instance(build.owner, config.clone(), build.metadata.cloned());
        let entries = EntryPoint::ALL.to_vec();
        let before = LuaPlugin::new(instance, entries, FunctionArguments::ConfigAndContext, true);
        Ok(Arc::new(Preceded { before, plugin }))
    }
}

/// A program of one text, which returns a function.
fn functions(name: &'static str, source: &str, services: &Services) -> Result<Arc<Program>, String> {
    let script = compiled(name, source)?;
    LuaEngine::for_checks()?.check_function(&script)?;
    Ok(Program::new(name, ProgramForm::Functions, vec![script], Outside::new(name, services)))
}

impl fmt::Debug for LuaCondition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LuaCondition({})", self.instance.owner)
    }
}

impl LuaCondition {
    fn verdict(&self, exchange: &Exchange) -> Result<bool, String> {
        let tables = ContextTables::of_ended(exchange)?;
        let engine = &tables.engine;
        let loaded = engine.instance(&self.instance)?;
        let function = loaded.program.function(EntryPoint::Access).ok_or("it has no function")?;
        let call = ProgramCall::new("access", false, self.instance.clone(), engine);
        *call.tables.borrow_mut() = Some(tables.clone());
        let reach = &mut Reach::Read(exchange);
        let variables = tables.variables().map_err(|error| crate::describe(&error))?;
        let mut run = RunningCall::begin(engine, &call, &function.function, variables, reach)?;
        match run.poll(&mut Context::from_waker(Waker::noop()), reach) {
            Poll::Ready(result) => {
                let first = result?.pop_front();
                Ok(!matches!(first, None | Some(mlua::Value::Nil | mlua::Value::Boolean(false))))
            }
            Poll::Pending => Err("it waits while the route is found".to_owned()),
        }
    }
}

impl RouteCondition for LuaCondition {
    fn holds(&self, exchange: &Exchange) -> bool {
        self.verdict(exchange).unwrap_or_else(|reason| {
            self.instance.program.outside.count_error();
            if let Some(times) = self.pace.add(1, exchange.local().now_ms()) {
                let owner = &*self.instance.owner;
                tracing::error!(owner, times, "filter_func failed and counts as false: {reason}");
            }
            false
        })
    }
}

impl Drop for LuaCondition {
    fn drop(&mut self) {
        self.instance.program.retire();
    }
}

impl Preceded {
    /// Runs the function, then `phase` of the plugin. A function that fails is logged and has no effect, as
    /// in APISIX; one that ends the request does.
    fn decide<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        entry: EntryPoint,
        phase: for<'b> fn(&'b dyn Plugin, &'b mut Exchange) -> Flow<'b>,
    ) -> Flow<'a> {
        let mut begun = match self.before.begin_before(exchange, entry) {
            Some(begun) => begun,
            None => return phase(&*self.plugin, exchange),
        };
        if begun.is_finished() {
            return match self.before.end_before(exchange, entry, begun) {
                Some(reply) => Flow::reply(reply),
                None => phase(&*self.plugin, exchange),
            };
        }
        Flow::Wait(Box::pin(async move {
            poll_fn(|cx| begun.poll(cx, exchange)).await;
            if let Some(reply) = self.before.end_before(exchange, entry, begun) {
                return PhaseDecision::Reply(Box::new(reply));
            }
            match phase(&*self.plugin, exchange) {
                Flow::Continue => PhaseDecision::Continue,
                Flow::Reply(reply) => PhaseDecision::Reply(reply),
                Flow::Stream(reply) => PhaseDecision::Stream(reply),
                Flow::Stored(reply) => PhaseDecision::Stored(reply),
                Flow::Wait(future) => future.await,
            }
        }))
    }
}

impl Plugin for Preceded {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.decide(exchange, EntryPoint::Rewrite, |plugin, exchange| plugin.rewrite(exchange))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.decide(exchange, EntryPoint::Access, |plugin, exchange| plugin.access(exchange))
    }

    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.decide(exchange, EntryPoint::BeforeProxy, |plugin, exchange| plugin.before_proxy(exchange))
    }

    fn before_attempt(&self, exchange: &mut Exchange, attempt: NextAttempt) {
        self.plugin.before_attempt(exchange, attempt);
    }

    fn upstream_response(
        &self,
        exchange: &mut Exchange,
        failure: Option<&exchange::failure::ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        self.plugin.upstream_response(exchange, failure)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.before.run_before(exchange, EntryPoint::HeaderFilter);
        self.plugin.response_head(exchange)
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        self.before.run_before(exchange, EntryPoint::BodyFilter);
        self.plugin.response_body(exchange, body, portion)
    }

    fn response_trailers(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        self.plugin.response_trailers(exchange, trailers);
    }

    fn coding_weight(&self, exchange: &mut Exchange) -> u16 {
        self.plugin.coding_weight(exchange)
    }

    fn encoder(&self, exchange: &mut Exchange) -> Option<Box<dyn BodyEncoder>> {
        self.plugin.encoder(exchange)
    }

    fn informational(&self, exchange: &mut Exchange, head: &mut ResponseHead) {
        self.plugin.informational(exchange, head);
    }

    fn request_ended(&self, exchange: &Exchange) {
        self.plugin.request_ended(exchange);
    }

    fn before_log(&self, exchange: &mut Exchange) {
        self.plugin.before_log(exchange);
    }

    fn log(&self, exchange: &Exchange) {
        self.before.run_before_log(exchange);
        self.plugin.log(exchange);
    }

    fn log_task(&self, exchange: &Exchange) -> Option<LogTask> {
        self.plugin.log_task(exchange)
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        self.plugin.wants_request_body(exchange)
    }

    fn reads_body_in_rewrite(&self) -> bool {
        self.plugin.reads_body_in_rewrite()
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        self.plugin.refuse_long_body(exchange)
    }

    fn request_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>, portion: Portion) {
        self.plugin.request_body(exchange, body, portion);
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        self.plugin.wants_response_body(exchange)
    }

    fn api<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.plugin.api(exchange)
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        self.plugin.explain(exchange, phase)
    }

    fn start(&self) {
        self.plugin.start();
    }

    fn stop(&self) {
        self.plugin.stop();
    }
}
