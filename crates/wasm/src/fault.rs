//! Why a call into a guest failed: a code for counters, and a sentence for the log.

use wasmtime::{Error, Trap};

use crate::host::Host;
use crate::limits::HOST_CALLS_MAX;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct GuestFault {
    /// The cause, as a counter of events names it.
    pub code: &'static str,
    /// The cause, a sentence.
    pub text: String,
    /// The instance cannot be used any more.
    pub ends_instance: bool,
}

impl GuestFault {
    /// A fault that leaves the instance as it is.
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> GuestFault {
        GuestFault { code, text: text.into(), ends_instance: false }
    }

    /// The fault of a call that trapped.
    pub(crate) fn of_trap(error: &Error, host: &Host) -> GuestFault {
        let (code, cause) = match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) if host.budget.host_calls > HOST_CALLS_MAX => {
                let cause = format!(
                    "it called functions of the gateway more than {HOST_CALLS_MAX} times in one call"
                );
                ("host_calls", cause)
            }
            Some(Trap::Interrupt) => {
                let cause =
                    format!("it used more than {} ms of processor time in one call", host.budget.limit_ms);
                ("deadline", cause)
            }
            Some(Trap::StackOverflow) => {
                ("stack_overflow", "its functions call each other too deeply".to_owned())
            }
            Some(trap) => ("trap", trap.to_string()),
            None => ("trap", error.root_cause().to_string()),
        };
        let text = match host.last_words.as_str() {
            "" => cause,
            words => format!("{cause}; its last error line: {words}"),
        };
        GuestFault { code, text, ends_instance: true }
    }
}
