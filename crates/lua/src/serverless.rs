//! Functions in Lua that a configuration holds itself: those of the plugins `serverless-pre-function` and
//! `serverless-post-function`, the `script` of a route, its `filter_func`, and the `pre_function` of `_meta`.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginPhase};

use crate::plugin::{FunctionArguments, LuaPlugin};
use crate::runtime::engine::LuaEngine;
use crate::runtime::outside::Outside;
use crate::runtime::program::{EntryPoint, Program, ProgramForm};
use crate::script::LuaScript;

/// The phases that functions may run in, by their names.
pub const PHASES: [&str; 6] = ["rewrite", "access", "header_filter", "body_filter", "log", "before_proxy"];

/// The phases of [`PHASES`] as the gateway has them.
pub const ALL_PHASES: &[PluginPhase] = &[
    PluginPhase::Rewrite,
    PluginPhase::RequestBody,
    PluginPhase::Access,
    PluginPhase::BeforeProxy,
    PluginPhase::ResponseHead,
    PluginPhase::ResponseBody,
    PluginPhase::Log,
];

/// Compiles and runs each text once: it has to return a function.
///
/// # Errors
/// APISIX's messages with the reason.
pub fn check(functions: &[String]) -> Result<(), String> {
    for text in functions {
        let script = compile(text)?;
        LuaEngine::for_checks()?.check_function(&script).map_err(|reason| {
            if reason.starts_with("only accept") { reason } else { format!("pcall error: {reason}") }
        })?;
    }
    Ok(())
}

fn compile(text: &str) -> Result<Arc<LuaScript>, String> {
    LuaScript::compile("function", text.as_bytes().to_vec())
        .map_err(|reason| format!("failed to loadstring: {reason}"))
}

/// The plugin `name` that runs `functions` in `phase`.
///
/// # Errors
/// A function does not compile, or there is no such phase.
pub fn build(
    name: &'static str,
    build: &Build<'_>,
    config: &serde_json::Value,
    phase: &str,
    functions: &[String],
) -> Result<Arc<dyn Plugin>, String> {
    let entry = EntryPoint::ALL.into_iter().find(|entry| entry.name() == phase && PHASES.contains(&phase));
    let entry = entry.ok_or_else(|| format!("there is no phase {phase}"))?;
    let texts = functions.iter().map(|text| compile(text)).collect::<Result<Vec<_>, _>>()?;
    let program = Program::new(name, ProgramForm::Functions, texts, Outside::new(name, build.services));
    let instance = program.instance(build.owner, config.clone(), build.metadata.cloned());
    Ok(Arc::new(LuaPlugin::new(instance, vec![entry], FunctionArguments::ConfigAndContext, true)))
}
