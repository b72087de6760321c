//! ab: closed loop, HTTP/1.0, times in whole milliseconds. It compares lengths with its first response.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::{ToolRun, last_line};
use crate::result::{Failures, Latency, LoadOutcome};
use crate::scenario::ScenarioProtocol;

pub(super) fn build_ab_command(asked: &ToolRun<'_>) -> anyhow::Result<Vec<String>> {
    asked.is_plain("ab")?;
    let load = asked.load;
    // Without -r it ends at the first connection that breaks.
    let mut words = vec!["ab".to_owned(), "-q".to_owned(), "-r".to_owned()];
    if load.keep_alive {
        words.push("-k".to_owned());
    }
    let number = match load.requests {
        Some(requests) => requests,
        None => {
            // -t also sets 50,000 requests, so the number is given after it; ab allocates memory for each.
            let seconds = asked.seconds.ceil().max(1.0);
            words.extend(["-t".to_owned(), seconds.to_string()]);
            (seconds * MOST_PER_SECOND) as u64
        }
    };
    // It refuses more connections than requests.
    let connections = u64::from(load.connections).min(number);
    words.extend(["-n".to_owned(), number.to_string(), "-c".to_owned(), connections.to_string()]);
    words.push(asked.url("ab", &[ScenarioProtocol::Http, ScenarioProtocol::Https])?);
    Ok(words)
}

/// `wanted_bytes` is the length that every body should have.
pub(super) fn parse_ab_report(output: &str, wanted_bytes: Option<u64>) -> anyhow::Result<LoadOutcome> {
    let (lines, mut latency) = (lines(output), latency(output));
    if !lines.contains_key("Complete requests") {
        bail!("ab gave no report; it said last: {}", last_line(output));
    }
    let number = |name: &str| -> anyhow::Result<f64> {
        let value = lines.get(name).with_context(|| format!("ab's report has no line \"{name}\""))?;
        let word = value.split_whitespace().next().unwrap_or_default();
        word.parse().with_context(|| format!("ab's report has a line that cannot be read: {name}: {value}"))
    };
    let seconds = number("Time taken for tests")?;
    let tried = number("Complete requests")? as u64;
    let mut failures = failures(lines.get("(Connect").copied().unwrap_or_default());
    if lines.contains_key("Non-2xx responses") {
        failures.status = number("Non-2xx responses")? as u64;
    }
    let requests = tried.saturating_sub(failures.broken + failures.connect);
    let mut notes = Vec::new();
    if let Some(wanted) = wanted_bytes.filter(|_| requests > 0) {
        let had = number("Document Length")? as u64;
        if had != wanted {
            // A response that differs from the first one may be right.
            failures.content = requests.saturating_sub(failures.content);
            notes.push(format!("ab's first answer had {had} bytes instead of {wanted}"));
        }
    }
    if requests > 0 {
        latency.mean_ms = Some(number("Time per request")?);
    }
    let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    Ok(LoadOutcome {
        seconds,
        requests,
        failures,
        requests_per_second: per_second(requests as f64),
        bytes_per_second: per_second(number("Total transferred")?),
        latency,
        notes,
        ..LoadOutcome::default()
    })
}

/// The lines by name; of several lines with one name ("Time per request") the first.
fn lines(output: &str) -> BTreeMap<&str, &str> {
    let mut lines = BTreeMap::new();
    for (name, value) in output.lines().filter_map(|line| line.split_once(':')) {
        lines.entry(name.trim()).or_insert(value.trim());
    }
    lines
}

fn latency(output: &str) -> Latency {
    let at = |percent: &str| {
        output.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(percent)).then(|| words.next()?.parse().ok()).flatten()
        })
    };
    Latency {
        p50_ms: at("50%"),
        p75_ms: at("75%"),
        p90_ms: at("90%"),
        p99_ms: at("99%"),
        max_ms: at("100%"),
        ..Latency::default()
    }
}

/// Parses `0, Receive: 50, Length: 115, Exceptions: 50)`. A connection that broke without a response counts
/// under Receive, under Exceptions and, because its length is wrong too, under Length.
fn failures(line: &str) -> Failures {
    let mut numbers = line
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .map(|word| word.parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let (connect, receive, length, exceptions) = (next(), next(), next(), next());
    let broken = receive.max(exceptions);
    Failures { connect, broken, content: length.saturating_sub(broken), ..Failures::default() }
}

/// More than one thread with one request at a time per connection can reach.
const MOST_PER_SECOND: f64 = 100_000.0;
