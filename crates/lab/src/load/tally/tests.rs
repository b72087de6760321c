//! Tests of the counters.

use super::*;

const MS: u64 = 1_000_000;

fn run(seconds: u64) -> RunFacts {
    RunFacts {
        asked: Duration::from_secs(seconds),
        cpu: Duration::from_millis(3),
        from_due_time: true,
        failing_one_in: 100,
    }
}

#[test]
fn threads_add_up_to_one_outcome() {
    let (mut one, mut two) = (Tally::new(1.0), Tally::new(1.0));
    for number in 0..600 {
        one.answer(number * MS, 2 * MS, &ComparisonResult::Good);
    }
    for number in 0..400 {
        two.answer(number * MS, 8 * MS, &ComparisonResult::Good);
    }
    two.read(5_000);
    two.leave(7);
    one.add(&two);
    let outcome = one.outcome(&run(1));
    assert_eq!((outcome.seconds, outcome.requests, outcome.requests_per_second), (1.0, 1000, 1000.0));
    assert_eq!(outcome.requests_per_second_series, [2000.0, 1600.0, 400.0, 0.0]);
    assert_eq!((outcome.bytes_per_second, outcome.unsent, outcome.series_interval_ms), (5000.0, 7, 250));
    assert!((outcome.cpu_us_per_request - 3.0).abs() < 1e-9);
    let near = |value: Option<f64>, wanted: f64| {
        assert!((value.unwrap() / wanted - 1.0).abs() < 0.002, "{value:?} instead of {wanted}");
    };
    near(outcome.latency.mean_ms, 4.4);
    near(outcome.latency.p50_ms, 2.0);
    near(outcome.latency.p75_ms, 8.0);
    near(outcome.latency.max_ms, 8.0);
    assert!(outcome.latency.from_due_time);
}

#[test]
fn failures_count_by_kind_with_first_detail() {
    let mut tally = Tally::new(1.0);
    for status in [502, 503] {
        tally.answer(0, 0, &ComparisonResult::Status(status));
    }
    tally.answer(0, 0, &ComparisonResult::Bytes);
    tally.answer(0, 0, &ComparisonResult::Length { wanted: 5, had: 4 });
    tally.fail(FailureKind::Connect, || "refused".to_owned());
    tally.fail(FailureKind::Broken, || "reset".to_owned());
    tally.fail(FailureKind::Timeout, || "too late".to_owned());
    let outcome = tally.outcome(&run(1));
    assert_eq!(outcome.failures, Failures { connect: 1, broken: 1, timeout: 1, status: 2, content: 2 });
    assert_eq!(outcome.requests, 4, "whole answers only");
    let words = "refused|reset|too late|an answer had status 502|an answer's body had other bytes of the right length";
    assert_eq!(outcome.notes.join("|"), words);
    let text = summary(&outcome);
    assert!(text.contains("1 connecting, 1 broken, 1 timeouts, 2 of status, 2 of content"), "{text}");
}

#[test]
fn failing_on_purpose_is_allowed_up_to_its_share() {
    let check = |failing: u64, wanted: u64| {
        let mut tally = Tally::new(1.0);
        for number in 0..10_000 {
            tally.answer(
                0,
                0,
                if number < failing { &ComparisonResult::Failing } else { &ComparisonResult::Good },
            );
        }
        assert_eq!(tally.outcome(&run(1)).failures.status, wanted, "{failing}");
    };
    check(0, 0);
    check(100, 0);
    check(131, 0);
    check(141, 10);
}

#[test]
fn nothing_at_all() {
    let outcome = Tally::new(0.0).outcome(&RunFacts { asked: Duration::ZERO, ..run(0) });
    assert_eq!((outcome.requests_per_second, outcome.latency.p50_ms), (0.0, None));
    assert!(summary(&outcome).contains("50 % -"));
}
