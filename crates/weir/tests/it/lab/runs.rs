//! The result of a run: every round of every contender, absent contenders with their reason, and the other
//! results unaffected.

use super::stand_ins::{Laboratory, SCENARIO, StandIn, somebody_runs};

#[test]
fn every_contender_is_measured_in_every_round() {
    let laboratory =
        Laboratory::new(&[("short", SCENARIO)], &[("one", StandIn::default()), ("two", StandIn::default())]);
    let outcome = laboratory.run(&["--baseline", "one"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("version of two"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("kept as result.json"), "{}", outcome.stdout);
    let report = laboratory.report();
    assert!(!report.interrupted && report.machine.cores > 0 && report.seconds > 0.0);
    let scenario = &report.scenarios[0];
    assert_eq!(scenario.baseline.as_deref(), Some("one"));
    for contender in &scenario.contenders {
        assert_eq!(contender.absent, None);
        let warm_up = contender.warm_up.as_ref().unwrap();
        assert!(warm_up.requests > 0 && warm_up.failures.all() == 0);
        assert_eq!(contender.runs.iter().map(|run| run.round).collect::<Vec<_>>(), [0, 1]);
        for run in &contender.runs {
            assert!(run.load.requests > 0 && run.load.failures.all() == 0, "{run:?}");
            assert!(run.usage.cpu_us_per_request() > 0.0 && run.usage.pss_bytes > 0, "{run:?}");
            assert!(run.usage.rss_bytes >= run.usage.pss_bytes, "{run:?}");
        }
    }
    let folder = laboratory.files.path().to_str().unwrap();
    assert!(!somebody_runs(&format!("{folder}/contenders")), "a contender outlived the run");
}

#[test]
fn a_gateway_has_the_first_cores_and_the_others_ask() {
    let usable = allowed(&std::fs::read_to_string("/proc/self/status").unwrap());
    let writes = r#"grep Cpus_allowed_list /proc/$$/status > "$CACHE/$WORKERS-workers"
      exec "$WEIR" origin --listen "$LISTEN""#;
    let two = format!("{SCENARIO}workers: 2\n");
    let laboratory = Laboratory::new(
        &[("one", SCENARIO), ("two", &two)],
        &[("noted", StandIn { run: writes, ..StandIn::default() })],
    );
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let of = |workers: usize| {
        let file = laboratory.work.path().join(format!("cache/installed/{workers}-workers"));
        allowed(&std::fs::read_to_string(file).unwrap())
    };
    let report = laboratory.report();
    assert_eq!(report.machine.cores, usable.len());
    for (workers, scenario) in [(1, &report.scenarios[0]), (2, &report.scenarios[1])] {
        let first = usable.iter().copied().take(workers).collect::<Vec<_>>();
        assert_eq!(of(workers), first, "{workers} workers");
        assert_eq!(scenario.contenders[0].runs[0].usage.cores, first.len(), "{workers} workers");
    }
    let load = &report.machine.load_cores;
    assert_eq!(load.contains(&usable[0]), usable.len() == 1, "the load has a core of its own: {load:?}");
}

/// The cores that a process may run on, from its status: `Cpus_allowed_list: 0-2,5`.
fn allowed(status: &str) -> Vec<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let ranges = list.trim().split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
    ranges.flat_map(|(from, to)| from.parse::<usize>().unwrap()..=to.parse().unwrap()).collect()
}

#[test]
fn absent_contender_does_not_stop_the_rest() {
    let contenders = [
        ("good", StandIn::default()),
        ("missing", StandIn { install: "echo no such package >&2; exit 1", ..StandIn::default() }),
        ("broken", StandIn { run: "echo bad configuration >&2; exit 3", ..StandIn::default() }),
        ("silent", StandIn { run: "exit 0", ..StandIn::default() }),
    ];
    let laboratory = Laboratory::new(&[("short", SCENARIO)], &contenders);
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no such package"), "{}", outcome.stderr);
    let report = laboratory.report();
    let missing = report.contenders.iter().find(|facts| facts.definition.name == "missing").unwrap();
    assert!(missing.absent.as_ref().unwrap().contains("no such package"));
    let contenders = &report.scenarios[0].contenders;
    let found = |name: &str| contenders.iter().find(|one| one.name == name).unwrap();
    assert_eq!(found("good").runs.len(), 2);
    assert!(found("broken").absent.as_ref().unwrap().contains("bad configuration"));
    assert!(found("silent").absent.as_ref().unwrap().contains("ended"));
    assert!(contenders.iter().all(|one| one.name != "missing"));
}

#[test]
fn contender_that_crashes_keeps_its_finished_rounds() {
    // Every run has a folder for its load beside the contender's. The fifth is the contender's second
    // measured run, after a warm-up and one measured run of each of the two contenders.
    let dies = r#""$WEIR" origin --listen "$LISTEN" &
      until [ "$(ls -d "$DIRECTORY"/../load-* 2>/dev/null | wc -l)" -ge 5 ]; do sleep 0.01; done
      echo out of memory >&2
      exit 9"#;
    let contenders = [("dies", StandIn { run: dies, ..StandIn::default() }), ("good", StandIn::default())];
    let laboratory = Laboratory::new(&[("short", SCENARIO)], &contenders);
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    let [dead, good] = &report.scenarios[0].contenders[..] else { panic!("two contenders") };
    let reason = dead.absent.as_ref().unwrap();
    assert!(reason.contains("dropped out after 1 round") && reason.contains("out of memory"), "{reason}");
    assert_eq!((dead.runs.len(), good.runs.len()), (1, 2));
}

#[test]
fn open_loop_sends_the_same_rate_to_all() {
    let scenario = SCENARIO.replace("connections: 2", "connections: 2, rate_share: 0.5");
    let laboratory =
        Laboratory::new(&[("open", &scenario)], &[("one", StandIn::default()), ("two", StandIn::default())]);
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    let scenario = &report.scenarios[0];
    assert!(scenario.notes[0].contains("requests are due in a second: 50 % of what"), "{:?}", scenario.notes);
    let due = |run: &lab::result::MeasuredRun| {
        assert!(run.load.latency.from_due_time, "{run:?}");
        run.load.requests + run.load.unsent + run.load.failures.connect + run.load.failures.broken
    };
    let due: Vec<u64> = scenario.contenders.iter().flat_map(|one| one.runs.iter().map(due)).collect();
    assert_eq!(due.len(), 4);
    assert!(due.iter().all(|count| *count > 0 && *count == due[0]), "{due:?}");
}

#[test]
fn contenders_in_turns_are_compared_by_cpu() {
    let paced = SCENARIO.replace("connections: 2", "connections: 2, rate: 100");
    let run = r#"echo started >> "$CACHE/starts"; exec "$WEIR" origin --listen "$LISTEN""#;
    let laboratory = Laboratory::new(
        &[("closed", SCENARIO), ("open", &paced)],
        &[("one", StandIn { run, ..StandIn::default() }), ("two", StandIn::default())],
    );
    let outcome = laboratory.run(&["--turn-ms", "10", "--baseline", "one"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    let [closed, open] = &report.scenarios[..] else { panic!("two scenarios") };
    assert!(closed.notes[0].contains("took turns of 10 ms"), "{:?}", closed.notes);
    assert!(closed.command.contains("--turn-ms 10"), "{}", closed.command);
    for run in closed.contenders.iter().flat_map(|one| &one.runs) {
        assert_eq!(run.turn_ms, Some(10));
        assert!(run.load.requests > 0 && run.load.failures.all() == 0, "{run:?}");
        assert!(run.usage.cpu_us_per_request() > 0.0, "{run:?}");
        // Not reported, because in turns a request also waits for the time of the other contender.
        assert_eq!((run.load.latency.p50_ms, run.load.requests_per_second_series.len()), (None, 0));
        assert_eq!(run.usage.cores_busy_percent, None, "others kept the cores busy as well");
    }
    assert_eq!(closed.contenders.iter().map(|one| one.runs.len()).collect::<Vec<_>>(), [2, 2]);
    let starts = laboratory.work.path().join("cache/installed/starts");
    let starts = std::fs::read_to_string(starts).unwrap();
    assert_eq!(starts.lines().count(), 2, "a new process for each of two rounds, and none for the open loop");
    assert!(open.notes.iter().any(|note| note.contains("No turns of 10 ms were taken")), "{:?}", open.notes);
    assert!(open.contenders.iter().flat_map(|one| &one.runs).all(|run| run.turn_ms.is_none()));
    assert!(!somebody_runs(laboratory.files.path().to_str().unwrap()), "a contender outlived the run");
}

#[test]
fn contender_that_dies_between_turns_drops_out() {
    let dies = r#""$WEIR" origin --listen "$LISTEN" &
      until [ "$(ls -d "$DIRECTORY"/../load-* 2>/dev/null | wc -l)" -ge 3 ]; do sleep 0.01; done
      echo out of memory >&2
      exit 9"#;
    let contenders = [("dies", StandIn { run: dies, ..StandIn::default() }), ("good", StandIn::default())];
    let laboratory = Laboratory::new(&[("short", SCENARIO)], &contenders);
    let outcome = laboratory.run(&["--turn-ms", "10"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    let [dead, good] = &report.scenarios[0].contenders[..] else { panic!("two contenders") };
    assert!(dead.absent.as_ref().unwrap().contains("out of memory"), "{:?}", dead.absent);
    assert_eq!((dead.runs.len(), good.runs.len()), (0, 2));
    assert!(!somebody_runs(laboratory.files.path().to_str().unwrap()), "a contender outlived the run");
}

#[test]
fn contenders_run_at_once() {
    let scenario = format!("{SCENARIO}together: true\n");
    let laboratory =
        Laboratory::new(&[("crowd", &scenario)], &[("one", StandIn::default()), ("two", StandIn::default())]);
    let outcome = laboratory.run(&["--no-pin"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    for contender in &report.scenarios[0].contenders {
        assert_eq!(contender.runs.len(), 2, "{contender:?}");
        assert_eq!(contender.runs[0].usage.cores_busy_percent, None, "nothing was pinned");
    }
}

#[test]
fn idle_connections_and_slow_clients_beside_the_load() {
    let scenario = format!("{SCENARIO}idle_connections: 20\nslow_clients: 5\n");
    let laboratory = Laboratory::new(&[("crowd", &scenario)], &[("one", StandIn::default())]);
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    let contender = &report.scenarios[0].contenders[0];
    assert_eq!((contender.absent.as_ref(), contender.runs.len()), (None, 2));
}

#[test]
fn http2_and_grpc_answers_are_counted_and_judged() {
    let scenario = |protocol: &str, path: &str, more: &str| {
        format!(
            "title: short\nabout: a test\nprotocol: {protocol}\nload: {{ tool: h2load, path: {path}, connections: 2, \
             streams: 3, expect: {{ bytes: 21 }}{more} }}\n"
        )
    };
    let call = "/lab.Echo/Unary";
    let scenarios = [
        ("call", scenario("grpc", call, "")),
        ("failing-call", scenario("grpc", "/lab.Echo/Missing", "")),
        ("long-call", scenario("grpc", call, ", body_bytes: 300")),
        ("page", scenario("h2c", "/checked-out", ", window_bits: 16, rate: 100")),
    ];
    let scenarios = scenarios.each_ref().map(|(name, text)| (*name, text.as_str()));
    let laboratory = Laboratory::new(&scenarios, &[("origin", StandIn::default())]);
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = laboratory.report();
    let run = |name: &str| {
        let of = report.scenarios.iter().find(|result| result.scenario.name == name).unwrap();
        assert_eq!(of.contenders[0].absent, None, "{name}");
        of.contenders[0].runs[0].load.clone()
    };
    let good = run("call");
    assert!(good.requests > 0 && good.failures.all() == 0, "{good:?}");
    // It has status 200 and trailers, but no message.
    let failing = run("failing-call");
    assert_eq!((failing.failures.content, failing.failures.all()), (failing.requests, failing.requests));
    let long = run("long-call");
    assert!(long.requests > 0 && long.failures.content > 0, "the message is longer than expected: {long:?}");
    let page = run("page");
    // 100 a second for one second, and what the six streams began with.
    assert!(page.failures.all() == 0 && (1..=110).contains(&page.requests), "{page:?}");
}
