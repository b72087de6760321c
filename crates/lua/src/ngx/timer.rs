//! `ngx.timer`: functions that run later on the worker, without a request.

use std::future::poll_fn;
use std::rc::Rc;

use exchange::plugin::PHASE_WAIT_MS;
use mlua::{Error, Function, IntoLuaMulti, MultiValue, Value};
use net::env;

use super::Adder;
use crate::runtime::call::ProgramCall;
use crate::runtime::engine::LuaEngine;
use crate::runtime::limits::{DELAY_MAX_SECONDS, TIMER_RUN_MS, TIMERS_MAX};
use crate::runtime::run::RunningCall;
use crate::runtime::state::{InterpreterState, Reach};

const _: () = assert!(TIMER_RUN_MS <= PHASE_WAIT_MS);

pub(super) fn install_timers(add: &Adder<'_>) -> mlua::Result<()> {
    add.add_shared("timer", |state, lua, values: (f64, bool, Function, MultiValue)| {
        let (delay, is_repeated, function, values) = values;
        if !(0.0..=DELAY_MAX_SECONDS).contains(&delay) || (is_repeated && delay == 0.0) {
            return Err(Error::runtime(format!("a delay from 0 to {DELAY_MAX_SECONDS} seconds expected")));
        }
        if state.timers.get() >= TIMERS_MAX {
            return (Value::Nil, "too many pending timers").into_lua_multi(lua);
        }
        let call = state.call()?;
        let Some(engine) = call.engine.upgrade() else {
            return (Value::Nil, "the interpreter is gone").into_lua_multi(lua);
        };
        if !engine.has_worker() {
            // Code that is only checked starts nothing.
            return 1.into_lua_multi(lua);
        }
        state.timers.set(state.timers.get() + 1);
        let held = TimerSlot(state.clone());
        let delay_ms = (delay * 1_000.0).ceil() as u64;
        let instance = call.instance.clone();
        env::spawn(async move {
            let _held = held;
            loop {
                env::sleep_ms(delay_ms).await;
                let call = ProgramCall::new("timer", true, instance.clone(), &engine);
                run(&engine, &call, &function, values.clone()).await;
                if !is_repeated || instance.program.is_retired() {
                    return;
                }
            }
        });
        1.into_lua_multi(lua)
    })?;
    add.add("timer_count", |state, _, ()| Ok(state.timers.get() as f64))
}

/// Gives a timer's place back when it ends.
struct TimerSlot(Rc<InterpreterState>);

impl Drop for TimerSlot {
    fn drop(&mut self) {
        self.0.timers.set(self.0.timers.get().saturating_sub(1));
    }
}

async fn run(engine: &Rc<LuaEngine>, call: &Rc<ProgramCall>, function: &Function, mut values: MultiValue) {
    // `premature` is true only where a worker of nginx ends.
    values.push_front(Value::Boolean(false));
    let failed = |reason: String| {
        call.instance.program.outside.count_timer_error();
        tracing::error!(plugin = call.instance.name, phase = "timer", "a timer failed: {reason}");
    };
    let mut run = match RunningCall::begin(engine, call, function, values, &mut Reach::None) {
        Ok(run) => run,
        Err(reason) => return failed(reason),
    };
    let result = tokio::select! {
        biased;
        result = poll_fn(|cx| run.poll(cx, &mut Reach::None)) => result.map(drop),
        () = env::sleep_ms(TIMER_RUN_MS) => Err(format!("it took longer than {TIMER_RUN_MS} ms")),
    };
    if let Err(reason) = result {
        failed(reason);
    }
}
