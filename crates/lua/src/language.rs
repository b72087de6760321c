//! Whole plugins of APISIX in Lua: the language `lua` of extensions.

use std::sync::Arc;

use exchange::plugin::extension::{Extension, ExtensionLanguage, interned_phases};
use exchange::plugin::services::Services;
use exchange::plugin::stream::{StreamPhase, StreamPlugin};
use exchange::plugin::{Build, Plugin, PluginPhase};
use mlua::{Table, Value};
use model::loaded_endpoint::LoadedEndpoint;
use serde_json::{Value as Json, json};

use crate::describe;
use crate::endpoint::endpoints;
use crate::natives::schema_json;
use crate::plugin::stream::{self, LuaStreamPlugin};
use crate::plugin::{FunctionArguments, LuaPlugin, phases, reads_body};
use crate::runtime::engine::LuaEngine;
use crate::runtime::outside::Outside;
use crate::runtime::program::{EntryPoint, LoadedProgram, Program, ProgramForm};
use crate::script::LuaScript;

/// Schemas inside each other in which defaults are looked for.
const SCHEMA_DEPTH_MAX: usize = 32;

/// The language `lua`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Language;

/// A plugin in Lua, loaded.
struct LuaExtension {
    program: Arc<Program>,
    priority: i64,
    entries: Vec<EntryPoint>,
    phases: &'static [PluginPhase],
    schema: Json,
    metadata_schema: Option<Json>,
    public_endpoints: Arc<[LoadedEndpoint]>,
    control_endpoints: Arc<[LoadedEndpoint]>,
}

impl ExtensionLanguage for Language {
    fn name(&self) -> &'static str {
        "lua"
    }

    fn load(
        &self,
        name: &'static str,
        content: &[u8],
        services: &Services,
    ) -> Result<Arc<dyn Extension>, String> {
        let script = LuaScript::compile(name, content.to_vec())?;
        let outside = Outside::new(name, services);
        let program = Program::new(name, ProgramForm::Plugin, vec![script], outside);
        let engine = LuaEngine::for_checks()?;
        let loaded = engine.program(&program)?;
        let table = loaded.table.as_ref().ok_or("it returns no table")?;
        refuse(table)?;
        let priority = table.get::<Option<f64>>("priority").map_err(|error| describe(&error))?;
        let priority = priority.ok_or("the table has no field `priority`, a number")? as i64;
        let entries: Vec<EntryPoint> =
            EntryPoint::ALL.into_iter().filter(|entry| loaded.program_function(*entry).is_some()).collect();
        Ok(Arc::new(LuaExtension {
            phases: interned_phases(&phases(&entries, reads_body(content))),
            priority,
            entries,
            schema: schema(table, "schema")?.unwrap_or_else(|| json!({ "type": "object" })),
            metadata_schema: schema(table, "metadata_schema")?,
            public_endpoints: endpoints(&engine, &program, &loaded, EntryPoint::Api)?,
            control_endpoints: endpoints(&engine, &program, &loaded, EntryPoint::ControlApi)?,
            program,
        }))
    }
}

/// Refuses plugins of kinds that extensions have no place for.
fn refuse(table: &Table) -> Result<(), String> {
    let text = |name: &str| table.get::<Option<String>>(name).ok().flatten();
    if text("type").as_deref() == Some("auth")
        || table.get::<Value>("consumer_schema").is_ok_and(|value| !value.is_nil())
    {
        return Err("plugins of the type `auth`, which find consumers, are not available in Weir: write the check in \
                    `access` and use the plugins for authentication beside it"
            .to_owned());
    }
    Ok(())
}

/// A schema of the table, as JSON.
fn schema(table: &Table, name: &str) -> Result<Option<Json>, String> {
    let value: Value = table.get(name).map_err(|error| describe(&error))?;
    if value.is_nil() {
        return Ok(None);
    }
    schema_json(&value).map(Some).map_err(|reason| format!("{name}: {reason}"))
}

impl Extension for LuaExtension {
    fn priority(&self) -> i64 {
        self.priority
    }

    fn phases(&self) -> &'static [PluginPhase] {
        self.phases
    }

    fn stream_phases(&self) -> &'static [StreamPhase] {
        stream::stream_phases(&self.entries)
    }

    fn serves_http(&self) -> bool {
        stream::serves_http(&self.entries)
    }

    fn schema(&self) -> Json {
        self.schema.clone()
    }

    fn metadata_schema(&self) -> Option<Json> {
        self.metadata_schema.clone()
    }

    fn check(&self, config: &Json) -> Result<(), String> {
        let engine = LuaEngine::for_checks()?;
        let loaded = engine.program(&self.program)?;
        let Some(function) = loaded.program_function(EntryPoint::CheckSchema) else { return Ok(()) };
        let mut config = config.clone();
        fill_defaults(&self.schema, &mut config, 0);
        let table = engine.table_of(&config)?;
        let instance = self.program.instance("", config, None);
        let (is_good, reason) = LoadedProgram::call_apart::<(Value, Option<String>)>(
            &engine,
            &instance,
            EntryPoint::CheckSchema,
            function,
            table,
        )?;
        match is_good {
            Value::Nil | Value::Boolean(false) => {
                Err(reason.unwrap_or_else(|| "check_schema refuses the configuration".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn build(&self, build: &Build<'_>, config: &Json) -> Result<Arc<dyn Plugin>, String> {
        let mut config = config.clone();
        fill_defaults(&self.schema, &mut config, 0);
        let instance = self.program.instance(build.owner, config, build.metadata.cloned());
        Ok(Arc::new(LuaPlugin::new(
            instance,
            self.entries.clone(),
            FunctionArguments::ConfigAndContext,
            false,
        )))
    }

    fn build_stream(&self, build: &Build<'_>, config: &Json) -> Result<Arc<dyn StreamPlugin>, String> {
        let mut config = config.clone();
        fill_defaults(&self.schema, &mut config, 0);
        let instance = self.program.instance(build.owner, config, build.metadata.cloned());
        Ok(Arc::new(LuaStreamPlugin::new(instance, self.entries.clone())))
    }

    fn public_endpoints(&self) -> Arc<[LoadedEndpoint]> {
        self.public_endpoints.clone()
    }

    fn control_endpoints(&self) -> Arc<[LoadedEndpoint]> {
        self.control_endpoints.clone()
    }
}

impl Drop for LuaExtension {
    fn drop(&mut self) {
        self.program.retire();
    }
}

/// Sets the defaults that `schema` has for fields that `config` leaves out, as APISIX's validator does.
fn fill_defaults(schema: &Json, config: &mut Json, depth: usize) {
    let (Some(Json::Object(properties)), Json::Object(fields)) = (schema.get("properties"), config) else {
        return;
    };
    if depth >= SCHEMA_DEPTH_MAX {
        return;
    }
    for (name, property) in properties {
        match (fields.get_mut(name), property.get("default")) {
            (Some(value), _) => fill_defaults(property, value, depth + 1),
            (None, Some(default)) => {
                fields.insert(name.clone(), default.clone());
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_schema_are_set_where_left_out() {
        let schema = json!({ "properties": {
            "a": { "default": 1 }, "b": { "properties": { "c": { "default": "x" } } }, "d": {} } });
        let mut config = json!({ "b": {} });
        fill_defaults(&schema, &mut config, 0);
        assert_eq!(config, json!({ "a": 1, "b": { "c": "x" } }));
    }

    #[test]
    fn plugin_tells_of_itself_and_checks_configurations() {
        let services = exchange::testing::services();
        let load = |text: &str| Language.load("mine", text.as_bytes(), &services);
        let plugin = load(
            "local _M = {version = 0.1, priority = 12, name = 'mine', schema = {type = 'object', properties = {i = {type = \
             'number', default = 3}}}}
            function _M.check_schema(conf) if conf.i > 5 then return false, 'i is too large' end return true end
            function _M.access(conf, ctx) return 403, ngx.req.get_body_data() end
            function _M.log() end
            return _M",
        )
        .map_err(|reason| reason.to_string())
        .unwrap();
        assert_eq!(plugin.priority(), 12);
        assert_eq!(plugin.phases(), [PluginPhase::RequestBody, PluginPhase::Access, PluginPhase::Log]);
        assert_eq!(plugin.schema()["properties"]["i"]["default"], 3);
        assert_eq!(plugin.check(&json!({})), Ok(()));
        assert_eq!(plugin.check(&json!({ "i": 6 })), Err("i is too large".to_owned()));
        for (text, reason) in [
            ("return 1", "in place of a table"),
            ("return {}", "priority"),
            ("return {", "mine:1:"),
            ("while true do end", "was stopped after"),
            ("error('no', 0)", "no"),
            ("return {priority = 1, type = 'auth'}", "auth"),
            ("os.execute('true') return {priority = 1}", "not available in Weir: os.execute"),
        ] {
            let refused = load(text).map(drop).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
