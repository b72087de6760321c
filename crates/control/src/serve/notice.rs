//! A line of the log that a peer can cause as often as it likes, and that is written seldom. It refuses to know what the
//! line says.

use std::time::{Duration, Instant};

/// When the line was written last, and how often it was left out since.
#[derive(Debug, Default)]
pub(super) struct Notice {
    written: Option<Instant>,
    left_out: u64,
}

impl Notice {
    /// How many lines were left out since the last one, if a line is due; else counts this one as left out.
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

/// Often enough to see that it goes on, seldom enough for any log.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stands_for_many() {
        let (mut notice, start) = (Notice::default(), Instant::now());
        let mut due = |second| notice.due_at(start + Duration::from_secs(second));
        assert_eq!(
            [due(0), due(1), due(9), due(10), due(11), due(30)],
            [Some(0), None, None, Some(2), None, Some(1)]
        );
    }
}
