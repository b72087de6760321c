//! The log phase: plugins report an exchange that has ended, and leave work that has to wait.

use std::cell::Cell;
use std::rc::Rc;

use super::phases::{Chains, each};
use crate::context::WorkerContext;
use exchange::Exchange;
use exchange::plugin::chain::PluginInstance;
use exchange::plugin::{LOG_TASK_MS, LOG_TASKS_MAX, LogTask, PluginPhase};
use net::env;

/// Runs the log phase, and starts the tasks that plugins leave for afterwards.
pub(super) fn run_log_phase(context: &WorkerContext, exchange: &mut Exchange, chains: &Chains<'_>) {
    if chains.has(PluginPhase::BeforeLog) {
        each(context, chains, PluginPhase::BeforeLog, exchange, |instance, exchange| {
            instance.plugin.request_ended(exchange);
        });
        each(context, chains, PluginPhase::BeforeLog, exchange, |instance, exchange| {
            instance.plugin.before_log(exchange);
        });
    }
    run_log(context, exchange, chains, |_| true);
}

/// Runs the log phase of the instances that are `concerned`, without the phase before it.
pub(super) fn run_log(
    context: &WorkerContext,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
    concerned: impl Fn(&PluginInstance) -> bool,
) {
    each(context, chains, PluginPhase::Log, exchange, |instance, exchange| {
        if !concerned(instance) {
            return;
        }
        instance.plugin.log(exchange);
        if let Some(task) = instance.plugin.log_task(exchange) {
            let running = exchange.local().resource(LogTasks::default);
            if running.0.get() < LOG_TASKS_MAX {
                env::spawn(running.clone().run(task));
            }
        }
    });
}

/// The log tasks that run on this thread.
#[derive(Default)]
struct LogTasks(Cell<usize>);

impl LogTasks {
    async fn run(self: Rc<Self>, task: LogTask) {
        /// Counts a task while it runs; a panic ends the count as well.
        struct LogTaskGuard(Rc<LogTasks>);
        impl Drop for LogTaskGuard {
            fn drop(&mut self) {
                self.0.0.set(self.0.0.get() - 1);
            }
        }
        self.0.set(self.0.get() + 1);
        let _counted = LogTaskGuard(self);
        tokio::select! {
            () = task => {}
            () = env::sleep_ms(LOG_TASK_MS) => {}
        }
    }
}
