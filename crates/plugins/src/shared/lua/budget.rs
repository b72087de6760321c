//! The limits of one call into a script: instructions, steps of pattern searches and time come out of one budget, which the
//! interpreter and the functions written in Rust charge. It knows no interpreter.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Instructions of the interpreter that one call may take, each step of a pattern search counted as one: about a tenth of a
/// second, because the worker serves no other request meanwhile.
pub(crate) const STEPS_MAX: u64 = 5_000_000;
/// The longest time of one call. It bounds scripts with slow instructions, such as the insertion at the beginning of a long
/// table.
pub(crate) const TIME_MAX: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Default)]
pub(crate) struct Budget {
    left: Cell<u64>,
    /// None while no call runs.
    until: Cell<Option<Instant>>,
    is_exceeded: Cell<bool>,
}

impl Budget {
    /// Begins a call.
    pub(super) fn begin(&self) {
        self.left.set(STEPS_MAX);
        self.until.set(Some(Instant::now() + TIME_MAX));
        self.is_exceeded.set(false);
    }

    /// Ends the call: the interpreter's own work is not charged.
    pub(super) fn end(&self) {
        self.until.set(None);
    }

    /// Takes `steps` out of the budget. Once it is exceeded, each charge fails until the call has ended, so that a script
    /// cannot catch the error and go on.
    ///
    /// # Errors
    /// The call has exceeded a limit.
    pub(super) fn charge(&self, steps: u64) -> mlua::Result<()> {
        let Some(until) = self.until.get() else { return Ok(()) };
        match self.left.get().checked_sub(steps) {
            Some(left) if Instant::now() < until => self.left.set(left),
            _ => self.is_exceeded.set(true),
        }
        self.check()
    }

    /// Fails if the call has exceeded a limit before.
    ///
    /// # Errors
    /// As for [`Budget::charge`].
    pub(super) fn check(&self) -> mlua::Result<()> {
        if self.is_exceeded.get() {
            return Err(mlua::Error::runtime(format!(
                "the script was stopped after {STEPS_MAX} instructions or {} ms",
                TIME_MAX.as_millis()
            )));
        }
        Ok(())
    }
}
