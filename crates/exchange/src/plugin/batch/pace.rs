//! When a batch is due: a pure rule over counts and times.

use super::QueueSettings;

/// The next step for the entries that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushTime {
    /// Send them.
    Now,
    /// Not before this time, in milliseconds, unless more come.
    At(u64),
}

/// When `waiting` entries are due of which the oldest came at `first_ms` and the youngest at `last_ms`. At
/// the end of the process, or of the queue, nothing is held back.
pub(super) fn due(
    settings: &QueueSettings,
    waiting: usize,
    first_ms: u64,
    last_ms: u64,
    now_ms: u64,
    is_ending: bool,
) -> FlushTime {
    let too_old_ms = first_ms.saturating_add(settings.buffer_duration_ms);
    let inactive_ms = last_ms.saturating_add(settings.inactive_timeout_ms);
    let due_ms = too_old_ms.min(inactive_ms);
    if is_ending || waiting >= settings.batch_max_entries || due_ms <= now_ms {
        FlushTime::Now
    } else {
        FlushTime::At(due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::batch::tests::settings;

    #[test]
    fn enough_old_enough_or_left_alone() {
        let settings = QueueSettings {
            batch_max_entries: 3,
            buffer_duration_ms: 1_000,
            inactive_timeout_ms: 300,
            ..settings()
        };
        let check = |waiting, first_ms, last_ms, now_ms, is_ending, expected| {
            assert_eq!(
                due(&settings, waiting, first_ms, last_ms, now_ms, is_ending),
                expected,
                "{waiting} {first_ms} {last_ms} {now_ms} {is_ending}"
            );
        };
        check(1, 100, 100, 100, false, FlushTime::At(400));
        check(2, 100, 250, 399, false, FlushTime::At(550));
        check(2, 100, 250, 550, false, FlushTime::Now);
        check(2, 100, 900, 1_000, false, FlushTime::At(1_100));
        check(2, 100, 1_090, 1_100, false, FlushTime::Now);
        check(3, 100, 100, 100, false, FlushTime::Now);
        check(5, 100, 100, 100, false, FlushTime::Now);
        check(1, 100, 100, 100, true, FlushTime::Now);
        // An entry that came while the task looked is younger than now.
        check(1, 100, 120, 110, false, FlushTime::At(420));
    }
}
