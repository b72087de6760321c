//! The limits of one call into a script: instructions, steps of pattern searches and time come out of one
//! budget, which the interpreter and the functions written in Rust charge. With LuaJIT's compiler the
//! interpreter charges it only once a call has used a slice of time. The decoding of a body has limits of its
//! own.

use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

use crate::compiler::{Interruptible, SLICE_MAX};

/// Instructions of the interpreter that one call may take, each step of a pattern search counted as one:
/// about a tenth of a second, because the worker serves no other request meanwhile.
pub(crate) const STEPS_MAX: u64 = 5_000_000;
/// The longest time of one call. It bounds scripts with slow instructions, such as the insertion at the
/// beginning of a long table.
pub(crate) const TIME_MAX: Duration = Duration::from_millis(500);
/// Nanoseconds that stand for an instruction where none were counted: `STEPS_MAX` in a tenth of a second.
const STEP_NS: u64 = 20;

/// Values that are decoded of one body: a short one takes about a hundred bytes of the interpreter's memory.
pub(crate) const DECODED_VALUES_MAX: u64 = 1_000_000;
/// The longest time in which one body is decoded.
pub(crate) const DECODING_TIME_MAX: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Default)]
pub(crate) struct CallBudget {
    left: Cell<u64>,
    /// None while no call runs.
    until: Cell<Option<Instant>>,
    is_exceeded: Cell<bool>,
    /// The script has ended its own call, by `ngx.exit`.
    has_exited: Cell<bool>,
    /// The interpreter, where its compiler works.
    interruptible: OnceCell<Interruptible>,
}

/// Ends a call, also where it panics: the interpreter's own work is not charged.
struct CallEnd<'a>(&'a CallBudget);

impl Drop for CallEnd<'_> {
    fn drop(&mut self) {
        self.0.until.set(None);
    }
}

impl CallBudget {
    /// Lets the interpreter charge only once a call has used a slice of time.
    pub(super) fn set_interruptible(&self, interruptible: Interruptible) {
        // An interpreter is opened once.
        let _ = self.interruptible.set(interruptible);
    }

    /// Whether the interpreter charges only once a call has used a slice of time.
    pub(super) fn is_interruptible(&self) -> bool {
        self.interruptible.get().is_some()
    }

    /// Runs a call, or a part of one between two waits, of which `steps` are left.
    pub(super) fn run<R>(&self, steps: u64, work: impl FnOnce() -> R) -> R {
        self.begin(steps);
        let _end = CallEnd(self);
        match self.interruptible.get() {
            Some(interruptible) => interruptible.run(work),
            None => work(),
        }
    }

    /// Begins the limits anew within [`CallBudget::run`].
    pub(super) fn restart(&self) {
        self.begin(STEPS_MAX);
        if let Some(interruptible) = self.interruptible.get() {
            interruptible.restart();
        }
    }

    fn begin(&self, steps: u64) {
        self.left.set(steps);
        self.until.set(Some(Instant::now() + TIME_MAX));
        self.is_exceeded.set(false);
        self.has_exited.set(false);
    }

    /// The steps that the present part has left.
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// The steps that the present part may have taken without being charged, by its time: none beyond a
    /// slice, because the interpreter charges those.
    pub(super) fn uncharged_steps(&self) -> u64 {
        let Some(until) = self.until.get().filter(|_| self.is_interruptible()) else { return 0 };
        let spent = TIME_MAX.saturating_sub(until.saturating_duration_since(Instant::now()));
        spent.min(SLICE_MAX).as_nanos() as u64 / STEP_NS
    }

    /// Ends the script at its own wish: no function of it catches the error.
    pub(super) fn exit(&self) {
        self.has_exited.set(true);
    }

    /// Charges instructions that the interpreter has counted.
    ///
    /// # Errors
    /// As for [`CallBudget::charge`].
    pub(super) fn charge_counted(&self, instructions: u32) -> mlua::Result<()> {
        if let Some(interruptible) = self.interruptible.get() {
            interruptible.pause_compiling();
        }
        self.charge(u64::from(instructions))
    }

    /// Takes `steps` out of the budget. Once it is exceeded, each charge fails until the call has ended, so
    /// that a script cannot catch the error and go on.
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
    /// As for [`CallBudget::charge`].
    pub(super) fn check(&self) -> mlua::Result<()> {
        if self.is_exceeded.get() {
            return Err(CallBudget::exceeded());
        }
        if self.has_exited.get() {
            return Err(mlua::Error::runtime("the script has ended its call"));
        }
        Ok(())
    }

    /// The error of a call that has exceeded a limit.
    pub(super) fn exceeded() -> mlua::Error {
        mlua::Error::runtime(format!(
            "the script was stopped after {STEPS_MAX} instructions or {} ms",
            TIME_MAX.as_millis()
        ))
    }
}

/// The limits of the decoding of one body, which the body uses up and no script.
pub struct DecodingBudget {
    left: Cell<u64>,
    until: Instant,
}

impl DecodingBudget {
    /// The budget of a body the decoding of which begins now.
    pub fn begin() -> DecodingBudget {
        DecodingBudget { left: Cell::new(DECODED_VALUES_MAX), until: Instant::now() + DECODING_TIME_MAX }
    }

    /// For tests: a budget that none exceeds, however slow the machine is.
    #[doc(hidden)]
    pub fn unlimited() -> DecodingBudget {
        DecodingBudget { left: Cell::new(u64::MAX), until: Instant::now() + Duration::from_secs(3_600) }
    }

    /// Takes one value out of the budget.
    ///
    /// # Errors
    /// The body has exceeded a limit.
    pub fn charge(&self) -> mlua::Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(DecodingBudget::exceeded)?;
        self.left.set(left);
        self.check_time()
    }

    /// Fails once the time is over, for steps that make no value.
    ///
    /// # Errors
    /// As for [`DecodingBudget::charge`].
    pub fn check_time(&self) -> mlua::Result<()> {
        (Instant::now() < self.until).then_some(()).ok_or_else(DecodingBudget::exceeded)
    }

    fn exceeded() -> mlua::Error {
        mlua::Error::runtime(format!(
            "it has more than {DECODED_VALUES_MAX} values or takes longer than {} ms to decode",
            DECODING_TIME_MAX.as_millis()
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::compiler::CompilerUse;

    #[test]
    fn part_counts_by_its_time_up_to_a_slice() {
        for (compiler, expected) in [(CompilerUse::IfInterruptible, 500_000), (CompilerUse::Never, 0)] {
            let budget = Rc::new(CallBudget::default());
            let _base = crate::sandbox::open_base(&budget, 200, compiler).unwrap();
            let steps = budget.run(STEPS_MAX, || {
                // As long after its beginning as a part may take.
                budget.until.set(Some(Instant::now()));
                budget.uncharged_steps()
            });
            assert_eq!(steps, expected, "{compiler:?}");
        }
    }

    #[test]
    fn decoding_ends_at_each_of_its_limits() {
        let of = |left, time| DecodingBudget { left: Cell::new(left), until: Instant::now() + time };
        let budget = of(2, Duration::from_secs(3_600));
        assert!(budget.charge().is_ok() && budget.charge().is_ok() && budget.charge().is_err());
        assert!(budget.check_time().is_ok());
        let budget = of(2, Duration::ZERO);
        assert!(budget.check_time().is_err() && budget.charge().is_err());
    }
}
