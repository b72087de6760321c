//! h2load: closed loop, HTTP/2 over TLS or HTTP/1.1. Its report has no percentiles; its log has every request's time,
//! so it runs within a few lines of shell that sort the log afterwards.

use anyhow::{Context, bail};

use super::number::{bytes, milliseconds};
use super::{Asked, last_line};
use crate::result::{Latency, LoadOutcome};
use crate::scenario::Protocol;

pub(super) fn command(asked: &Asked<'_>) -> anyhow::Result<Vec<String>> {
    asked.is_plain("h2load")?;
    let load = asked.load;
    if !load.keep_alive {
        bail!("h2load keeps its connections: leave `keep_alive` out, or name another tool");
    }
    let url = asked.url("h2load", &[Protocol::Http, Protocol::Https, Protocol::Http2])?;
    // More threads than connections are refused by it.
    let threads = u32::from(load.threads).min(load.connections);
    let mut words = vec!["sh".to_owned(), "-c".to_owned(), SCRIPT.to_owned(), "h2load".to_owned()];
    words.extend(["-t".to_owned(), threads.to_string(), "-c".to_owned(), load.connections.to_string()]);
    words.extend(["-m".to_owned(), load.streams.to_string()]);
    if asked.protocol != Protocol::Http2 {
        words.push("--h1".to_owned());
    }
    match load.requests {
        Some(requests) => words.extend(["-n".to_owned(), requests.to_string()]),
        None => words.extend(["-D".to_owned(), asked.seconds.ceil().max(1.0).to_string()]),
    }
    words.push(url);
    Ok(words)
}

pub(super) fn read(output: &str) -> anyhow::Result<LoadOutcome> {
    let mut outcome = LoadOutcome::default();
    let mut is_complete = false;
    for line in output.lines().map(str::trim) {
        let strange = || format!("h2load's report has a line that cannot be read: {line}");
        if let Some(rest) = line.strip_prefix("finished in ") {
            let mut parts = rest.split(", ");
            let mut next = || parts.next().unwrap_or_default();
            outcome.seconds = milliseconds(next()).with_context(strange)? / 1000.0;
            let rate = next().strip_suffix(" req/s").and_then(|rate| rate.parse().ok());
            outcome.requests_per_second = rate.with_context(strange)?;
            outcome.bytes_per_second = next().strip_suffix("/s").and_then(bytes).with_context(strange)?;
        } else if let Some(rest) = line.strip_prefix("requests: ") {
            let count = |name| count(rest, name).with_context(strange);
            outcome.requests = count("done")?;
            outcome.failures.timeout = count("timeout")?;
            // Timed-out requests are among the errors.
            let broken = count("errored")?.saturating_sub(outcome.failures.timeout);
            if count("started")? == 0 {
                outcome.failures.connect = broken;
            } else {
                outcome.failures.broken = broken;
            }
            is_complete = true;
        } else if let Some(rest) = line.strip_prefix("status codes: ") {
            let count = |name| count(rest, name).with_context(strange);
            outcome.failures.status = count("3xx")? + count("4xx")? + count("5xx")?;
        } else if let Some(rest) = line.strip_prefix("time for request:") {
            let times: Vec<Option<f64>> = rest.split_whitespace().map(milliseconds).collect();
            let &[_, longest, mean, ..] = times.as_slice() else { bail!(strange()) };
            (outcome.latency.max_ms, outcome.latency.mean_ms) = (longest, mean);
        } else if let Some(rest) = line.strip_prefix(PERCENTILES) {
            let times: Vec<f64> = rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let &[p50, p75, p90, p99, p99_9] = times.as_slice() else { bail!(strange()) };
            let latency = &mut outcome.latency;
            latency.p50_ms = Some(p50 / 1000.0);
            latency.p75_ms = Some(p75 / 1000.0);
            latency.p90_ms = Some(p90 / 1000.0);
            latency.p99_ms = Some(p99 / 1000.0);
            latency.p99_9_ms = Some(p99_9 / 1000.0);
        }
    }
    if !is_complete {
        bail!("h2load gave no report; it said last: {}", last_line(output));
    }
    if outcome.requests == 0 {
        outcome.latency = Latency::default();
    }
    Ok(outcome)
}

/// The number before a word in `1000 total, 1000 started, …`.
fn count(list: &str, name: &str) -> Option<u64> {
    list.split(", ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
}

/// How the line with the percentiles, in microseconds, begins.
const PERCENTILES: &str = "percentiles of the log in us:";
/// Runs h2load with a log, and writes 50, 75, 90, 99 and 99.9 % of its times. The log has a line for each request: when
/// it began, its status (negative if it failed), how long it took in microseconds.
const SCRIPT: &str = r#"log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
h2load --log-file="$log" "$@" || exit
awk '$2 > 0 { print $3 }' "$log" | sort -n | awk '{ time[NR] = $1 }
END { if (NR == 0) exit
  printf "percentiles of the log in us:"
  split("0.5 0.75 0.9 0.99 0.999", part, " ")
  for (n = 1; n <= 5; n++) { at = int(NR * part[n] + 0.999999); printf " %d", time[at < 1 ? 1 : at] }
  print "" }'"#;
