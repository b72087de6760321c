//! `weir lab faults` with the real contender `weir` and the shortest faults: requests, traffic and failures
//! of an endpoint that answers 500, and of restarts.

use std::path::Path;

use lab::faults::EndpointFault;
use lab::result::{FaultRun, Protection, RunReport};

use crate::command::weir;

/// Requests per second: few, so that a busy machine keeps up.
const RATE: &str = "150";

/// Runs the laboratory with one fault.
fn run(fault: &str, seconds: &str, protection: &str) -> (RunReport, String) {
    let work = tempfile::tempdir().unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab");
    let words = [
        &["lab", "faults", "--files", files.to_str().unwrap(), "--contender", "weir", "--no-install"][..],
        &["--no-pin", "--seconds", seconds, "--rate", RATE, "--save", "result.json"],
        &["--fault", fault, "--protection", protection],
    ]
    .concat();
    let cache = work.path().join("cache");
    let outcome = weir(work.path(), &words, &[("WEIR_LAB_DIR", cache.to_str().unwrap())]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    (lab::report::json::read_report(&work.path().join("result.json")).unwrap(), outcome.stdout)
}

fn only(report: &RunReport) -> &FaultRun {
    let [run] = &report.faults.as_ref().unwrap().runs[..] else { panic!("one run: {report:?}") };
    assert_eq!((run.absent.as_deref(), run.contender.as_str()), (None, "weir"));
    run
}

#[test]
fn failing_endpoint_is_measured_by_phase() {
    let (report, shown) = run("fails", "2", "default");
    let run = only(&report);
    assert_eq!((run.fault, run.protection), (EndpointFault::Fails, Protection::Default));
    // Every due request is in its phase: 150 a second for 1, 2 and 4 seconds.
    let requests: Vec<u64> = run.phases.iter().map(|phase| phase.requests).collect();
    assert_eq!((requests, run.unsent), (vec![150, 300, 600], 0));
    // One in three requests goes to the endpoint, and its response is passed on.
    let [before, during, after] = [0, 1, 2].map(|phase| run.phases[phase].failures);
    assert!((70..=130).contains(&during.status), "{during:?}");
    let others = before.all() + after.all() + during.all() - during.status;
    assert!(others <= 10, "in flight when the condition changed: {before:?} {during:?} {after:?}");
    let faulty = run.faulty.unwrap();
    assert_eq!(faulty.off_after_s, None, "nothing takes it out: {faulty:?}");
    assert!((25..=75).contains(&faulty.late_requests) && faulty.back_after_s.is_some(), "{faulty:?}");
    assert!(shown.contains("weir default") && shown.contains("never"), "{shown}");
}

#[test]
fn restarts_are_measured_without_failures() {
    let (report, _) = run("restart", "1", "recommended");
    let run = only(&report);
    assert_eq!((run.fault, run.faulty), (EndpointFault::Restart, None));
    let failed: Vec<u64> = run.phases.iter().map(|phase| phase.failures.all()).collect();
    assert_eq!(failed, [0, 0, 0], "{:?}", run.notes);
}
