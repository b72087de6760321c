//! Progress of a run: a bar with the remaining time on a terminal, a line for each step otherwise. It stores
//! no results.

use std::fmt::Display;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::{print_error, print_line, progress_is_seen};

/// Counts estimated seconds.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

/// So the bar moves while a long run says nothing.
const TICK: Duration = Duration::from_millis(250);
/// The bar counts in thousandths of a second.
const STEPS: f64 = 1000.0;

impl Progress {
    /// A progress display for this many seconds in all.
    pub(super) fn new(seconds: f64) -> Self {
        let bar = progress_is_seen().then(|| {
            let bar = ProgressBar::new((seconds * STEPS) as u64);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {eta} left  {wide_msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar }
    }

    /// Shows the present step; printed as a line if there is no bar and `worth_a_line`.
    pub(super) fn say(&self, what: impl Display, worth_a_line: bool) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_string()),
            None if worth_a_line => print_error(what),
            None => {}
        }
    }

    /// Advances by this many of the estimated seconds.
    pub(super) fn advance(&self, seconds: f64) {
        if let Some(bar) = &self.bar {
            bar.inc((seconds * STEPS) as u64);
        }
    }

    /// Prints to standard output without disturbing the bar.
    pub(super) fn print(&self, text: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print_line(text)),
            None => print_line(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
