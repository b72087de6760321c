//! Ctrl-C and TERM: noticed at once, handled where a run can be left. It ends nothing itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Whether the user wants the run to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The run was left because the user wanted it to end.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Interval at which a wait checks for an interrupt.
const PAUSE: Duration = Duration::from_millis(20);

impl Interrupt {
    /// From now on the two signals are recorded instead of ending this process.
    pub fn listen() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, interrupt.0.clone()).context("signals cannot be noticed")?;
        }
        Ok(interrupt)
    }

    /// An error, [`Interrupted`], after one of the signals.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Calls `probe` until it returns a value; `None` when the time is over.
    pub fn wait<T>(
        &self,
        limit: Duration,
        mut probe: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Option<T>> {
        let deadline = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(found) = probe()? {
                return Ok(Some(found));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_by_value_deadline_or_interrupt() {
        let interrupt = Interrupt::default();
        let mut left = 3;
        let counted = interrupt.wait(Duration::from_secs(60), || {
            left -= 1;
            Ok((left == 0).then_some("over"))
        });
        assert_eq!(counted.unwrap(), Some("over"));
        assert_eq!(interrupt.wait(Duration::ZERO, || Ok(None::<()>)).unwrap(), None);
        interrupt.0.store(true, Ordering::Relaxed);
        let error = interrupt.wait(Duration::from_secs(60), || Ok(None::<()>)).unwrap_err();
        assert!(error.is::<Interrupted>());
    }
}
