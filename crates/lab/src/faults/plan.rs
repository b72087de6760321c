//! The faults, and the times at which endpoints begin to fail and recover. It reads no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::endpoint::EndpointCondition;

/// A fault that endpoints can have.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointFault {
    /// One of three endpoints dies: its port is closed and its connections are reset
    Dies,
    /// One of three endpoints takes requests and answers none
    Hangs,
    /// One of three endpoints answers everything with 500
    Fails,
    /// One of three endpoints takes ten times as long
    Slow,
    /// Ten endpoints are restarted in order, one after another
    Restart,
}

impl EndpointFault {
    /// All faults, in the order in which they are measured.
    pub const ALL: [EndpointFault; 5] = [
        EndpointFault::Dies,
        EndpointFault::Hangs,
        EndpointFault::Fails,
        EndpointFault::Slow,
        EndpointFault::Restart,
    ];

    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EndpointFault::Dies => "dies",
            EndpointFault::Hangs => "hangs",
            EndpointFault::Fails => "fails",
            EndpointFault::Slow => "slow",
            EndpointFault::Restart => "restart",
        }
    }

    /// For headings.
    pub fn title(self) -> &'static str {
        match self {
            EndpointFault::Dies => "One of three endpoints dies: port closed, connections reset",
            EndpointFault::Hangs => "One of three endpoints hangs: it takes requests and answers none",
            EndpointFault::Fails => "One of three endpoints answers 500",
            EndpointFault::Slow => "One of three endpoints is ten times slower",
            EndpointFault::Restart => "Ten endpoints are restarted, one after another",
        }
    }

    /// The number of endpoints behind the gateway.
    pub fn endpoints(self) -> u8 {
        if self == EndpointFault::Restart { 10 } else { 3 }
    }

    fn condition(self) -> EndpointCondition {
        match self {
            EndpointFault::Dies => EndpointCondition::Dead,
            EndpointFault::Hangs => EndpointCondition::Hung,
            EndpointFault::Fails => EndpointCondition::Failing,
            EndpointFault::Slow => EndpointCondition::Slow,
            EndpointFault::Restart => EndpointCondition::Stopped,
        }
    }
}

/// The phases of a run, in their order: undisturbed, with the fault, and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phases {
    pub(super) undisturbed: Duration,
    pub(super) fault: Duration,
    pub(super) back: Duration,
}

/// A change of an endpoint's condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Switch {
    /// Since the beginning of the run.
    pub(super) at: Duration,
    pub(super) endpoint: usize,
    pub(super) condition: EndpointCondition,
}

impl Phases {
    /// The phases of a run with a fault of so many seconds.
    pub(super) fn of(fault_seconds: f64) -> Phases {
        let bounded = |part: f64, least: f64, most: f64| {
            Duration::from_secs_f64((fault_seconds * part).clamp(least, most))
        };
        Phases {
            undisturbed: bounded(1.0 / 6.0, LEAST_UNDISTURBED_S, MOST_UNDISTURBED_S),
            fault: Duration::from_secs_f64(fault_seconds),
            back: bounded(0.5, LEAST_BACK_S, MOST_BACK_S),
        }
    }

    /// When each phase ends, since the beginning of the run.
    pub(super) fn ends(&self) -> [Duration; 3] {
        let fault = self.undisturbed + self.fault;
        [self.undisturbed, fault, fault + self.back]
    }

    /// The length of the run.
    pub(super) fn all(&self) -> Duration {
        self.undisturbed + self.fault + self.back
    }

    /// The changes of conditions, by their time. A fault of one endpoint lasts for the whole phase. With
    /// restarts, the phase is divided among the endpoints; each is away for half of its turn.
    pub(super) fn switches(&self, fault: EndpointFault) -> Vec<Switch> {
        let turns = if fault == EndpointFault::Restart { u32::from(fault.endpoints()) } else { 1 };
        let turn = self.fault / turns;
        let away = if fault == EndpointFault::Restart { turn / 2 } else { turn };
        let switches = |number: u32| {
            let at = self.undisturbed + turn * number;
            let switch = |at, condition| Switch { at, endpoint: number as usize, condition };
            [switch(at, fault.condition()), switch(at + away, EndpointCondition::Healthy)]
        };
        (0..turns).flat_map(switches).collect()
    }
}

/// Shortest and longest undisturbed phase, in seconds: enough requests for a percentile, and for gateways to
/// open their connections.
const LEAST_UNDISTURBED_S: f64 = 1.0;
const MOST_UNDISTURBED_S: f64 = 5.0;
/// Shortest and longest phase after the fault, in seconds: health checks find an endpoint again after two or
/// three of them, at one a second.
const LEAST_BACK_S: f64 = 4.0;
const MOST_BACK_S: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn phases_follow_each_other() {
        for (seconds, ends) in [
            (30.0, [ms(5000), ms(35_000), ms(50_000)]),
            (12.0, [ms(2000), ms(14_000), ms(20_000)]),
            (5.0, [ms(1000), ms(6000), ms(10_000)]),
            (600.0, [ms(5000), ms(605_000), ms(620_000)]),
        ] {
            let phases = Phases::of(seconds);
            assert_eq!((phases.ends(), phases.all()), (ends, ends[2]), "{seconds}");
        }
    }

    #[test]
    fn one_endpoint_is_ill_for_the_whole_phase() {
        let phases = Phases { undisturbed: ms(1000), fault: ms(5000), back: ms(5000) };
        let switch = |at, condition| Switch { at, endpoint: 0, condition };
        for (fault, condition) in [
            (EndpointFault::Dies, EndpointCondition::Dead),
            (EndpointFault::Hangs, EndpointCondition::Hung),
            (EndpointFault::Fails, EndpointCondition::Failing),
            (EndpointFault::Slow, EndpointCondition::Slow),
        ] {
            let wanted = [switch(ms(1000), condition), switch(ms(6000), EndpointCondition::Healthy)];
            assert_eq!(phases.switches(fault), wanted, "{fault:?}");
        }
    }

    #[test]
    fn restarts_leave_one_endpoint_away_at_a_time() {
        let phases = Phases { undisturbed: ms(1000), fault: ms(5000), back: ms(5000) };
        let switches = phases.switches(EndpointFault::Restart);
        assert_eq!(switches.len(), 20);
        assert!(switches.windows(2).all(|pair| pair[0].at < pair[1].at), "by time: {switches:?}");
        for (number, pair) in switches.chunks(2).enumerate() {
            let at = ms(1000 + 500 * number as u64);
            assert_eq!(pair[0], Switch { at, endpoint: number, condition: EndpointCondition::Stopped });
            let condition = EndpointCondition::Healthy;
            assert_eq!(pair[1], Switch { at: at + ms(250), endpoint: number, condition });
        }
        assert!(switches[19].at < phases.ends()[1]);
    }
}
