//! When the plugins of one exchange ran: a record for traces and for pages that show a request. It is off
//! unless a plugin or the gateway asks for it; then each run costs two readings of the clock. Attempts and
//! phases have their times in [`Attempt`](super::Attempt) and [`ExchangeTimes`](super::ExchangeTimes).

use crate::plugin::phase_name::PluginPhase;

/// The most runs of one exchange that are kept; later ones are counted only. A request with twenty plugins
/// has about sixty.
pub const RUNS_MAX: usize = 96;
/// Records with room for more runs are freed with their request, so that an exchange that is kept for reuse
/// stays small.
const KEPT_RUNS_MAX: usize = 32;

/// One plugin in one phase. A plugin that sees a body in pieces has one run for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginRun {
    /// The plugin.
    pub plugin: &'static str,
    /// The number of its instance.
    pub instance: u32,
    /// The phase.
    pub phase: PluginPhase,
    /// When it began, in nanoseconds of the monotonic clock.
    pub started_ns: u64,
    /// When it ended last.
    pub ended_ns: u64,
    /// How long it took, waiting included: less than the time between begin and end for a body in pieces.
    pub taken_ns: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Timeline {
    is_on: bool,
    begun_ns: u64,
    runs: Vec<PluginRun>,
    dropped: u32,
}

impl Timeline {
    /// Records runs from here on.
    pub fn switch_on(&mut self) {
        self.is_on = true;
    }

    /// Records runs from here on, for a request that begins to be served at `now_ns` of the monotonic clock.
    pub fn switch_on_at(&mut self, now_ns: u64) {
        self.is_on = true;
        self.begun_ns = now_ns;
    }

    /// When the request began to be served: after its head was read. 0 if that was not recorded.
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Whether runs are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The runs that have ended, in the order of their begin; a plugin that runs inside another one is part
    /// of that run.
    pub fn runs(&self) -> &[PluginRun] {
        &self.runs
    }

    /// How many runs were not kept because there were more than [`RUNS_MAX`].
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Records a run that took from `started_ns` to `ended_ns`.
    #[cold]
    pub fn record(
        &mut self,
        plugin: &'static str,
        instance: u32,
        phase: PluginPhase,
        started_ns: u64,
        ended_ns: u64,
    ) {
        let taken_ns = ended_ns.saturating_sub(started_ns);
        // Only a body in pieces enters a plugin twice in a phase, and the attempts of a request.
        let is_repeated = |run: &&mut PluginRun| run.instance == instance && run.phase == phase;
        if matches!(phase, PluginPhase::RequestBody | PluginPhase::ResponseBody)
            && let Some(run) = self.runs.iter_mut().rev().find(is_repeated)
        {
            run.ended_ns = ended_ns;
            run.taken_ns += taken_ns;
        } else if self.runs.len() < RUNS_MAX {
            self.runs.push(PluginRun { plugin, instance, phase, started_ns, ended_ns, taken_ns });
        } else {
            self.dropped += 1;
        }
    }

    /// Forgets the runs and is off.
    pub(super) fn reset(&mut self) {
        self.is_on = false;
        self.begun_ns = 0;
        self.dropped = 0;
        if self.runs.capacity() > KEPT_RUNS_MAX {
            self.runs = Vec::new();
        } else {
            self.runs.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_body_are_one_run() {
        let mut timeline = Timeline::default();
        timeline.record("a", 1, PluginPhase::Rewrite, 10, 15);
        timeline.record("a", 1, PluginPhase::ResponseBody, 20, 22);
        timeline.record("b", 2, PluginPhase::ResponseBody, 22, 25);
        timeline.record("a", 1, PluginPhase::ResponseBody, 40, 41);
        let times: Vec<_> = timeline
            .runs()
            .iter()
            .map(|run| (run.plugin, run.started_ns, run.ended_ns, run.taken_ns))
            .collect();
        assert_eq!(times, [("a", 10, 15, 5), ("a", 20, 41, 3), ("b", 22, 25, 3)]);
    }

    #[test]
    fn record_is_bounded_and_reset_forgets_it() {
        let mut timeline = Timeline::default();
        timeline.switch_on();
        for number in 0..RUNS_MAX as u64 + 3 {
            timeline.record("a", 1, PluginPhase::Attempt, number, number + 1);
        }
        assert_eq!((timeline.runs().len(), timeline.dropped()), (RUNS_MAX, 3));
        timeline.reset();
        assert!(!timeline.is_on() && timeline.runs().is_empty() && timeline.dropped() == 0);
        assert!(timeline.runs.capacity() <= KEPT_RUNS_MAX);
    }
}
