//! Code of a user as the configuration holds it, shared by all threads, and as one interpreter has loaded it;
//! and instances, which are programs with a configuration.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use mlua::{Function, Table, Value};
use serde_json::Value as Json;

use super::call::ProgramCall;
use super::endpoints::Declared;
use super::engine::LuaEngine;
use super::outside::Outside;
use super::parameters::parameters;
use super::state::Reach;
use crate::budget::STEPS_MAX;
use crate::describe;
use crate::script::LuaScript;

/// The form of a program, which says what its texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramForm {
    /// One text, which returns the table of a plugin of APISIX.
    Plugin,
    /// Texts that return a function each; they run one behind another until one returns something.
    Functions,
}

/// Code of a user.
pub(crate) struct Program {
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) form: ProgramForm,
    pub(crate) texts: Vec<Arc<LuaScript>>,
    pub(crate) outside: Arc<Outside>,
    /// No configuration uses it any more: its timers end.
    is_retired: AtomicBool,
}

/// A program with a configuration.
pub(crate) struct ProgramInstance {
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) program: Arc<Program>,
    pub(crate) config: Json,
    pub(crate) metadata: Option<Json>,
    /// The object that it stands in, such as `/routes/1`.
    pub(crate) owner: Box<str>,
}

/// The functions of a plugin that Weir calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    Rewrite,
    Access,
    BeforeProxy,
    HeaderFilter,
    BodyFilter,
    DelayedBodyFilter,
    Preread,
    Log,
    Init,
    Destroy,
    CheckSchema,
    Api,
    ControlApi,
}

impl EntryPoint {
    pub(crate) const ALL: [EntryPoint; 13] = [
        EntryPoint::Rewrite,
        EntryPoint::Access,
        EntryPoint::BeforeProxy,
        EntryPoint::HeaderFilter,
        EntryPoint::BodyFilter,
        EntryPoint::DelayedBodyFilter,
        EntryPoint::Preread,
        EntryPoint::Log,
        EntryPoint::Init,
        EntryPoint::Destroy,
        EntryPoint::CheckSchema,
        EntryPoint::Api,
        EntryPoint::ControlApi,
    ];

    /// The name of the field.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EntryPoint::Rewrite => "rewrite",
            EntryPoint::Access => "access",
            EntryPoint::BeforeProxy => "before_proxy",
            EntryPoint::HeaderFilter => "header_filter",
            EntryPoint::BodyFilter => "body_filter",
            EntryPoint::DelayedBodyFilter => "delayed_body_filter",
            EntryPoint::Preread => "preread",
            EntryPoint::Log => "log",
            EntryPoint::Init => "init",
            EntryPoint::Destroy => "destroy",
            EntryPoint::CheckSchema => "check_schema",
            EntryPoint::Api => "api",
            EntryPoint::ControlApi => "control_api",
        }
    }

    /// The phase as `ngx.get_phase` names it: APISIX runs `rewrite` and `before_proxy` in nginx's access
    /// phase.
    pub(crate) fn ngx_phase(self) -> &'static str {
        match self {
            EntryPoint::Rewrite | EntryPoint::Access | EntryPoint::BeforeProxy | EntryPoint::Api => "access",
            EntryPoint::ControlApi => "content",
            EntryPoint::HeaderFilter => "header_filter",
            EntryPoint::BodyFilter | EntryPoint::DelayedBodyFilter => "body_filter",
            EntryPoint::Preread => "preread",
            EntryPoint::Log => "log",
            EntryPoint::Init | EntryPoint::Destroy | EntryPoint::CheckSchema => "init_worker",
        }
    }
}

impl Program {
    pub(crate) fn new(
        name: &'static str,
        form: ProgramForm,
        texts: Vec<Arc<LuaScript>>,
        outside: Arc<Outside>,
    ) -> Arc<Program> {
        Arc::new(Program {
            number: next_number(),
            name,
            form,
            texts,
            outside,
            is_retired: AtomicBool::new(false),
        })
    }

    /// Ends its timers that repeat.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether it is retired.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// An instance for `config`, which stands in `owner`.
    pub(crate) fn instance(
        self: &Arc<Program>,
        owner: &str,
        config: Json,
        metadata: Option<Json>,
    ) -> Arc<ProgramInstance> {
        Arc::new(ProgramInstance {
            number: next_number(),
            name: self.name,
            program: self.clone(),
            config,
            metadata,
            owner: owner.into(),
        })
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A function that the gateway calls.
pub(crate) struct Called {
    pub(crate) function: Function,
    /// How many of its arguments it sees, at most.
    pub(crate) parameters: u32,
}

impl Called {
    fn new(function: Function) -> Called {
        Called { parameters: parameters(&function), function }
    }
}

/// A program in one interpreter.
pub(crate) struct LoadedProgram {
    pub(crate) program: Weak<Program>,
    /// The table of a plugin.
    pub(crate) table: Option<Table>,
    /// The functions of a program of [`ProgramForm::Functions`].
    pub(crate) functions: Vec<Called>,
    entries: [Option<Called>; EntryPoint::ALL.len()],
    /// The lists of `api` and `control_api`, once they were asked.
    pub(super) public_endpoints: OnceCell<Rc<[Declared]>>,
    pub(super) control_endpoints: OnceCell<Rc<[Declared]>>,
}

impl LoadedProgram {
    /// Runs the texts of `program` and keeps what they return.
    ///
    /// # Errors
    /// The error of a text, or another value than its form wants, as a sentence.
    pub(super) fn load(engine: &LuaEngine, program: &Arc<Program>) -> Result<LoadedProgram, String> {
        let call = ProgramCall::new("init_worker", false, program.instance("", Json::Null, None), engine);
        let run = || -> mlua::Result<Vec<Value>> {
            let environment = engine.environment(program.name)?;
            let load = |text: &Arc<LuaScript>| text.load(&engine.lua, Some(&environment))?.call(());
            program.texts.iter().map(load).collect()
        };
        let values = engine.state.enter(&call, &mut Reach::None, run);
        let values = values.map_err(|error| describe(&error))?;
        let mut loaded = LoadedProgram {
            program: Arc::downgrade(program),
            table: None,
            functions: Vec::new(),
            entries: Default::default(),
            public_endpoints: OnceCell::new(),
            control_endpoints: OnceCell::new(),
        };
        for value in values {
            match (program.form, value) {
                (ProgramForm::Functions, Value::Function(function)) => {
                    loaded.functions.push(Called::new(function));
                }
                (ProgramForm::Functions, other) => {
                    return Err(format!(
                        "only accept Lua function, the input code type is {}",
                        crate::type_name(&other)
                    ));
                }
                (ProgramForm::Plugin, Value::Table(table)) => {
                    for entry in EntryPoint::ALL {
                        loaded.entries[entry as usize] = match table.get(entry.name()) {
                            Ok(Value::Function(function)) => Some(Called::new(function)),
                            _ => None,
                        };
                    }
                    loaded.table = Some(table);
                }
                (ProgramForm::Plugin, other) => {
                    return Err(format!("it returns a {} in place of a table", crate::type_name(&other)));
                }
            }
        }
        if loaded.functions.len() > 1 {
            // One call runs them all.
            let functions: Vec<Function> =
                loaded.functions.iter().map(|called| called.function.clone()).collect();
            let all = engine.tables.in_turn(&functions).map_err(|error| describe(&error))?;
            loaded.functions.insert(0, Called::new(all));
        }
        Ok(loaded)
    }

    /// The function of the plugin for `entry`; that of the program where it has another form.
    pub(crate) fn function(&self, entry: EntryPoint) -> Option<&Called> {
        self.entries[entry as usize].as_ref().or_else(|| self.functions.first())
    }

    /// The function of the table for `entry`.
    pub(crate) fn program_function(&self, entry: EntryPoint) -> Option<&Function> {
        self.entries[entry as usize].as_ref().map(|called| &called.function)
    }

    /// Calls a function that belongs to no request and may not wait.
    ///
    /// # Errors
    /// The function's, as a sentence.
    pub(crate) fn call_apart<R: mlua::FromLuaMulti>(
        engine: &LuaEngine,
        instance: &Arc<ProgramInstance>,
        entry: EntryPoint,
        function: &Function,
        values: impl mlua::IntoLuaMulti,
    ) -> Result<R, String> {
        let call = ProgramCall::new(entry.ngx_phase(), false, instance.clone(), engine);
        let result = engine.state.enter(&call, &mut Reach::None, || function.call(values));
        result.map_err(|error| describe(&error))
    }

    /// Tells a plugin that it is loaded.
    pub(crate) fn init(&self, engine: &LuaEngine, instance: &Arc<ProgramInstance>) {
        let Some(function) = self.program_function(EntryPoint::Init) else { return };
        let called = Self::call_apart::<()>(engine, instance, EntryPoint::Init, function, ());
        if let Err(reason) = called {
            instance.program.outside.count_error();
            tracing::error!(plugin = instance.name, "init failed: {reason}");
        }
    }

    /// Tells a plugin that no configuration uses it any more.
    pub(super) fn destroy(&self, engine: &LuaEngine) {
        let Some(function) = self.program_function(EntryPoint::Destroy) else { return };
        let called = engine.state.budget.run(STEPS_MAX, || function.call::<()>(()));
        if let Err(error) = called {
            tracing::error!("destroy of a plugin failed: {}", describe(&error));
        }
    }
}

/// An instance in one interpreter.
pub(crate) struct LoadedInstance {
    pub(crate) instance: Weak<ProgramInstance>,
    pub(crate) program: Rc<LoadedProgram>,
    /// The same table at each call, so that caches of the plugin find it.
    pub(crate) config: Value,
}

impl LoadedInstance {
    pub(super) fn load(
        engine: &LuaEngine,
        instance: &Arc<ProgramInstance>,
    ) -> Result<LoadedInstance, String> {
        let is_new = !engine.has_program(&instance.program);
        let program = engine.program(&instance.program)?;
        let config = engine.table_of(&instance.config)?;
        let metadata = match &instance.metadata {
            Some(metadata) => engine.table_of(metadata)?,
            None => Value::Nil,
        };
        let set = engine.metadata.raw_set(instance.name, &metadata);
        set.map_err(|error| describe(&error))?;
        // A plugin may complete its configuration while it checks it.
        if let Some(check) = program.program_function(EntryPoint::CheckSchema) {
            let checked = LoadedProgram::call_apart::<(Value, Option<String>)>(
                engine,
                instance,
                EntryPoint::CheckSchema,
                check,
                &config,
            );
            if let Err(reason) = checked {
                instance.program.outside.count_error();
                tracing::error!(plugin = instance.name, "check_schema failed: {reason}");
            }
        }
        if is_new {
            program.init(engine, instance);
        }
        Ok(LoadedInstance { instance: Arc::downgrade(instance), program, config })
    }
}

impl LuaEngine {
    /// Runs `script` by itself: it has to return a function.
    ///
    /// # Errors
    /// Its error, or the type of what it returns, as a sentence.
    pub(crate) fn check_function(&self, script: &Arc<LuaScript>) -> Result<(), String> {
        match self.value_of(script)? {
            Value::Function(_) => Ok(()),
            other => {
                Err(format!("only accept Lua function, the input code type is {}", crate::type_name(&other)))
            }
        }
    }

    /// The value that `script` returns when it runs by itself.
    ///
    /// # Errors
    /// Its error, as a sentence.
    pub(crate) fn value_of(&self, script: &Arc<LuaScript>) -> Result<Value, String> {
        let run = || -> mlua::Result<Value> {
            script.load(&self.lua, Some(&self.environment("a function")?))?.call(())
        };
        let result = self.state.budget.run(STEPS_MAX, run);
        result.map_err(|error| describe(&error))
    }

    /// The program of an instance, loaded and initialised in this interpreter.
    ///
    /// # Errors
    /// As for [`LuaEngine::program`].
    pub(crate) fn begun_program(&self, instance: &Arc<ProgramInstance>) -> Result<Rc<LoadedProgram>, String> {
        let is_new = !self.has_program(&instance.program);
        let program = self.program(&instance.program)?;
        if is_new {
            program.init(self, instance);
        }
        Ok(program)
    }

    fn has_program(&self, program: &Arc<Program>) -> bool {
        self.holds(program.number)
    }

    /// A value of JSON as Lua has it.
    pub(crate) fn table_of(&self, value: &Json) -> Result<Value, String> {
        self.json.read(&self.lua, value.to_string().as_bytes(), &|| Ok(()))
    }
}
