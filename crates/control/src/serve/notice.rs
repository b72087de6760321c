//! A log line that a peer can cause at any rate, and that is written at most once per interval. It does not
//! know the text of the line.

use std::time::{Duration, Instant};

/// The time of the last line, and the count of lines that were left out since.
#[derive(Debug, Default)]
pub(super) struct Notice {
    written: Option<Instant>,
    left_out: u64,
}

impl Notice {
    /// The count of lines that were left out since the last one, if a line is due; otherwise counts this one
    /// as left out.
    pub(super) fn due(&mut self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&mut self, now: Instant) -> Option<u64> {
        if self.written.is_some_and(|written| now.saturating_duration_since(written) < NOTICE_INTERVAL) {
            self.left_out += 1;
            return None;
        }
        self.written = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Time between two lines: short enough to see that the cause goes on, long enough for any log.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_make_one_line() {
        let (mut notice, start) = (Notice::default(), Instant::now());
        let mut due = |second| notice.due_at(start + Duration::from_secs(second));
        assert_eq!(
            [due(0), due(1), due(9), due(10), due(11), due(30)],
            [Some(0), None, None, Some(2), None, Some(1)]
        );
    }
}
