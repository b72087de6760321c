//! A script of the configuration: checked once where the configuration is checked, loaded once by each
//! worker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib, Table};

use super::describe;

/// The longest script, in bytes.
pub(crate) const SOURCE_MAX_BYTES: usize = 1024 * 1024;
/// Scripts that one worker holds loaded. Beyond it all are dropped, and those in use are loaded again.
pub(crate) const LOADED_MAX: usize = 1_024;

/// See the module.
#[derive(Debug)]
pub struct LuaScript {
    /// No other script of the process has it.
    number: u64,
    name: &'static str,
    source: Box<[u8]>,
}

impl LuaScript {
    /// The source.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Checks `source`; messages call it `name`.
    ///
    /// # Errors
    /// The source does not compile: the line and the reason, `name:LINE: reason`.
    pub fn compile(name: &'static str, source: Vec<u8>) -> Result<Arc<LuaScript>, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if source.len() > SOURCE_MAX_BYTES {
            return Err(format!("the script is longer than {SOURCE_MAX_BYTES} bytes"));
        }
        let script = LuaScript { number: NEXT.fetch_add(1, Ordering::Relaxed), name, source: source.into() };
        // Nothing runs in this interpreter: it only compiles.
        let lua = Lua::new_with(StdLib::NONE, LuaOptions::new()).map_err(|error| describe(&error))?;
        script.load(&lua, None).map_err(|error| describe(&error))?;
        Ok(Arc::new(script))
    }

    pub(crate) fn load(&self, lua: &Lua, globals: Option<&Table>) -> mlua::Result<Function> {
        let chunk = lua.load(&*self.source).set_name(format!("={}", self.name)).set_mode(ChunkMode::Text);
        match globals {
            Some(globals) => chunk.set_environment(globals.clone()).into_function(),
            None => chunk.into_function(),
        }
    }
}

/// A script as one worker holds it.
#[derive(Clone)]
pub struct LoadedScript {
    pub function: Function,
    pub globals: Table,
    script: Weak<LuaScript>,
}

/// The scripts that one worker has loaded.
#[derive(Default)]
pub(super) struct LoadedScripts(HashMap<u64, LoadedScript>);

impl LoadedScripts {
    /// `script`, loaded now if it was not before, with globals that `globals` makes.
    pub(super) fn get(
        &mut self,
        lua: &Lua,
        globals: &Function,
        script: &Arc<LuaScript>,
    ) -> mlua::Result<LoadedScript> {
        if let Some(loaded) = self.0.get(&script.number) {
            return Ok(loaded.clone());
        }
        // Scripts of configurations that are gone leave when a new one comes.
        self.0.retain(|_, loaded| loaded.script.strong_count() > 0);
        if self.0.len() >= LOADED_MAX {
            self.0.clear();
        }
        let globals: Table = globals.call(())?;
        let function = script.load(lua, Some(&globals))?;
        let loaded = LoadedScript { function, globals, script: Arc::downgrade(script) };
        self.0.insert(script.number, loaded.clone());
        Ok(loaded)
    }
}
