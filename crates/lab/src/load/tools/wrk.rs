//! wrk: closed loop on kept connections, no number of requests, no lengths. It leaves out the lines of errors
//! when there are none.

use anyhow::{Context, bail};

use super::number::{bytes, milliseconds};
use super::{ToolRun, last_line};
use crate::result::{Latency, LoadOutcome};
use crate::scenario::ScenarioProtocol;

pub(super) fn build_wrk_command(asked: &ToolRun<'_>) -> anyhow::Result<Vec<String>> {
    asked.is_plain("wrk")?;
    let load = asked.load;
    if load.requests.is_some() {
        bail!("wrk ends after a time, not after a number of requests: leave `requests` out");
    }
    // More threads than connections are refused by it.
    let threads = u32::from(load.threads).min(load.connections);
    let seconds = asked.seconds.ceil().max(1.0);
    let mut words = vec!["wrk".to_owned(), format!("-t{threads}"), format!("-c{}", load.connections)];
    words.extend([format!("-d{seconds}s"), "--latency".to_owned(), "--timeout".to_owned(), "5s".to_owned()]);
    if !load.keep_alive {
        words.extend(["-H".to_owned(), "Connection: close".to_owned()]);
    }
    if let Some(codings) = &load.accept_encoding {
        words.extend(["-H".to_owned(), format!("Accept-Encoding: {codings}")]);
    }
    words.push(asked.url("wrk", &[ScenarioProtocol::Http, ScenarioProtocol::Https])?);
    Ok(words)
}

pub(super) fn parse_wrk_report(output: &str) -> anyhow::Result<LoadOutcome> {
    let mut outcome = LoadOutcome::default();
    let mut latency = Latency::default();
    let mut is_complete = false;
    for line in output.lines().map(str::trim) {
        let strange = || format!("wrk's report has a line that cannot be read: {line}");
        let number =
            |word: &str| -> anyhow::Result<u64> { word.trim_end_matches(',').parse().with_context(strange) };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Latency", mean, _, longest, ..] => {
                latency.mean_ms = milliseconds(mean);
                latency.max_ms = milliseconds(longest);
            }
            ["50%", time] => latency.p50_ms = milliseconds(time),
            ["75%", time] => latency.p75_ms = milliseconds(time),
            ["90%", time] => latency.p90_ms = milliseconds(time),
            ["99%", time] => latency.p99_ms = milliseconds(time),
            [requests, "requests", "in", time, read, "read"] => {
                outcome.requests = number(requests)?;
                let time_ms = milliseconds(time.trim_end_matches(',')).filter(|time_ms| *time_ms > 0.0);
                outcome.seconds = time_ms.with_context(strange)? / 1000.0;
                outcome.bytes_per_second = bytes(read).with_context(strange)? / outcome.seconds;
            }
            ["Socket", "errors:", "connect", connect, "read", read, "write", write, "timeout", timeout] => {
                outcome.failures.connect = number(connect)?;
                outcome.failures.broken = number(read)? + number(write)?;
                outcome.failures.timeout = number(timeout)?;
            }
            ["Non-2xx", .., answers] => outcome.failures.status = number(answers)?,
            ["Requests/sec:", rate] => {
                outcome.requests_per_second = rate.parse().with_context(strange)?;
                is_complete = true;
            }
            _ => {}
        }
    }
    if !is_complete {
        bail!("wrk gave no report; it said last: {}", last_line(output));
    }
    // wrk counts no latency for responses beyond its timeout: without other responses it has none.
    if latency.max_ms.is_some_and(|longest| longest > 0.0) {
        outcome.latency = latency;
    }
    Ok(outcome)
}
