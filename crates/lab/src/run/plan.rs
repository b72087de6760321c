//! The plan of a run: which contenders take part in which scenario, in which order, how often and how long.
//! It starts nothing.

use std::collections::BTreeMap;

use super::stage::Setup;
use crate::contender::Definition;
use crate::result::ContenderResult;
use crate::scenario::Scenario;

/// The choices of the command line for all scenarios.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Rounds of every scenario, whatever its file says.
    pub rounds: Option<u32>,
    /// Seconds of every run, whatever the scenario's file says.
    pub seconds: Option<f64>,
    /// The baseline, whatever the scenario's file says.
    pub baseline: Option<String>,
    /// Whether contenders were named; then contenders that are not usual take part too.
    pub named: bool,
    /// Whether the run is a short one of a few minutes.
    pub quick: bool,
    /// Whether scenarios with a number of requests send all of them, however long that takes.
    pub full_counts: bool,
    /// Length of the contenders' turns in milliseconds, in scenarios that allow them.
    pub turn_ms: Option<u64>,
}

/// One scenario of a run.
#[derive(Clone, Debug)]
pub(super) struct PlannedScenario {
    /// The scenario, with the rounds and seconds of this run.
    pub scenario: Scenario,
    /// The contenders that take part, in the order of the first round.
    pub contenders: Vec<Definition>,
    /// The contenders that do not take part, and why.
    pub absent: Vec<ContenderResult>,
    /// Number of rounds.
    pub rounds: u32,
    /// Length of one run.
    pub seconds: f64,
    /// Length of a turn in milliseconds, if turns are taken.
    pub turn_ms: Option<u64>,
}

/// Rounds if neither the command line nor the file says so.
const ROUNDS: u32 = 5;
/// Rounds of `--quick`: enough for a verdict.
const QUICK_ROUNDS: u32 = 5;
/// Seconds of a run if neither the command line nor the file says so.
const SECONDS: f64 = 1.5;
/// Longest time of a run that has to send all of its requests.
const LONGEST_COUNT_SECONDS: f64 = 600.0;
/// Rate for the estimate of scenarios with a number of requests.
const ESTIMATED_PER_SECOND: f64 = 8000.0;
/// Length of a warm-up if a contender asks for nothing else, and of repeated warm-ups in later scenarios.
const WARM_UP_SECONDS: f64 = 1.0;
/// Time of a run besides its load: starting it, reading counters.
const RUN_OVERHEAD_SECONDS: f64 = 0.25;
/// Time to start a contender; virtual machines take longer.
const START_SECONDS: f64 = 1.0;

impl PlannedScenario {
    /// Selects the contenders of `all` for a scenario. `also` are further builds of Weir, which take part
    /// where it does.
    pub(super) fn new(scenario: &Scenario, all: &[Definition], also: &[String], wishes: &Wishes) -> Self {
        let mut scenario = scenario.clone();
        let rounds = wishes.rounds.or(if wishes.quick { Some(QUICK_ROUNDS) } else { scenario.rounds });
        let mut seconds = wishes.seconds.or(scenario.seconds).unwrap_or(SECONDS);
        if scenario.load.requests.is_some() && wishes.full_counts {
            seconds = LONGEST_COUNT_SECONDS;
        }
        let rounds = rounds.unwrap_or(ROUNDS);
        (scenario.rounds, scenario.seconds) = (Some(rounds), Some(seconds));
        let (mut contenders, mut absent) = (Vec::new(), Vec::new());
        for definition in all.iter().filter(|one| is_meant(&scenario, one, also, wishes)) {
            match inability(&scenario, definition) {
                None => contenders.push(definition.clone()),
                Some(reason) => absent.push(ContenderResult {
                    name: definition.name.clone(),
                    absent: Some(reason),
                    warm_up: None,
                    runs: Vec::new(),
                }),
            }
        }
        let turn_ms = wishes.turn_ms.filter(|_| scenario.can_take_turns());
        Self { scenario, contenders, absent, rounds, seconds, turn_ms }
    }

    /// Length of a contender's warm-up.
    pub(super) fn warm_up_seconds(&self, definition: &Definition, is_warm: bool) -> f64 {
        match definition.warm_up_seconds {
            Some(seconds) if !is_warm => seconds,
            // Code that a virtual machine has compiled for one load serves the next one in part.
            Some(seconds) => (seconds / 4.0).max(WARM_UP_SECONDS),
            None => WARM_UP_SECONDS,
        }
    }

    /// Whether a contender is restarted for every round.
    pub(super) fn starts_anew(&self, definition: &Definition) -> bool {
        self.turn_ms.is_some() && definition.warm_up_seconds.is_none()
    }

    /// Approximate time of one run.
    pub(super) fn run_seconds(&self) -> f64 {
        let counted = self.scenario.load.requests.map(|requests| requests as f64 / ESTIMATED_PER_SECOND);
        counted.map_or(self.seconds, |seconds| seconds.min(self.seconds)) + RUN_OVERHEAD_SECONDS
    }

    /// Approximate time of the step, with the start of contenders that do not run yet.
    pub(super) fn estimated_seconds(&self, before: Option<Setup>) -> f64 {
        let starts = before != Some(Setup::of(&self.scenario));
        let each = |definition: &Definition| {
            let start =
                if starts { START_SECONDS + definition.warm_up_seconds.unwrap_or(0.0) / 4.0 } else { 0.0 };
            let runs = if self.scenario.together { 0.0 } else { f64::from(self.rounds) * self.run_seconds() };
            let anew = if self.starts_anew(definition) {
                let each = START_SECONDS + WARM_UP_SECONDS + RUN_OVERHEAD_SECONDS;
                f64::from(self.rounds.saturating_sub(1)) * each
            } else {
                0.0
            };
            start + self.warm_up_seconds(definition, !starts) + RUN_OVERHEAD_SECONDS + runs + anew
        };
        let together = if self.scenario.together { f64::from(self.rounds) * self.run_seconds() } else { 0.0 };
        self.contenders.iter().map(each).sum::<f64>() + together
    }

    /// The order of a round: each begins with another contender, and every other round is reversed, so that
    /// no contender always follows the same one.
    pub(super) fn order(&self, round: u32) -> Vec<usize> {
        let count = self.contenders.len().max(1);
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        order.rotate_left(round as usize % count);
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// A note for the user if turns were requested.
    pub(super) fn note_turns(&self, wishes: &Wishes) -> Option<String> {
        let asked_ms = wishes.turn_ms?;
        Some(match self.turn_ms {
            Some(turn_ms) => {
                format!("Contenders took turns of {turn_ms} ms: only CPU is told, not what a clock measures.")
            }
            None => format!(
                "No turns of {asked_ms} ms were taken: something here depends on the clock, or goes on beside the load."
            ),
        })
    }

    /// The contender that the others are compared with, if it takes part.
    pub(super) fn baseline(&self, wishes: &Wishes) -> Option<String> {
        let name =
            wishes.baseline.as_ref().or(self.scenario.baseline.as_ref()).map_or("nginx", String::as_str);
        self.contenders.iter().any(|one| one.name == name).then(|| name.to_owned())
    }
}

/// Sorts scenarios with the same setup together, the plain ones first.
pub(super) fn sort_by_setup(steps: &mut [PlannedScenario]) {
    steps.sort_by_key(|step| (Setup::of(&step.scenario), step.scenario.together));
}

/// Approximate time in this order, in seconds.
pub(super) fn estimated_seconds(steps: &[PlannedScenario]) -> f64 {
    let mut before = None;
    let mut sum = 0.0;
    for step in steps {
        sum += step.estimated_seconds(before);
        before = Some(Setup::of(&step.scenario));
    }
    sum
}

fn is_meant(scenario: &Scenario, definition: &Definition, also: &[String], wishes: &Wishes) -> bool {
    match &scenario.contenders {
        Some(names) => {
            let name = if also.contains(&definition.name) { "weir" } else { definition.name.as_str() };
            names.iter().any(|named| named == name)
        }
        None => definition.usual || wishes.named,
    }
}

/// Paths of the route that removes its prefix.
const PREFIX: &str = "/sodik/";

/// Why a contender cannot take part in a scenario.
fn inability(scenario: &Scenario, definition: &Definition) -> Option<String> {
    if !definition.protocols.contains(&scenario.protocol) {
        return Some(format!("it does not speak {}", scenario.protocol.name()));
    }
    if scenario.routes > 0 && !definition.routes {
        return Some("it cannot be given further routes".to_owned());
    }
    if scenario.load.path.starts_with(PREFIX) && !definition.strips_prefix {
        return Some("it does not take a prefix off".to_owned());
    }
    if scenario.changes_per_second > 0.0 && !definition.changes {
        return Some("its configuration cannot be changed while it runs".to_owned());
    }
    None
}

/// Which binary of Weir a contender runs, by the contender's name.
pub type Binaries = BTreeMap<String, std::path::PathBuf>;

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(name: &str, more: &str) -> Definition {
        let text = format!("title: {name}\nabout: a\nlanguage: C\nversion: '1'\n{more}");
        Definition::parse(name, &text).unwrap()
    }

    fn scenario(more: &str) -> Scenario {
        Scenario::parse("s", &format!("title: a\nabout: b\nload: {{tool: wrk, connections: 3}}\n{more}"))
            .unwrap()
    }

    fn names(step: &PlannedScenario) -> Vec<&str> {
        step.contenders.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn contenders_that_cannot_take_part_are_absent() {
        let all = [
            contender("nginx", "protocols: [http, https]\nroutes: true\nchanges: true\n"),
            contender("netty", ""),
            contender("variant", "usual: false\n"),
            contender("weir", "changes: true\n"),
            contender("old", "changes: true\n"),
        ];
        let also = ["old".to_owned()];
        let step = |more: &str, wishes: &Wishes| PlannedScenario::new(&scenario(more), &all, &also, wishes);
        let wishes = Wishes::default();
        assert_eq!(names(&step("", &wishes)), ["nginx", "netty", "weir", "old"]);
        assert_eq!(names(&step("", &Wishes { named: true, ..Wishes::default() })).len(), 5);
        assert_eq!(names(&step("contenders: [weir, variant]\n", &wishes)), ["variant", "weir", "old"]);
        let tls = step("protocol: https\n", &wishes);
        assert_eq!(names(&tls), ["nginx"]);
        assert_eq!(tls.absent[0].name, "netty");
        assert_eq!(tls.absent[0].absent.as_deref(), Some("it does not speak https"));
        let routes = step("routes: 10\n", &wishes);
        assert_eq!(routes.absent[0].absent.as_deref(), Some("it cannot be given further routes"));
        assert_eq!(names(&step("changes_per_second: 1\n", &wishes)), ["nginx", "weir", "old"]);
        assert_eq!(tls.baseline(&wishes).as_deref(), Some("nginx"));
        assert_eq!(step("contenders: [weir]\n", &wishes).baseline(&wishes), None);
        assert_eq!(step("baseline: netty\n", &wishes).baseline(&wishes).as_deref(), Some("netty"));
    }

    #[test]
    fn rounds_differ_in_order_and_hold_each_once() {
        let all = [contender("a", ""), contender("b", ""), contender("c", "")];
        let step = PlannedScenario::new(&scenario(""), &all, &[], &Wishes::default());
        assert_eq!(step.order(0), [0, 1, 2]);
        assert_eq!(step.order(1), [0, 2, 1]);
        assert_eq!(step.order(2), [2, 0, 1]);
        for round in 0..20 {
            let mut order = step.order(round);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        let file = scenario("rounds: 7\nseconds: 9\n");
        let step = |wishes: &Wishes| {
            let step = PlannedScenario::new(&file, &[], &[], wishes);
            (step.rounds, step.seconds)
        };
        assert_eq!(step(&Wishes::default()), (7, 9.0));
        assert_eq!(step(&Wishes { rounds: Some(2), seconds: Some(1.0), ..Wishes::default() }), (2, 1.0));
        assert_eq!(step(&Wishes { quick: true, ..Wishes::default() }).0, QUICK_ROUNDS);
        let mut counted = scenario("seconds: 3\n");
        counted.load.requests = Some(100_000);
        let step =
            PlannedScenario::new(&counted, &[], &[], &Wishes { full_counts: true, ..Wishes::default() });
        assert!((step.seconds - LONGEST_COUNT_SECONDS).abs() < 1e-9);
        assert!((step.run_seconds() - 12.75).abs() < 1e-9, "{}", step.run_seconds());
    }

    #[test]
    fn turns_are_taken_unless_clock_matters() {
        let wishes = Wishes { turn_ms: Some(20), ..Wishes::default() };
        let paced = "load: {tool: weir, connections: 3, rate: 5}\n";
        for (more, turns) in [
            ("", true),
            ("workers: 2\n", true),
            ("together: true\n", false),
            ("idle_connections: 1\n", false),
            ("slow_clients: 1\n", false),
            ("changes_per_second: 0.5\n", false),
            (paced, false),
        ] {
            let scenario = match more == paced {
                true => Scenario::parse("s", &format!("title: a\nabout: b\n{more}")).unwrap(),
                false => scenario(more),
            };
            let step = PlannedScenario::new(&scenario, &[], &[], &wishes);
            assert_eq!(step.turn_ms, turns.then_some(20), "{more}");
            let note = step.note_turns(&wishes).unwrap();
            assert_eq!(note.contains("took turns of 20 ms"), turns, "{note}");
            assert_eq!(
                PlannedScenario::new(&scenario, &[], &[], &Wishes::default()).note_turns(&Wishes::default()),
                None
            );
        }
    }

    #[test]
    fn shared_start_is_counted_once() {
        let all = [contender("a", ""), contender("b", "warm_up_seconds: 8\n")];
        let step = |more: &str| PlannedScenario::new(&scenario(more), &all, &[], &Wishes::default());
        let mut steps = [step("workers: 2\n"), step("together: true\n"), step("")];
        sort_by_setup(&mut steps);
        assert_eq!(
            steps.each_ref().map(|step| (step.scenario.workers, step.scenario.together)),
            [(1, false), (1, true), (2, false)]
        );
        let (alone, twice) =
            (estimated_seconds(&steps[..1]), estimated_seconds(&[steps[0].clone(), steps[0].clone()]));
        assert!(twice < 2.0 * alone && twice > alone, "{alone} {twice}");
    }
}
