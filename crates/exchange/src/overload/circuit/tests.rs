//! Tables of results and times, and what the circuit makes of them.

use super::*;
use CircuitEvidence::{Failure, Success, Unknown};

fn rules() -> CircuitRules {
    CircuitRules {
        consecutive_failures: 3,
        failure_rate: None,
        half_open_requests: 1,
        base_open_ms: 1_000,
        max_open_ms: 4_000,
    }
}

fn rate(percent: u32, min_requests: u32) -> CircuitRules {
    let failure_rate = Some(FailureRate { percent, min_requests, window_ms: 1_000 });
    CircuitRules { consecutive_failures: 0, failure_rate, ..rules() }
}

/// The first reason to open among results, each at its time.
fn first_reason(rules: &CircuitRules, results: &[(u64, CircuitEvidence)]) -> Option<CircuitOpenReason> {
    let circuit = Circuit::default();
    results.iter().find_map(|(now_ms, verdict)| match circuit.note(rules, *now_ms, *verdict, None) {
        Some(CircuitEvent::MayOpen(reason)) => Some(reason),
        _ => None,
    })
}

/// A circuit that was opened at 0 without jitter.
fn opened(rules: &CircuitRules) -> Circuit {
    let circuit = Circuit::default();
    circuit.open(rules, 0, 0, CircuitOpenReason::ConsecutiveFailures(3)).unwrap();
    circuit
}

fn probe(circuit: &Circuit, rules: &CircuitRules, now_ms: u64) -> CircuitProbe {
    match circuit.admit(rules, now_ms) {
        Admission::Probe(probe) => probe,
        other => panic!("{other:?} at {now_ms}"),
    }
}

#[test]
fn failures_in_a_row_open_it() {
    type Case = (&'static [(u64, CircuitEvidence)], bool);
    let cases: [Case; 4] = [
        (&[(0, Failure), (1, Failure), (2, Failure)], true),
        (&[(0, Failure), (1, Failure), (2, Success), (3, Failure)], false),
        (&[(0, Failure), (1, Failure), (2, Unknown), (3, Failure)], true),
        (&[(0, Failure), (1, Unknown), (2, Unknown), (3, Unknown)], false),
    ];
    for (results, opens) in cases {
        let want = opens.then_some(CircuitOpenReason::ConsecutiveFailures(3));
        assert_eq!(first_reason(&rules(), results), want, "{results:?}");
    }
}

#[test]
fn share_of_failures_in_the_window_opens_it() {
    let many = |count: u64, verdict, from_ms: u64| (0..count).map(move |n| (from_ms + n, verdict));
    let results: Vec<_> = many(5, Success, 0).chain(many(5, Failure, 10)).collect();
    let reason = |percent, requests| Some(CircuitOpenReason::FailureRate { percent, requests });
    assert_eq!(first_reason(&rate(50, 10), &results), reason(50, 10));
    assert_eq!(first_reason(&rate(51, 10), &results), None);
    assert_eq!(first_reason(&rate(50, 11), &results), None, "too few requests");
    assert_eq!(first_reason(&rate(1, 6), &results), reason(16, 6));
    // The successes have left the window when the failures come.
    let late: Vec<_> = many(50, Success, 0).chain(many(5, Failure, 2_000)).collect();
    assert_eq!(first_reason(&rate(100, 5), &late), reason(100, 5));
}

#[test]
fn open_circuit_refuses_until_its_time_is_over() {
    let (rules, circuit) = (rules(), opened(&rules()));
    assert_eq!((circuit.phase(), circuit.next_probe_ms()), (CircuitPhase::Open, Some(1_000)));
    assert_eq!(circuit.admit(&rules, 999), Admission::Refused);
    assert!(circuit.refuses(999) && !circuit.is_due(999) && !circuit.begin_half_open(999));
    assert!(circuit.is_due(1_000) && circuit.begin_half_open(1_000) && !circuit.begin_half_open(1_000));
    let probe = probe(&circuit, &rules, 1_000);
    assert_eq!(circuit.admit(&rules, 1_001), Admission::Refused, "one probe only");
    assert_eq!(circuit.note(&rules, 1_010, Success, Some(probe)), Some(CircuitEvent::Closed));
    assert_eq!((circuit.admit(&rules, 1_011), circuit.phase()), (Admission::Closed, CircuitPhase::Closed));
    assert_eq!(circuit.note(&rules, 1_012, Failure, None), None, "earlier failures are forgotten");
}

#[test]
fn failed_probe_opens_it_for_longer() {
    let (rules, circuit) = (rules(), opened(&rules()));
    let mut now_ms = 0;
    // The first opening lasts a second; then it doubles up to the longest.
    for (in_a_row, for_ms) in [(2, 2_000), (3, 4_000), (4, 4_000)] {
        now_ms = circuit.next_probe_ms().unwrap();
        let probe = probe(&circuit, &rules, now_ms);
        let event = circuit.note(&rules, now_ms, Failure, Some(probe));
        assert_eq!(event, Some(CircuitEvent::MayOpen(CircuitOpenReason::ProbeFailed)));
        let opening = circuit.open(&rules, now_ms, 0, CircuitOpenReason::ProbeFailed);
        assert_eq!(opening, Some(CircuitOpening { for_ms, in_a_row }));
    }
    assert_eq!(circuit.openings(), 4);
    assert_eq!(circuit.admit(&rules, now_ms + 3_999), Admission::Refused);
}

#[test]
fn time_doubles_only_after_an_early_relapse() {
    // closed for so long after an opening of 1 s → duration of the next
    for (closed_ms, for_ms) in [(0, 2_000), (999, 2_000), (1_000, 1_000), (60_000, 1_000)] {
        let (rules, circuit) = (rules(), opened(&rules()));
        let probe = probe(&circuit, &rules, 1_000);
        circuit.note(&rules, 1_000, Success, Some(probe));
        let opening =
            circuit.open(&rules, 1_000 + closed_ms, 0, CircuitOpenReason::ConsecutiveFailures(3)).unwrap();
        assert_eq!(opening.for_ms, for_ms, "{closed_ms}");
    }
}

#[test]
fn jitter_takes_a_tenth_at_most() {
    for (random, for_ms) in
        [(0, 1_000), (1, 999), (100, 900), (101, 1_000), (u64::MAX, 1_000 - u64::MAX % 101)]
    {
        let opening = Circuit::default().open(&rules(), 0, random, CircuitOpenReason::ConsecutiveFailures(3));
        assert_eq!(opening.map(|opening| opening.for_ms), Some(for_ms), "{random}");
    }
}

#[test]
fn all_probes_have_to_succeed() {
    let rules = CircuitRules { half_open_requests: 2, ..rules() };
    let circuit = opened(&rules);
    let (first, second) = (probe(&circuit, &rules, 1_000), probe(&circuit, &rules, 1_000));
    assert_eq!(circuit.admit(&rules, 1_000), Admission::Refused);
    assert_eq!(circuit.note(&rules, 1_001, Success, Some(first)), None);
    assert_eq!(circuit.note(&rules, 1_002, Success, Some(second)), Some(CircuitEvent::Closed));
}

#[test]
fn probe_without_verdict_is_given_out_again() {
    let (rules, circuit) = (rules(), opened(&rules()));
    let first = probe(&circuit, &rules, 1_000);
    assert_eq!(circuit.note(&rules, 1_005, Unknown, Some(first)), None);
    let second = probe(&circuit, &rules, 1_005);
    assert_eq!(circuit.note(&rules, 1_006, Success, Some(second)), Some(CircuitEvent::Closed));
}

#[test]
fn probe_that_never_ends_is_replaced() {
    let (rules, circuit) = (rules(), opened(&rules()));
    let stuck = probe(&circuit, &rules, 1_000);
    assert_eq!(circuit.admit(&rules, 1_999), Admission::Refused);
    let next = probe(&circuit, &rules, 2_000);
    assert_eq!(circuit.note(&rules, 2_001, Success, Some(next)), Some(CircuitEvent::Closed));
    assert_eq!(circuit.note(&rules, 2_002, Failure, Some(stuck)), None, "its opening is over");
}

#[test]
fn results_from_before_the_opening_do_not_count() {
    let (rules, circuit) = (rules(), opened(&rules()));
    for now_ms in 0..10 {
        assert_eq!(circuit.note(&rules, now_ms, Failure, None), None);
    }
    let open_again = circuit.open(&rules, 5, 0, CircuitOpenReason::ConsecutiveFailures(3));
    assert_eq!(open_again, None, "another worker was first");
    circuit.reset();
    assert_eq!(circuit.admit(&rules, 6), Admission::Closed);
}
