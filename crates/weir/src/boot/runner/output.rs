//! The output of a runner: its lines go into the error log, within limits, because a runner may write without
//! end.

use std::io::{PipeReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plugins::Runner;

/// The longest line that is logged, in bytes; the rest of a longer one is dropped. A stack trace has many
/// lines, not long ones.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Lines that are logged within a second. Further ones are counted.
const LINES_PER_SECOND_MAX: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);

/// Logs the lines of `output` until its last writer has closed it, on a thread of its own.
pub(super) fn log_runner_output(output: PipeReader, process: u32, runner: Arc<Runner>) {
    let run = move || copy(output, &mut RunnerLogLimiter::new(process, runner));
    // Without a thread the pipe is closed, and the runner gets EPIPE when it writes.
    if let Err(error) = std::thread::Builder::new().name("runner-log".to_owned()).spawn(run) {
        tracing::error!(%error, "the output of the plugin runner is not logged");
    }
}

fn copy(mut output: impl Read, budget: &mut impl TakeLine) {
    let (mut room, mut line, mut is_cut) = ([0; 4096], Vec::new(), false);
    loop {
        let count = match output.read(&mut room) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in &room[..count] {
            match byte {
                b'\n' => {
                    budget.take(&line, is_cut);
                    line.clear();
                    is_cut = false;
                }
                _ if line.len() >= LINE_BYTES_MAX => is_cut = true,
                byte => line.push(*byte),
            }
        }
    }
    if !line.is_empty() {
        budget.take(&line, is_cut);
    }
}

/// Takes the lines one after the other.
trait TakeLine {
    fn take(&mut self, line: &[u8], is_cut: bool);
}

/// Logs lines, as many as are allowed.
struct RunnerLogLimiter {
    process: u32,
    runner: Arc<Runner>,
    since: Instant,
    lines: u32,
}

impl RunnerLogLimiter {
    fn new(process: u32, runner: Arc<Runner>) -> RunnerLogLimiter {
        RunnerLogLimiter { process, runner, since: Instant::now(), lines: 0 }
    }
}

impl TakeLine for RunnerLogLimiter {
    fn take(&mut self, line: &[u8], is_cut: bool) {
        if self.since.elapsed() >= SECOND {
            (self.since, self.lines) = (Instant::now(), 0);
        }
        self.lines = self.lines.saturating_add(1);
        if self.lines > LINES_PER_SECOND_MAX {
            return self.runner.update(|status| status.dropped_lines += 1);
        }
        let end = if is_cut { "…" } else { "" };
        let process = self.process;
        tracing::info!(target: "plugin_runner", process, "{}{end}", printable(line));
    }
}

/// A line without control characters, which could change the look of a terminal or add lines to the log.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let plain = text.trim_end_matches('\r').chars();
    plain.map(|letter| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lines(Vec<(String, bool)>);

    impl TakeLine for Lines {
        fn take(&mut self, line: &[u8], is_cut: bool) {
            self.0.push((printable(line), is_cut));
        }
    }

    #[test]
    fn lines_are_bounded_and_printable() {
        let mut lines = Lines(Vec::new());
        let mut text = b"one\r\n\x1b[31mtwo\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', LINE_BYTES_MAX + 5));
        text.extend_from_slice(b"\nlast");
        copy(&text[..], &mut lines);
        let long = "x".repeat(LINE_BYTES_MAX);
        let line = |text: &str, is_cut| (text.to_owned(), is_cut);
        assert_eq!(
            lines.0,
            [line("one", false), line("\u{fffd}[31mtwo", false), line(&long, true), line("last", false)]
        );
    }

    #[test]
    fn lines_beyond_the_budget_are_counted() {
        let runner = Arc::new(Runner::default());
        let mut budget = RunnerLogLimiter::new(1, runner.clone());
        for _ in 0..LINES_PER_SECOND_MAX + 3 {
            budget.take(b"line", false);
        }
        assert!(runner.status().dropped_lines >= 3);
    }
}
