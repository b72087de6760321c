//! The interpreter of one thread for code of users: it loads programs, keeps their configurations as tables,
//! and lends coroutines to calls.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};

use exchange::local::WorkerLocal;
use exchange::observe::pace::Pace;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, Lua, Table, Thread};
use parking_lot::RwLock;

use super::limits::{
    CHARGED_INSTRUCTIONS, CONFIGS_MAX, COROUTINE_DEPTH_MAX, IDLE_COROUTINES_MAX, PROGRAMS_MAX,
};
use super::program::{LoadedInstance, LoadedProgram, Program, ProgramInstance};
use super::state::InterpreterState;
use super::{require, tables};
use crate::budget::CallBudget;
use crate::compiler::CompilerUse;
use crate::json::Json;
use crate::sandbox::{self, Base, MEMORY_MAX_BYTES};
use crate::{describe, natives, ngx};

/// Memory that scripts may keep; beyond it the interpreter is replaced, because all scripts of a worker share
/// its memory.
const KEPT_MAX_BYTES: usize = MEMORY_MAX_BYTES / 2;
/// Memory at which garbage is collected behind a call.
const COLLECT_BYTES: usize = 32 * 1024 * 1024;
/// The memory at which the interpreter's own collector begins again, in percent of what was left behind it;
/// 200 is usual. Each round reads all modules and programs of the worker, about 1 MiB, which pushes the
/// gateway's own data out of the caches.
const COLLECTOR_PAUSE_PERCENT: i32 = 400;
/// Milliseconds between two lines about interpreters that were replaced.
const LOG_INTERVAL_MS: u64 = 1_000;

/// The facts of the process that modules show; interpreters that are opened later see them.
static HOST: LazyLock<RwLock<natives::Host>> = LazyLock::new(RwLock::default);

/// Says what modules show of the process.
pub fn set_host(host: natives::Host) {
    *HOST.write() = host;
}

/// See the module.
pub(crate) struct LuaEngine {
    pub(crate) lua: Lua,
    pub(crate) json: Json,
    pub(crate) state: Rc<InterpreterState>,
    pub(crate) tables: tables::Makers,
    new_coroutine: Function,
    environment: Function,
    /// The metadata of plugins by name, for modules.
    pub(crate) metadata: Table,
    idle: RefCell<Vec<Thread>>,
    programs: RefCell<HashMap<u64, Rc<LoadedProgram>>>,
    instances: RefCell<HashMap<u64, Rc<LoadedInstance>>>,
    collect_at: Cell<usize>,
    /// Whether it serves requests: timers run.
    has_worker: Cell<bool>,
    weak: Weak<LuaEngine>,
}

/// Holds the interpreter of one worker between calls.
struct EngineSlot {
    engine: RefCell<Option<Rc<LuaEngine>>>,
    pace: Pace,
}

impl LuaEngine {
    /// Opens an interpreter.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn open() -> mlua::Result<Rc<LuaEngine>> {
        LuaEngine::open_with(CompilerUse::IfInterruptible)
    }

    /// As [`LuaEngine::open`], with or without LuaJIT's compiler.
    ///
    /// # Errors
    /// As for [`LuaEngine::open`].
    pub(crate) fn open_with(compiler: CompilerUse) -> mlua::Result<Rc<LuaEngine>> {
        let budget = Rc::new(CallBudget::default());
        let Base { lua, native, library, json } =
            sandbox::open_base(&budget, CHARGED_INSTRUCTIONS, compiler)?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(COLLECTOR_PAUSE_PERCENT)));
        let json = Json::of_apisix(json.array().clone());
        let state = Rc::new(InterpreterState::new(budget));
        let charged = state.budget.clone();
        lua.set_app_data(natives::Charge::new(move |steps| charged.charge(steps)));
        lua.set_app_data(natives::Host::clone(&HOST.read()));
        natives::install_natives(&lua, &native)?;
        native.raw_set("coroutine_depth_max", COROUTINE_DEPTH_MAX)?;
        ngx::install_ngx(&lua, &native, &state, &json)?;
        let scheduler: Table =
            lua.load(include_str!("scheduler.lua")).set_name("=scheduler").call((&native, &library))?;
        let ngx_table: Table = lua
            .load(include_str!("../ngx/ngx.lua"))
            .set_name("=ngx")
            .call((&native, &library, &scheduler))?;
        require::install_require(&lua, &native, &json)?;
        let views: Table = lua.load(include_str!("views.lua")).set_name("=views").call(&native)?;
        let views: Function = views.get("views")?;
        let globals: Table = lua
            .load(include_str!("globals.lua"))
            .set_name("=globals")
            .call((&native, &library, &scheduler, &ngx_table, views))?;
        let tables = tables::Makers::new(&lua, &native)?;
        let metadata = native.get("metadata")?;
        let (new_coroutine, environment) = (scheduler.get("new")?, globals.get("environment")?);
        Ok(Rc::new_cyclic(|weak| LuaEngine {
            weak: weak.clone(),
            has_worker: Cell::new(false),
            new_coroutine,
            environment,
            metadata,
            lua,
            json,
            state,
            tables,
            idle: RefCell::default(),
            programs: RefCell::default(),
            instances: RefCell::default(),
            collect_at: Cell::new(COLLECT_BYTES),
        }))
    }

    /// The interpreter of the worker of `local`.
    ///
    /// # Errors
    /// There is no memory for one, as a sentence.
    pub(crate) fn of(local: &WorkerLocal) -> Result<Rc<LuaEngine>, String> {
        let slot = local
            .resource(|| EngineSlot { engine: RefCell::default(), pace: Pace::every_ms(LOG_INTERVAL_MS) });
        let present = slot.engine.borrow().clone();
        if let Some(engine) = present {
            if let Some(kept_bytes) = engine.tidy() {
                // Calls that wait hold the old one until they end.
                slot.engine.take();
                if let Some(times) = slot.pace.add(1, local.now_ms()) {
                    tracing::warn!(
                        kept_bytes,
                        times,
                        "plugins in Lua kept too much memory: their interpreter is replaced"
                    );
                }
            } else {
                return Ok(engine);
            }
        }
        let engine = LuaEngine::open().map_err(|error| describe(&error))?;
        engine.has_worker.set(true);
        *slot.engine.borrow_mut() = Some(engine.clone());
        Ok(engine)
    }

    /// The interpreter of a thread that serves no request: it loads and checks.
    ///
    /// # Errors
    /// There is no memory for one, as a sentence.
    pub(crate) fn for_checks() -> Result<Rc<LuaEngine>, String> {
        thread_local! {
            static ENGINE: RefCell<Option<Rc<LuaEngine>>> = const { RefCell::new(None) };
        }
        ENGINE.with(|kept| {
            let present = kept.borrow().clone().filter(|engine| engine.tidy().is_none());
            match present {
                Some(engine) => Ok(engine),
                None => {
                    let engine = LuaEngine::open().map_err(|error| describe(&error))?;
                    *kept.borrow_mut() = Some(engine.clone());
                    Ok(engine)
                }
            }
        })
    }

    /// A reference that does not hold it.
    pub(crate) fn weak(&self) -> Weak<LuaEngine> {
        self.weak.clone()
    }

    /// Whether it serves requests.
    pub(crate) fn has_worker(&self) -> bool {
        self.has_worker.get()
    }

    /// Collects garbage once there is much; the bytes that are kept if they are too many.
    pub(crate) fn tidy(&self) -> Option<usize> {
        if self.lua.used_memory() <= self.collect_at.get() {
            return None;
        }
        // It fails only if a finalizer fails, and no script has one.
        let _ = self.lua.gc_collect();
        let kept_bytes = self.lua.used_memory();
        self.collect_at.set(kept_bytes.saturating_mul(2).clamp(COLLECT_BYTES, KEPT_MAX_BYTES));
        (kept_bytes > KEPT_MAX_BYTES).then_some(kept_bytes)
    }

    /// A coroutine for a call.
    pub(super) fn coroutine(&self) -> mlua::Result<Thread> {
        let idle = self.idle.borrow_mut().pop();
        idle.map_or_else(|| self.new_coroutine.call(()), Ok)
    }

    /// Takes a coroutine back that has ended its function.
    pub(super) fn keep_coroutine(&self, thread: Thread) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_COROUTINES_MAX {
            idle.push(thread);
        }
    }

    /// The globals of a program.
    pub(super) fn environment(&self, name: &str) -> mlua::Result<Table> {
        self.environment.call(name)
    }

    /// The program as this interpreter holds it, loaded now if it was not.
    ///
    /// # Errors
    /// The program's own error while it is loaded, as a sentence.
    pub(crate) fn program(&self, program: &Arc<Program>) -> Result<Rc<LoadedProgram>, String> {
        if let Some(loaded) = self.programs.borrow().get(&program.number) {
            return Ok(loaded.clone());
        }
        let loaded = Rc::new(LoadedProgram::load(self, program)?);
        let mut programs = self.programs.borrow_mut();
        if programs.len() >= PROGRAMS_MAX {
            programs.clear();
        }
        programs.insert(program.number, loaded.clone());
        drop(programs);
        self.forget_unused();
        Ok(loaded)
    }

    /// Whether the program with this number is loaded.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.programs.borrow().contains_key(&number)
    }

    /// Ends programs that no configuration uses any more.
    fn forget_unused(&self) {
        let is_unused = |loaded: &LoadedProgram| loaded.program.strong_count() == 0;
        let unused: Vec<_> = self.programs.borrow_mut().extract_if(|_, loaded| is_unused(loaded)).collect();
        for (_, loaded) in unused {
            loaded.destroy(self);
        }
    }

    /// The instance as this interpreter holds it.
    ///
    /// # Errors
    /// As for [`LuaEngine::program`].
    pub(crate) fn instance(&self, instance: &Arc<ProgramInstance>) -> Result<Rc<LoadedInstance>, String> {
        if let Some(loaded) = self.instances.borrow().get(&instance.number) {
            return Ok(loaded.clone());
        }
        let loaded = Rc::new(LoadedInstance::load(self, instance)?);
        let mut instances = self.instances.borrow_mut();
        instances.retain(|_, loaded| loaded.instance.strong_count() > 0);
        if instances.len() >= CONFIGS_MAX {
            instances.clear();
        }
        instances.insert(instance.number, loaded.clone());
        Ok(loaded)
    }
}
