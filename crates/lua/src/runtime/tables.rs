//! The tables of one request or session: the context that plugins of APISIX get as `ctx`, and `ngx.ctx`. All
//! programs of a request share them, from its first phase to its last, and stay in the interpreter that made
//! them.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::stream::StreamSession;
use mlua::{Function, Lua, Table};

use super::engine::LuaEngine;

/// The number under which the tables lie among the states of instances, which count upwards from 1.
const STATE_NUMBER: u32 = u32::MAX;

/// See the module.
pub(crate) struct ContextTables {
    pub(crate) engine: Rc<LuaEngine>,
    /// `ctx`, and `ctx.var` with the variables that plugins set and that Weir does not have; made when they
    /// are asked for.
    context: OnceCell<(Table, Table)>,
    /// `ngx.ctx`, made when it is asked for.
    pub(crate) request: RefCell<Option<Table>>,
}

/// The functions that make tables.
pub(crate) struct Makers {
    context: Function,
    in_turn: Function,
}

#[derive(Default)]
struct StoredTables(Option<Rc<ContextTables>>);

impl Makers {
    pub(super) fn new(lua: &Lua, native: &Table) -> mlua::Result<Makers> {
        let makers: Table = lua.load(include_str!("tables.lua")).set_name("=tables").call(native)?;
        Ok(Makers { context: makers.get("context")?, in_turn: makers.get("in_turn")? })
    }

    /// One function that calls `functions` one behind another until one returns something.
    pub(super) fn in_turn(&self, functions: &[Function]) -> mlua::Result<Function> {
        self.in_turn.call(functions.to_vec())
    }
}

impl ContextTables {
    fn make(engine: &Rc<LuaEngine>) -> Rc<ContextTables> {
        Rc::new(ContextTables {
            engine: engine.clone(),
            context: OnceCell::new(),
            request: RefCell::default(),
        })
    }

    fn of_context(&self) -> mlua::Result<&(Table, Table)> {
        if let Some(made) = self.context.get() {
            return Ok(made);
        }
        let made = self.engine.tables.context.call(())?;
        Ok(self.context.get_or_init(|| made))
    }

    /// `ctx`.
    ///
    /// # Errors
    /// There is no memory for it, as a sentence.
    pub(crate) fn context(&self) -> Result<&Table, String> {
        self.of_context().map(|(context, _)| context).map_err(|error| crate::describe(&error))
    }

    /// `ctx.var`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn variables(&self) -> mlua::Result<&Table> {
        self.of_context().map(|(_, variables)| variables)
    }

    /// The tables of the request in `exchange`, made now if it has none.
    ///
    /// # Errors
    /// There is no memory for them, as a sentence.
    pub(crate) fn of(exchange: &mut Exchange) -> Result<Rc<ContextTables>, String> {
        if let Some(tables) = &exchange.states.of::<StoredTables>(STATE_NUMBER).0 {
            return Ok(tables.clone());
        }
        let engine = LuaEngine::of(exchange.local())?;
        let made = ContextTables::make(&engine);
        exchange.states.of::<StoredTables>(STATE_NUMBER).0 = Some(made.clone());
        Ok(made)
    }

    /// As [`ContextTables::of`], for an exchange that may only be read: new tables are not kept.
    ///
    /// # Errors
    /// As for [`ContextTables::of`].
    pub(crate) fn of_ended(exchange: &Exchange) -> Result<Rc<ContextTables>, String> {
        if let Some(StoredTables(Some(tables))) = exchange.states.peek::<StoredTables>(STATE_NUMBER) {
            return Ok(tables.clone());
        }
        Ok(ContextTables::make(&LuaEngine::of(exchange.local())?))
    }

    /// The tables of `session`, made now if it has none.
    ///
    /// # Errors
    /// As for [`ContextTables::of`].
    pub(crate) fn of_session(session: &mut StreamSession) -> Result<Rc<ContextTables>, String> {
        if let Some(tables) = session.find_held::<ContextTables>() {
            return Ok(tables);
        }
        let made = ContextTables::of_ended_session(session)?;
        session.held.push(made.clone());
        Ok(made)
    }

    /// As [`ContextTables::of_session`], for a session that may only be read: new tables are not kept.
    ///
    /// # Errors
    /// As for [`ContextTables::of`].
    pub(crate) fn of_ended_session(session: &StreamSession) -> Result<Rc<ContextTables>, String> {
        if let Some(tables) = session.find_held::<ContextTables>() {
            return Ok(tables);
        }
        let local = session.find_held::<WorkerLocal>().ok_or("the session has no worker")?;
        Ok(ContextTables::make(&LuaEngine::of(&local)?))
    }

    /// `ngx.ctx`.
    pub(crate) fn request(&self) -> mlua::Result<Table> {
        let mut request = self.request.borrow_mut();
        if let Some(table) = &*request {
            return Ok(table.clone());
        }
        let table = self.engine.lua.create_table()?;
        table.raw_set("api_ctx", &self.of_context()?.0)?;
        *request = Some(table.clone());
        Ok(table)
    }
}
