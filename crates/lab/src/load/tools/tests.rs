//! Command lines of the tools, and reports that they really printed: `reports/` has them unchanged.

use super::*;
use crate::result::{Failures, Latency};
use crate::scenario::{Expect, Scenario};

/// A scenario with this load.
fn scenario(load: &str) -> Scenario {
    Scenario::parse("test", &format!("title: t\nabout: a\n{load}")).unwrap()
}

fn load(words: &str) -> ScenarioLoad {
    plain(words).load
}

/// A scenario with this load, and the protocol that its keys need.
fn plain(words: &str) -> Scenario {
    let protocol = match words {
        _ if words.contains("resume") => "https",
        _ if words.contains("lab.Echo") => "grpc",
        _ if words.contains("bulk") => "tcp",
        _ if words.contains("at_once") => "udp",
        _ => "http",
    };
    scenario(&format!("protocol: {protocol}\nload: {{{words}}}"))
}

fn command_line(scenario: &Scenario, protocol: ScenarioProtocol) -> anyhow::Result<String> {
    let address = "127.0.0.1:9080".parse()?;
    let weir = Path::new("/bin/weir");
    let asked = ToolRun { load: &scenario.load, protocol, address, seconds: 2.5, weir };
    Ok(build_tool_command(&asked)?.join(" "))
}

#[test]
fn tools_are_called_with_their_arguments() {
    let check = |words: &str, protocol: ScenarioProtocol, wanted: &str| {
        let had = command_line(&plain(words), protocol).unwrap();
        // Other tests run the lines of shell around h2load.
        let had = had.rsplit_once("}'").map_or(had.as_str(), |(_, words)| words.trim_start());
        assert_eq!(had, wanted, "{words}");
    };
    use ScenarioProtocol::{Grpc, H2c, Http, Http2, Https, Tcp, TlsByName, Udp, Websocket};
    check(
        "tool: wrk, connections: 100, threads: 12",
        Http,
        "wrk -t12 -c100 -d3s --latency --timeout 5s http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: wrk, connections: 2, threads: 12, path: /x, keep_alive: false",
        Https,
        "wrk -t2 -c2 -d3s --latency --timeout 5s -H Connection: close https://127.0.0.1:9080/x",
    );
    check(
        "tool: ab, connections: 200, requests: 10000, keep_alive: false",
        Http,
        "ab -q -r -n 10000 -c 200 http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: ab, connections: 200",
        Http,
        "ab -q -r -k -t 3 -n 300000 -c 200 http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: ab, connections: 200, requests: 5",
        Http,
        "ab -q -r -k -n 5 -c 5 http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: h2load, connections: 8, threads: 2, streams: 10",
        Http2,
        "h2load  -t 2 -c 8 -m 10 -D 3 https://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: h2load, connections: 8, requests: 99",
        Http,
        "h2load  -t 1 -c 8 -m 1 --h1 -n 99 http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: h2load, connections: 32, streams: 10, window_bits: 16, rate: 16000",
        H2c,
        "h2load  -t 1 -c 32 -m 10 -w 16 -W 16 --rps=500 -D 3 http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: h2load, connections: 4, streams: 100, path: /lab.Echo/Unary",
        Grpc,
        "h2load 16 -t 1 -c 4 -m 100 -D 3 -H content-type: application/grpc -H te: trailers \
         http://127.0.0.1:9080/lab.Echo/Unary",
    );
    check(
        "tool: weir, connections: 8, keep_alive: false, resume: true, tls_version: '1.2'",
        Https,
        "/bin/weir lab load --json --connections 8 --threads 1 --seconds 2.5 --expect-status 200 --close --resume \
         --tls-version 1.2 https://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: weir, connections: 8, rate: 1000, expect: {bytes: 21, failing_one_in: 100}",
        Http,
        "/bin/weir lab load --json --connections 8 --threads 1 --seconds 2.5 --rate 1000 --expect-status 200 \
         --expect-bytes 21 --expect-failing-one-in 100 http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: weir, connections: 8, requests: 9, body_bytes: 1000, keep_alive: false",
        Http,
        "/bin/weir lab load --json --connections 8 --threads 1 --requests 9 --body-bytes 1000 \
         --expect-status 200 --close http://127.0.0.1:9080/checked-out",
    );
    check(
        "tool: weir, connections: 8, path: /echo-frames",
        Websocket,
        "/bin/weir lab load --json --connections 8 --threads 1 --seconds 2.5 --expect-status 200 --websocket \
         http://127.0.0.1:9080/echo-frames",
    );
    check(
        "tool: weir, connections: 8, body_bytes: 100, keep_alive: false",
        Tcp,
        "/bin/weir lab load --json --connections 8 --threads 1 --seconds 2.5 --body-bytes 100 --expect-status 200 \
         --close tcp://127.0.0.1:9080",
    );
    check(
        "tool: weir, connections: 1, bulk: true",
        Tcp,
        "/bin/weir lab load --json --connections 1 --threads 1 --seconds 2.5 --expect-status 200 --bulk \
         tcp://127.0.0.1:9080",
    );
    check(
        "tool: weir, connections: 1000, at_once: 8",
        Udp,
        "/bin/weir lab load --json --connections 1000 --threads 1 --seconds 2.5 --at-once 8 --expect-status 200 \
         udp://127.0.0.1:9080",
    );
    check(
        "tool: weir, connections: 8, keep_alive: false",
        TlsByName,
        "/bin/weir lab load --json --connections 8 --threads 1 --seconds 2.5 --server-name origin.lab.example \
         --expect-status 200 tcp://127.0.0.1:9080",
    );
}

#[test]
fn unsupported_load_is_refused() {
    let check = |words: &str, protocol: ScenarioProtocol, reason: &str| {
        let error = command_line(&plain(words), protocol).unwrap_err().to_string();
        assert!(error.contains(reason), "{words}: {error}");
    };
    check("tool: wrk, connections: 1, requests: 5", ScenarioProtocol::Http, "leave `requests` out");
    check("tool: wrk, connections: 1", ScenarioProtocol::Http2, "does not speak Http2");
    check("tool: ab, connections: 1", ScenarioProtocol::Websocket, "does not speak Websocket");
    check("tool: h2load, connections: 1, keep_alive: false", ScenarioProtocol::Http, "keeps its connections");
    check("tool: weir, connections: 1", ScenarioProtocol::Http2, "does not speak Http2");
    check("tool: h2load, connections: 1", ScenarioProtocol::Http3, "does not speak Http3");
    check("tool: weir, connections: 1, rate_share: 0.5", ScenarioProtocol::Http, "`rate_share`");
}

/// Numbers of a report: answers, seconds, answers and bytes a second.
fn figures(outcome: &LoadOutcome) -> (u64, f64, f64, f64) {
    let LoadOutcome { requests, seconds, requests_per_second, bytes_per_second, .. } = outcome;
    let seconds = (seconds * 1e6).round() / 1e6;
    (*requests, seconds, requests_per_second.round(), bytes_per_second.round())
}

/// Mean, 50, 75, 90, 99, 99.9 % and the longest.
fn latencies(latency: &Latency) -> [Option<f64>; 7] {
    let Latency { mean_ms, p50_ms, p75_ms, p90_ms, p99_ms, p99_9_ms, max_ms, .. } = latency;
    [*mean_ms, *p50_ms, *p75_ms, *p90_ms, *p99_ms, *p99_9_ms, *max_ms]
}

const NONE: Failures = Failures { connect: 0, broken: 0, timeout: 0, status: 0, content: 0 };
const UNKNOWN: [Option<f64>; 7] = [None; 7];

/// A report that a tool really printed.
macro_rules! report {
    ($name:literal) => {
        include_str!(concat!("reports/", $name, ".txt"))
    };
}

#[test]
fn reports_of_wrk() {
    let wrk = load("tool: wrk, connections: 1");
    let check = |text, wanted: (u64, f64, f64, f64), failures: Failures, times: [Option<f64>; 7]| {
        let outcome = parse_tool_report(&wrk, text).unwrap();
        assert_eq!(figures(&outcome), wanted, "{text}");
        assert_eq!((outcome.failures, latencies(&outcome.latency)), (failures, times), "{text}");
    };
    let times = [5.08, 0.13, 4.05, 15.72, 56.14].map(Some);
    let [mean, p50, p75, p90, p99] = times;
    check(
        report!("wrk-good"),
        (12_254, 1.06, 11_585.0, 1_236_528.0),
        NONE,
        [mean, p50, p75, p90, p99, None, Some(71.07)],
    );
    check(
        report!("wrk-big"),
        (31, 1.1, 28.0, 285_632_102.0),
        NONE,
        [Some(70.34), Some(55.36), Some(73.26), Some(159.16), Some(180.1), None, Some(180.1)],
    );
    check(
        report!("wrk-status"),
        (14_729, 1.04, 14_225.0, 1_613_194.0),
        Failures { status: 14_729, ..NONE },
        [Some(4.47), Some(0.649), Some(4.59), Some(10.83), Some(52.18), None, Some(62.42)],
    );
    // All were later than its timeout: it has no latency for them and writes zeros.
    check(report!("wrk-timeout"), (20, 3.08, 7.0, 655.0), Failures { timeout: 20, ..NONE }, UNKNOWN);
    check(
        report!("wrk-bad"),
        (932, 1.13, 824.0, 35_478.0),
        Failures { broken: 1035, status: 72, ..NONE },
        [Some(5.6), Some(2.38), Some(7.06), Some(14.44), Some(36.23), None, Some(51.0)],
    );
}

#[test]
fn reports_of_ab() {
    let ab = load("tool: ab, connections: 1");
    let check = |text, wanted: (u64, f64, f64, f64), failures: Failures, times: [Option<f64>; 7]| {
        let outcome = parse_tool_report(&ab, text).unwrap();
        assert_eq!(figures(&outcome), wanted, "{text}");
        assert_eq!((outcome.failures, latencies(&outcome.latency)), (failures, times), "{text}");
    };
    let times = |mean: f64, whole: [f64; 5]| {
        let [p50, p75, p90, p99, longest] = whole.map(Some);
        [Some(mean), p50, p75, p90, p99, None, longest]
    };
    let good = (2000, 1.919, 1042.0, 111_516.0);
    check(report!("ab-good"), good, NONE, times(19.195, [5.0, 8.0, 12.0, 875.0, 875.0]));
    check(
        report!("ab-keep"),
        (1000, 0.107, 9346.0, 1_224_299.0),
        NONE,
        times(2.131, [0.0, 3.0, 4.0, 16.0, 16.0]),
    );
    check(
        report!("ab-status"),
        (500, 0.208, 2404.0, 274_038.0),
        Failures { status: 500, ..NONE },
        times(8.337, [7.0, 12.0, 18.0, 25.0, 32.0]),
    );
    // Its server reset 50 connections, gave 65 answers of another length and 35 with status 500.
    check(
        report!("ab-bad"),
        (450, 0.879, 512.0, 22_019.0),
        Failures { broken: 50, content: 65, status: 35, ..NONE },
        times(8.792, [7.0, 15.0, 20.0, 30.0, 33.0]),
    );
    // Its own measure is the first answer's length, whatever that is.
    let expecting = load("tool: ab, connections: 1, expect: {bytes: 22}");
    let outcome = parse_tool_report(&expecting, report!("ab-good")).unwrap();
    assert_eq!(outcome.failures, Failures { content: 2000, ..NONE });
    assert_eq!(outcome.notes, ["ab's first answer had 21 bytes instead of 22"]);
    let expecting = load("tool: ab, connections: 1, expect: {bytes: 21}");
    assert_eq!(parse_tool_report(&expecting, report!("ab-good")).unwrap().failures, NONE);
}

#[test]
fn reports_of_h2load() {
    let h2load = load("tool: h2load, connections: 1");
    let check = |text, wanted: (u64, f64, f64, f64), failures: Failures, times: [Option<f64>; 7]| {
        let outcome = parse_tool_report(&h2load, text).unwrap();
        assert_eq!(figures(&outcome), wanted, "{text}");
        assert_eq!((outcome.failures, latencies(&outcome.latency)), (failures, times), "{text}");
    };
    let ends = |mean: f64, longest: f64| [Some(mean), None, None, None, None, None, Some(longest)];
    check(report!("h2load-time"), (19_325, 1.01, 19_325.0, 2_065_695.0), NONE, ends(0.206, 11.29));
    check(
        report!("h2load-percentiles"),
        (17_121, 1.01, 17_121.0, 1_835_008.0),
        NONE,
        [0.231, 0.066, 0.077, 0.093, 4.593, 9.312, 16.65].map(Some),
    );
    check(
        report!("h2load-status"),
        (100, 0.011_29, 8857.0, 1_009_746.0),
        Failures { status: 100, ..NONE },
        ends(0.198, 1.53),
    );
    check(
        report!("h2load-bad"),
        (4, 0.0101, 396.0, 16_937.0),
        Failures { broken: 96, ..NONE },
        ends(2.93, 3.86),
    );
    // The report has the bytes of all bodies, and each of four connections had a further answer under way.
    let expecting = |bytes: u64| {
        let load = load(&format!("tool: h2load, connections: 4, expect: {{bytes: {bytes}}}"));
        parse_tool_report(&load, report!("h2load-time")).unwrap()
    };
    assert_eq!(expecting(21).failures, NONE);
    assert_eq!(expecting(22).failures, Failures { content: 875, ..NONE });
    assert_eq!(expecting(20).failures, Failures { content: 967, ..NONE });
    assert_eq!(expecting(22).notes, ["the bodies of 19325 answers had 405909 bytes instead of 425150"]);
    check(report!("h2load-refused"), (0, 0.003_04, 0.0, 0.0), Failures { connect: 10, ..NONE }, UNKNOWN);
}

#[test]
fn our_own_report_is_the_last_line() {
    let own = load("tool: weir, connections: 1, expect: {failing_one_in: 2}");
    let failures = Failures { status: 3, ..NONE };
    let outcome =
        LoadOutcome { requests: 7, failures, notes: vec!["x".to_owned()], ..LoadOutcome::default() };
    let text = format!("ready\n{}\n", serde_json::to_string(&outcome).unwrap());
    assert_eq!(parse_tool_report(&own, &text).unwrap(), outcome);
}

#[test]
fn intended_origin_failure_is_not_counted() {
    let mut wrk = load("tool: wrk, connections: 1");
    wrk.expect = Expect { failing_one_in: 10, ..Expect::default() };
    // 72 of 932 are within one in ten and the allowed deviation.
    assert_eq!(
        parse_tool_report(&wrk, report!("wrk-bad")).unwrap().failures,
        Failures { broken: 1035, ..NONE }
    );
    wrk.expect.failing_one_in = 100;
    assert_eq!(parse_tool_report(&wrk, report!("wrk-bad")).unwrap().failures.status, 72 - 20);
}

#[test]
fn invalid_report_gives_its_last_line() {
    let check = |tool: &str, text: &str, reason: &str| {
        let error = format!(
            "{:#}",
            parse_tool_report(&load(&format!("tool: {tool}, connections: 1")), text).unwrap_err()
        );
        assert!(error.contains(reason), "{tool}: {error}");
    };
    let refused = "unable to connect to 127.0.0.1:1 Connection refused\n\n";
    check("wrk", refused, "it said last: unable to connect to 127.0.0.1:1 Connection refused");
    check("wrk", "", "it said last: nothing");
    check("wrk", "  12 requests in soon, 1MB read\n", "cannot be read: 12 requests in soon");
    check("wrk", "Requests/sec: many\n", "cannot be read: Requests/sec: many");
    let reset = "Benchmarking 127.0.0.1 (be patient)\napr_socket_recv: Connection reset by peer (104)\n";
    check("ab", reset, "it said last: apr_socket_recv: Connection reset by peer (104)");
    check("ab", "Complete requests:      5\n", "no line \"Time taken for tests\"");
    check("ab", "Complete requests: 5\nTime taken for tests: long\n", "Time taken for tests: long");
    check("h2load", "invalid URI: x\n", "it said last: invalid URI: x");
    check("h2load", "finished in 1.01 parsecs, 5 req/s, 1B/s\n", "cannot be read: finished in");
    check("h2load", "requests: 1 total\n", "cannot be read: requests: 1 total");
    check("weir", "error: nobody listens\n", "it said last: error: nobody listens");
    check("weir", "{\"requests\": \"many\"}\n", "cannot be read");
    // Any part of a report is a report or an error, and never causes a panic.
    let reports =
        [("wrk", report!("wrk-bad")), ("ab", report!("ab-bad")), ("h2load", report!("h2load-percentiles"))];
    for (tool, text) in reports {
        let load = load(&format!("tool: {tool}, connections: 1"));
        let whole = parse_tool_report(&load, text).unwrap();
        for cut in 0..text.len() {
            if let Ok(part) = parse_tool_report(&load, &text[..cut]) {
                assert!(part.requests == whole.requests, "{tool} cut at {cut}");
            }
        }
    }
}

#[test]
fn hanging_tool_is_ended_after_its_limit() {
    let check = |words: &str, seconds: f64, wanted: u64| {
        let load = load(words);
        let (address, weir) = ("127.0.0.1:1".parse().unwrap(), Path::new("weir"));
        let asked = ToolRun { load: &load, protocol: ScenarioProtocol::Http, address, seconds, weir };
        assert_eq!(longest(&asked).as_secs(), wanted, "{words}");
    };
    check("tool: wrk, connections: 1", 10.0, 30);
    check("tool: ab, connections: 1, requests: 10000", 10.0, 70);
    check("tool: ab, connections: 1, requests: 100", 10.0, 30);
}
