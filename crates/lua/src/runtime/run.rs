//! Runs a call to its end: resumes its coroutines, and polls the steps that they wait for.

use std::rc::Rc;
use std::task::{Context, Poll};

use mlua::{Function, IntoLuaMulti, MultiValue, Thread, Value};

use super::call::{ProgramCall, ThreadEnd};
use super::engine::LuaEngine;
use super::state::{PendingOperation, Reach};
use crate::budget::CallBudget;
use crate::describe;

/// A call on its way. Dropping it ends its coroutines.
pub(crate) struct RunningCall {
    engine: Rc<LuaEngine>,
    call: Rc<ProgramCall>,
    main: Option<CoroutineTask>,
    others: Vec<CoroutineTask>,
    result: Option<Result<MultiValue, String>>,
}

/// A coroutine of a call.
struct CoroutineTask {
    /// The number of a light thread; 0 is the function itself.
    number: u64,
    thread: Thread,
    waits_for: Option<PendingOperation>,
}

/// A coroutine has run to its next wait or to its end.
enum CoroutineTurn {
    Waits(PendingOperation),
    Ended(Result<MultiValue, String>),
}

impl RunningCall {
    /// Begins to call `function` with `values`.
    ///
    /// # Errors
    /// There is no memory for it, as a sentence.
    pub(crate) fn begin(
        engine: &Rc<LuaEngine>,
        call: &Rc<ProgramCall>,
        function: &Function,
        values: impl IntoLuaMulti,
        reach: &mut Reach<'_>,
    ) -> Result<RunningCall, String> {
        let mut run = RunningCall {
            engine: engine.clone(),
            call: call.clone(),
            main: None,
            others: Vec::new(),
            result: None,
        };
        let thread = engine.coroutine().map_err(|error| describe(&error))?;
        // A tuple goes to the stack of the interpreter as it is, without a list in between.
        run.advance(CoroutineTask { number: 0, thread, waits_for: None }, (function, values), reach);
        Ok(run)
    }

    /// The results of the function, once it and its light threads have ended.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        reach: &mut Reach<'_>,
    ) -> Poll<Result<MultiValue, String>> {
        loop {
            let mut has_moved = self.start_spawned(reach);
            if self.call.exit.get().is_some() {
                // The functions of an ended call do not go on.
                self.main = None;
                self.others.clear();
            }
            let waiting = self.main.take().into_iter().chain(std::mem::take(&mut self.others));
            for mut task in waiting.collect::<Vec<_>>() {
                let is_gone = matches!(self.call.threads.borrow().get(&task.number), Some(ThreadEnd::Gone));
                if is_gone {
                    continue;
                }
                let polled = task.waits_for.as_mut().map(|operation| operation.as_mut().poll(cx));
                match polled {
                    Some(Poll::Pending) => self.keep(task),
                    Some(Poll::Ready(values)) => {
                        has_moved = true;
                        let values = values
                            .or_else(|error| (Value::Nil, describe(&error)).into_lua_multi(&self.engine.lua));
                        match values {
                            Ok(values) => self.advance(task, values, reach),
                            Err(error) => self.end(task, Err(describe(&error))),
                        }
                    }
                    None => {}
                }
            }
            if self.main.is_none() && self.others.is_empty() && self.call.spawned.borrow().is_empty() {
                let exited = || Ok(MultiValue::new());
                return Poll::Ready(self.result.take().unwrap_or_else(exited));
            }
            if !has_moved {
                return Poll::Pending;
            }
        }
    }

    /// The results, if the call has ended without a wait.
    pub(crate) fn take_finished(&mut self) -> Option<Result<MultiValue, String>> {
        let is_finished =
            self.main.is_none() && self.others.is_empty() && self.call.spawned.borrow().is_empty();
        if is_finished { self.result.take() } else { None }
    }

    fn keep(&mut self, task: CoroutineTask) {
        if task.number == 0 {
            self.main = Some(task);
        } else {
            self.others.push(task);
        }
    }

    fn start_spawned(&mut self, reach: &mut Reach<'_>) -> bool {
        let spawned = self.call.spawned.take();
        let has_any = !spawned.is_empty();
        for spawned in spawned {
            let task = CoroutineTask { number: spawned.number, thread: spawned.thread, waits_for: None };
            self.advance(task, spawned.values, reach);
        }
        has_any
    }

    /// Lets a coroutine go on with `values`.
    fn advance(&mut self, task: CoroutineTask, values: impl IntoLuaMulti, reach: &mut Reach<'_>) {
        match self.engine.resume(&self.call, &task.thread, values, reach) {
            CoroutineTurn::Waits(operation) => {
                self.keep(CoroutineTask { waits_for: Some(operation), ..task })
            }
            CoroutineTurn::Ended(result) => self.end(task, result),
        }
    }

    fn end(&mut self, task: CoroutineTask, result: Result<MultiValue, String>) {
        if result.is_ok() {
            self.engine.keep_coroutine(task.thread);
        }
        let result = if self.call.exit.get().is_some() { Ok(MultiValue::new()) } else { result };
        if task.number == 0 {
            if result.is_err() {
                self.others.clear();
                self.call.spawned.borrow_mut().clear();
            }
            self.result = Some(result);
            return;
        }
        if let Err(reason) = &result {
            tracing::error!(
                plugin = self.call.instance.name,
                phase = self.call.phase,
                "a light thread failed: {reason}"
            );
        }
        self.call.threads.borrow_mut().insert(task.number, ThreadEnd::Ended(result));
    }
}

impl LuaEngine {
    fn resume(
        &self,
        call: &Rc<ProgramCall>,
        thread: &Thread,
        values: impl IntoLuaMulti,
        reach: &mut Reach<'_>,
    ) -> CoroutineTurn {
        if call.steps_left.get() == 0 {
            return CoroutineTurn::Ended(Err(describe(&CallBudget::exceeded())));
        }
        let resumed = self.state.enter(call, reach, || thread.resume::<(Value, MultiValue)>(values));
        let operation = self.state.take_operation();
        let (mark, values) = match resumed {
            Ok(resumed) => resumed,
            Err(error) => return CoroutineTurn::Ended(Err(describe(&error))),
        };
        match (mark, operation) {
            (Value::Boolean(true), _) => CoroutineTurn::Ended(Ok(values)),
            (Value::Table(_), Some(operation)) => CoroutineTurn::Waits(operation),
            _ => CoroutineTurn::Ended(Err("the function yields outside a coroutine of its own".to_owned())),
        }
    }
}
