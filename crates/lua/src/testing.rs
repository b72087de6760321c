//! For tests: runs a function in an interpreter of its own, without a request and a worker.

use std::rc::Rc;

use mlua::{MultiValue, Table, Value};

use crate::compiler::{self, CompilerUse};
use crate::runtime::call::ProgramCall;
use crate::runtime::engine;
use crate::runtime::outside::Outside;
use crate::runtime::program::{Program, ProgramForm};
use crate::runtime::run::RunningCall;
use crate::runtime::state::Reach;
use crate::script::LuaScript;

/// An interpreter for code of users.
pub struct Engine(Rc<engine::LuaEngine>);

impl Engine {
    /// Opens one.
    ///
    /// # Errors
    /// There is no memory for it, or a module of Weir is faulty, as a sentence.
    pub fn open() -> Result<Engine, String> {
        engine::LuaEngine::open().map(Engine).map_err(|error| crate::describe(&error))
    }

    /// Opens one that counts each instruction, as where the compiler may not run.
    ///
    /// # Errors
    /// As for [`Engine::open`].
    pub fn open_without_compiler() -> Result<Engine, String> {
        engine::LuaEngine::open_with(CompilerUse::Never).map(Engine).map_err(|error| crate::describe(&error))
    }

    /// Why its compiler does not work.
    ///
    /// # Errors
    /// As said.
    pub fn compiler(&self) -> Result<(), &'static str> {
        compiler::availability()?;
        match self.0.state.budget.is_interruptible() {
            true => Ok(()),
            false => Err("it was opened without the compiler"),
        }
    }

    /// How many pieces of code it has compiled and holds.
    ///
    /// # Errors
    /// The interpreter's, as a sentence.
    pub fn compiled_traces(&self) -> Result<usize, String> {
        compiler::count_traces(&self.0.lua).map_err(|error| crate::describe(&error))
    }

    /// Runs `source` as the body of a function of the plugin `test` in the access phase; its first result as
    /// text.
    ///
    /// # Errors
    /// The function's, as a sentence.
    pub fn run(&self, source: &str) -> Result<String, String> {
        match self.value_of(source)? {
            Value::Nil => Ok("nil".to_owned()),
            value => value.to_string().map_err(|error| crate::describe(&error)),
        }
    }

    /// The names of the methods of the object that `source` returns, in order.
    /// Scripts do not see its metatable.
    ///
    /// # Errors
    /// The function's, or the reason for which the object has no methods, as a sentence.
    pub fn methods_of(&self, source: &str) -> Result<Vec<String>, String> {
        let Value::Table(object) = self.value_of(source)? else { return Err("it is no object".to_owned()) };
        let metatable = object.metatable().ok_or("the object has no metatable")?;
        let methods: Table = metatable.raw_get("__index").map_err(|error| crate::describe(&error))?;
        let names: mlua::Result<Vec<String>> =
            methods.pairs::<String, Value>().map(|pair| pair.map(|(name, _)| name)).collect();
        let mut names = names.map_err(|error| crate::describe(&error))?;
        names.sort();
        Ok(names)
    }

    fn value_of(&self, source: &str) -> Result<Value, String> {
        // As a worker does between two calls.
        if let Some(kept_bytes) = self.0.tidy() {
            return Err(format!("scripts keep {kept_bytes} bytes"));
        }
        let services = exchange::testing::services();
        let script =
            LuaScript::compile("script", format!("return function(...) {source}\nend").into_bytes())?;
        let program =
            Program::new("test", ProgramForm::Functions, vec![script], Outside::new("test", &services));
        let loaded = self.0.program(&program)?;
        let instance = program.instance("/routes/1", serde_json::Value::Null, None);
        let call = ProgramCall::new("access", true, instance, &self.0);
        let function = loaded.functions[0].function.clone();
        let mut run = RunningCall::begin(&self.0, &call, &function, (), &mut Reach::None)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let local = tokio::task::LocalSet::new();
        let poll = std::future::poll_fn(|cx| run.poll(cx, &mut Reach::None));
        let mut values: MultiValue = local.block_on(&runtime, poll)?;
        Ok(values.pop_front().unwrap_or(Value::Nil))
    }
}
