//! One call of a function of a user: its phase, the results that it gathers, and its light threads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exchange::exchange::body_demand::CollectedBody;
use mlua::{LuaString, MultiValue, Thread, Value};

use super::engine::LuaEngine;
use super::limits::{CALL_STEPS_MAX, OUTPUT_MAX_BYTES, THREADS_MAX};
use super::program::ProgramInstance;

/// See the module.
pub(crate) struct ProgramCall {
    /// The phase as messages and `ngx.get_phase` name it.
    pub(crate) phase: &'static str,
    /// Whether its functions may wait.
    pub(crate) may_wait: bool,
    /// The instance of which a function runs.
    pub(crate) instance: Arc<ProgramInstance>,
    pub(crate) engine: Weak<LuaEngine>,
    pub(crate) steps_left: Cell<u64>,
    /// The text that it has written for the client.
    pub(crate) output: RefCell<Vec<u8>>,
    pub(crate) has_output: Cell<bool>,
    /// The status that it has set for its reply.
    pub(crate) status: Cell<Option<u16>>,
    /// The argument of `ngx.exit`.
    pub(crate) exit: Cell<Option<i64>>,
    /// `ngx.arg`: the piece of a body, and whether it is the last.
    pub(crate) chunk: RefCell<Option<(Value, bool)>>,
    /// The body of the request as far as it was read on demand.
    pub(crate) collected: RefCell<Option<CollectedBody>>,
    /// Light threads that were made and have not run.
    pub(super) spawned: RefCell<Vec<Spawned>>,
    pub(crate) threads: RefCell<BTreeMap<u64, ThreadEnd>>,
    /// How many first bytes of the client there are, for calls of a session.
    pub(crate) first_bytes: Cell<usize>,
    /// A coroutine waits for more first bytes than there are.
    pub(crate) wants_bytes: Cell<bool>,
    /// The state of the request or session that Lua code keeps, for calls of one.
    pub(crate) tables: RefCell<Option<Rc<super::tables::ContextTables>>>,
}

/// A light thread and the values that it begins with.
pub(super) struct Spawned {
    pub(super) number: u64,
    pub(super) thread: Thread,
    pub(super) values: MultiValue,
}

/// How far a light thread is.
pub(crate) enum ThreadEnd {
    Running,
    /// It has returned, or has failed with a reason.
    Ended(Result<MultiValue, String>),
    /// Another thread has ended it, or has taken its results.
    Gone,
}

impl ProgramCall {
    /// A call of a function of `instance` in `phase`.
    pub(crate) fn new(
        phase: &'static str,
        may_wait: bool,
        instance: Arc<ProgramInstance>,
        engine: &LuaEngine,
    ) -> Rc<ProgramCall> {
        Rc::new(ProgramCall {
            phase,
            may_wait,
            instance,
            engine: engine.weak(),
            steps_left: Cell::new(CALL_STEPS_MAX),
            output: RefCell::default(),
            has_output: Cell::new(false),
            status: Cell::new(None),
            exit: Cell::new(None),
            chunk: RefCell::default(),
            first_bytes: Cell::new(0),
            wants_bytes: Cell::new(false),
            collected: RefCell::default(),
            spawned: RefCell::default(),
            threads: RefCell::default(),
            tables: RefCell::default(),
        })
    }

    /// Appends to the output.
    ///
    /// # Errors
    /// It has become too long.
    pub(crate) fn write(&self, text: &[u8]) -> mlua::Result<()> {
        self.has_output.set(true);
        let mut output = self.output.borrow_mut();
        if output.len() + text.len() > OUTPUT_MAX_BYTES {
            return Err(mlua::Error::runtime(format!("more than {OUTPUT_MAX_BYTES} bytes of output")));
        }
        output.extend_from_slice(text);
        Ok(())
    }

    /// Whether the piece of a body is the last one, or the function has said so.
    pub(crate) fn ends_body(&self) -> bool {
        matches!(&*self.chunk.borrow(), Some((_, true)))
    }

    /// The chunk of a body filter after its function has run.
    pub(crate) fn take_chunk(&self) -> Option<Option<LuaString>> {
        match self.chunk.take()? {
            (Value::String(text), _) => Some(Some(text)),
            _ => Some(None),
        }
    }

    /// Makes a light thread that calls the first of `values` with the others; gives its number.
    ///
    /// # Errors
    /// The call has too many.
    pub(crate) fn spawn(self: &Rc<ProgramCall>, values: MultiValue) -> mlua::Result<u64> {
        let engine = self.engine.upgrade().ok_or_else(|| mlua::Error::runtime("the interpreter is gone"))?;
        let number = self.threads.borrow().len() as u64 + 1;
        if number > THREADS_MAX as u64 {
            return Err(mlua::Error::runtime(format!("a call has at most {} light threads", THREADS_MAX)));
        }
        let thread = engine.coroutine()?;
        self.threads.borrow_mut().insert(number, ThreadEnd::Running);
        self.spawned.borrow_mut().push(Spawned { number, thread, values });
        Ok(number)
    }

    /// Takes back a light thread that has not run.
    pub(crate) fn unspawn(&self, number: u64) {
        self.spawned.borrow_mut().retain(|spawned| spawned.number != number);
    }
}
