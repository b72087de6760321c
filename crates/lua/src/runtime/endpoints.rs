//! The endpoints that a plugin in Lua declares: the lists that its functions `api` and `control_api` return.
//! Each interpreter asks for them once.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Table, Value};
use model::loaded_endpoint::LOADED_ENDPOINTS_MAX;

use super::engine::LuaEngine;
use super::program::{EntryPoint, LoadedProgram, ProgramInstance};
use crate::describe;

/// One entry of such a list.
pub(crate) struct Declared {
    /// Empty: all.
    pub(crate) methods: Vec<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) handler: Function,
}

impl LoadedProgram {
    /// The list of the function `entry`; an empty one if the plugin has no such function.
    ///
    /// # Errors
    /// The function's error, or the fault of its list, as a sentence.
    pub(crate) fn endpoints(
        &self,
        engine: &LuaEngine,
        instance: &Arc<ProgramInstance>,
        entry: EntryPoint,
    ) -> Result<Rc<[Declared]>, String> {
        let cell = if entry == EntryPoint::Api { &self.public_endpoints } else { &self.control_endpoints };
        if let Some(known) = cell.get() {
            return Ok(known.clone());
        }
        let declared: Rc<[Declared]> = match self.program_function(entry) {
            Some(function) => {
                let value = Self::call_apart::<Value>(engine, instance, entry, function, ())
                    .and_then(|value| read_list(&value));
                value.map_err(|reason| format!("{}: {reason}", entry.name()))?.into()
            }
            None => Rc::new([]),
        };
        Ok(cell.get_or_init(|| declared).clone())
    }
}

fn read_list(value: &Value) -> Result<Vec<Declared>, String> {
    let Value::Table(list) = value else {
        return Err(format!("it returns a {} in place of a list of routes", crate::type_name(value)));
    };
    let mut declared = Vec::new();
    let mut paths = 0;
    for (index, route) in list.sequence_values::<Table>().enumerate() {
        let route = route.map_err(|error| describe(&error)).and_then(|route| read(&route));
        let route = route.map_err(|reason| format!("route {}: {reason}", index + 1))?;
        paths += route.paths.len();
        if paths > LOADED_ENDPOINTS_MAX {
            return Err(format!("it has more than {LOADED_ENDPOINTS_MAX} paths"));
        }
        declared.push(route);
    }
    Ok(declared)
}

/// APISIX reads `uri` of routes of `api`, and `uris` of those of `control_api`; each is a path or a list.
fn read(route: &Table) -> Result<Declared, String> {
    let mut paths = texts(route, "uri")?.unwrap_or_default();
    paths.extend(texts(route, "uris")?.unwrap_or_default());
    if paths.is_empty() {
        return Err("it has no `uri` and no `uris`".to_owned());
    }
    let handler = route.get::<Value>("handler").map_err(|error| describe(&error))?;
    let Value::Function(handler) = handler else {
        return Err(format!("its `handler` is a {} in place of a function", crate::type_name(&handler)));
    };
    Ok(Declared { methods: texts(route, "methods")?.unwrap_or_default(), paths, handler })
}

/// A field that is a text or a list of texts.
fn texts(route: &Table, name: &str) -> Result<Option<Vec<String>>, String> {
    let value: Value = route.get(name).map_err(|error| describe(&error))?;
    let list = match &value {
        Value::Nil => return Ok(None),
        Value::String(text) => text.to_str().map(|text| vec![text.to_owned()]),
        Value::Table(list) => list.sequence_values::<String>().take(LOADED_ENDPOINTS_MAX + 1).collect(),
        other => return Err(format!("its `{name}` is a {} in place of a list", crate::type_name(other))),
    };
    list.map(Some).map_err(|error| format!("`{name}`: {}", describe(&error)))
}
