//! Chooses the seeds: a few hundred in a plain test run, thousands with `make test`, any range with
//! `make simulate`. Also proves that the checks find planted faults.

use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::Plant;
use super::{Outcome, run};

/// Seeds that run if [`SEEDS_VARIABLE`] is not set.
const SEEDS: Range<u64> = 0..300;
/// Environment variable with the seeds to run: one number, or `from..to`.
const SEEDS_VARIABLE: &str = "WEIR_SIMULATE";
/// Lines of a failed run's trace that are printed, counted from its end.
const TRACE_LINES: usize = 400;
/// Number of seeds within which a planted fault must be found.
const PLANTED_SEEDS: u64 = 600;

fn asked_for() -> Range<u64> {
    let Ok(text) = std::env::var(SEEDS_VARIABLE) else { return SEEDS };
    let number = |text: &str| -> u64 {
        text.parse().unwrap_or_else(|_| panic!("{SEEDS_VARIABLE} is a seed or FROM..TO, not {text:?}"))
    };
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

#[expect(clippy::print_stdout, reason = "make simulate shows how much was run")]
fn say(text: &str) {
    println!("{text}");
}

/// The message of a failed run: the end of its trace, its violations and the command that repeats it.
fn report(seed: u64, outcome: &Outcome) -> String {
    let mut text = String::new();
    let skipped = outcome.trace.len().saturating_sub(TRACE_LINES);
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "seed {seed}; {skipped} lines before these");
    for line in &outcome.trace[skipped..] {
        let _ = writeln!(text, "{line}");
    }
    for violation in &outcome.violations {
        let _ = writeln!(text, "VIOLATION: {violation}");
    }
    let _ = write!(text, "seed {seed} fails; to see it again: make simulate SEED={seed}");
    text
}

#[test]
fn seeds_give_right_answers_and_leave_nothing() {
    let seeds = asked_for();
    let next = AtomicU64::new(seeds.start);
    let (requests, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    let answers_http2 = AtomicU64::new(0);
    let failed = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.load(Ordering::Relaxed) != u64::MAX {
                        return;
                    }
                    let outcome = run(seed, None, false);
                    requests.fetch_add(outcome.requests as u64, Ordering::Relaxed);
                    answers.fetch_add(outcome.answers, Ordering::Relaxed);
                    answers_http2.fetch_add(outcome.answers_http2, Ordering::Relaxed);
                    if !outcome.violations.is_empty() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.load(Ordering::Relaxed);
    assert!(failed == u64::MAX, "{}", report(failed, &run(failed, None, true)));
    let (requests, answers) = (requests.into_inner(), answers.into_inner());
    let answers_http2 = answers_http2.into_inner();
    say(&format!(
        "seeds {seeds:?}: {requests} requests, {answers} whole answers of nodes, {answers_http2} of them over HTTP/2"
    ));
    assert!(
        seeds.end - seeds.start < 100 || answers * 2 > requests && answers_http2 * 8 > answers,
        "too little gets through to check anything"
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..8 {
        let (one, two) = (run(seed, None, false), run(seed, None, true));
        assert_eq!(one.digest, two.digest, "seed {seed}");
        assert_ne!(one.digest, run(seed + 1, None, false).digest, "seed {seed}");
    }
}

#[test]
fn clients_of_http2_find_planted_faults() {
    let plants = [
        (Plant::OtherIdentity, "was answered by the answer of"),
        (Plant::CutPassedAsWhole, "was cut unnoticed"),
        (Plant::DoneTwice, "was done twice"),
        (Plant::BreaksSilently, "was cut for no reason"),
        (Plant::BreaksSilently, "was answered 502 for no reason"),
        (Plant::WrongTarget, "which its route never led to"),
        (Plant::CountLeaks, "connections counted"),
    ];
    for (plant, word) in plants {
        let found = (0..PLANTED_SEEDS * 10)
            .filter(|seed| super::plan_of(*seed, Some(plant)).is_http2_alone())
            .any(|seed| run(seed, Some(plant), false).violations.iter().any(|text| text.contains(word)));
        assert!(found, "{plant:?} was not found: {word}");
    }
}

#[test]
fn planted_faults_are_found() {
    let plants = [
        (Plant::OtherIdentity, "was answered by the answer of"),
        (Plant::CutPassedAsWhole, "was cut unnoticed"),
        (Plant::DoneTwice, "was done twice"),
        (Plant::TunnelByte, "got bytes that are not its own"),
        (Plant::BreaksSilently, "was cut for no reason"),
        (Plant::BreaksSilently, "was answered 502 for no reason"),
        (Plant::WrongTarget, "which its route never led to"),
        (Plant::ClosesAreHardened, "for no reason"),
        (Plant::ResetsAreSoftened, "was cut unnoticed"),
        (Plant::CountLeaks, "connections counted"),
        (Plant::AnswerUnread, "got the answer of"),
        (Plant::StaleName, "which its route never led to"),
        (Plant::SilentListener, "cannot connect"),
        (Plant::UnsafeRetry, "was sent to nodes twice"),
    ];
    for (plant, word) in plants {
        let found = (0..PLANTED_SEEDS)
            .any(|seed| run(seed, Some(plant), false).violations.iter().any(|text| text.contains(word)));
        assert!(found, "{plant:?} was not found in {PLANTED_SEEDS} seeds");
    }
}
