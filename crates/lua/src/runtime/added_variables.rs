//! Variables that programs add with `apisix.core.ctx.register_var`, as templates, conditions and logs of the
//! gateway read them: the getter is asked when one is looked up that nothing else has. The getters themselves
//! are kept in the interpreter.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::scripts::{AddedVariables, answer_added_variables};
use mlua::Value;
use router::vars::Value as Found;
use serde_json::Value as Json;

use super::call::ProgramCall;
use super::engine::LuaEngine;
use super::limits::VARIABLES_MAX;
use super::program::{Program, ProgramForm, ProgramInstance};
use super::state::Reach;
use super::tables::ContextTables;
use crate::describe;
use crate::ngx::text_of;

/// Milliseconds between two lines about getters that fail.
const LOG_INTERVAL_MS: u64 = 1_000;

/// See the module.
struct AddedByPrograms {
    /// The interpreter that the names belong to; another one begins anew.
    engine: Weak<LuaEngine>,
    /// Stands for the programs in calls of getters; it has no text.
    instance: Arc<ProgramInstance>,
    names: RefCell<HashSet<Box<str>>>,
    pace: Pace,
}

thread_local! {
    static ADDED: RefCell<Option<Rc<AddedByPrograms>>> = const { RefCell::new(None) };
}

/// Remembers that a function of `call` has added the variable `name`. Beyond [`VARIABLES_MAX`] names a
/// further one is for scripts alone.
pub(crate) fn register(call: &ProgramCall, name: &str) {
    let is_of_call = |added: &&Rc<AddedByPrograms>| added.engine.ptr_eq(&call.engine);
    let known = ADDED.with_borrow(|added| added.as_ref().filter(is_of_call).cloned());
    let added = known.unwrap_or_else(|| {
        let outside = call.instance.program.outside.clone();
        let program = Program::new("apisix.core.ctx", ProgramForm::Functions, Vec::new(), outside);
        let added = Rc::new(AddedByPrograms {
            engine: call.engine.clone(),
            instance: program.instance("", Json::Null, None),
            names: RefCell::default(),
            pace: Pace::every_ms(LOG_INTERVAL_MS),
        });
        ADDED.set(Some(added.clone()));
        answer_added_variables(added.clone());
        added
    });
    let mut names = added.names.borrow_mut();
    if names.len() < VARIABLES_MAX {
        names.insert(name.into());
    }
}

impl AddedVariables for AddedByPrograms {
    fn value(&self, exchange: &Exchange, name: &str) -> Option<Found<'static>> {
        if !self.names.borrow().contains(name) {
            return None;
        }
        self.ask(exchange, name).unwrap_or_else(|reason| {
            if let Some(times) = self.pace.add(1, exchange.local().now_ms()) {
                tracing::warn!(variable = name, times, "the getter of a variable failed: {reason}");
            }
            None
        })
    }
}

impl AddedByPrograms {
    fn ask(&self, exchange: &Exchange, name: &str) -> Result<Option<Found<'static>>, String> {
        let tables = ContextTables::of_ended(exchange)?;
        let engine = &tables.engine;
        // A script that runs has the request lent to it, and asks the getter by itself.
        if engine.state.is_running() {
            return Ok(None);
        }
        let call = ProgramCall::new("access", false, self.instance.clone(), engine);
        *call.tables.borrow_mut() = Some(tables.clone());
        let variables = tables.variables().map_err(|error| describe(&error))?;
        let reach = &mut Reach::Read(exchange);
        let value = engine.state.enter(&call, reach, || variables.get::<Value>(name));
        Ok(match value.map_err(|error| describe(&error))? {
            Value::Boolean(value) => Some(Found::Boolean(value)),
            value => text_of(&value).map(Found::owned),
        })
    }
}
