//! h2load: closed loop or a rate, HTTP/2 over TLS or in clear text, gRPC, or HTTP/1.1. Its report has no
//! percentiles; its log has every request's time, so it runs within a few lines of shell that sort the log
//! afterwards.

use anyhow::{Context, bail};

use super::number::{bytes, milliseconds};
use super::{ToolRun, last_line};
use crate::result::{Latency, LoadOutcome};
use crate::scenario::{ScenarioLoad, ScenarioProtocol};

pub(super) fn build_h2load_command(asked: &ToolRun<'_>) -> anyhow::Result<Vec<String>> {
    let (load, is_grpc) = (asked.load, asked.protocol == ScenarioProtocol::Grpc);
    if load.rate_share.is_some() && load.rate.is_none() {
        bail!("`rate_share` is a share of something that was not measured before");
    }
    if load.body_bytes > 0 && !is_grpc {
        bail!("h2load sends no bodies here except messages of gRPC: write `tool: weir`");
    }
    if !load.keep_alive {
        bail!("h2load keeps its connections: leave `keep_alive` out, or name another tool");
    }
    let spoken = [
        ScenarioProtocol::Http,
        ScenarioProtocol::Https,
        ScenarioProtocol::Http2,
        ScenarioProtocol::H2c,
        ScenarioProtocol::Grpc,
    ];
    let url = asked.url("h2load", &spoken)?;
    // More threads than connections are refused by it.
    let threads = u32::from(load.threads).min(load.connections);
    let mut words = vec!["sh".to_owned(), "-c".to_owned(), SCRIPT.to_owned(), "h2load".to_owned()];
    // The first word of the script is the length of a message of gRPC.
    words.push(if is_grpc { message_bytes(load).to_string() } else { String::new() });
    words.extend(["-t".to_owned(), threads.to_string(), "-c".to_owned(), load.connections.to_string()]);
    words.extend(["-m".to_owned(), load.streams.to_string()]);
    if !asked.protocol.has_streams() {
        words.push("--h1".to_owned());
    }
    if let Some(bits) = load.window_bits {
        words.extend(["-w".to_owned(), bits.to_string(), "-W".to_owned(), bits.to_string()]);
    }
    if let Some(rate) = load.rate {
        // Its rate is that of each connection.
        words.push(format!("--rps={}", rate / f64::from(load.connections)));
    }
    match load.requests {
        Some(requests) => words.extend(["-n".to_owned(), requests.to_string()]),
        None => words.extend(["-D".to_owned(), asked.seconds.ceil().max(1.0).to_string()]),
    }
    if is_grpc {
        for field in ["content-type: application/grpc", "te: trailers"] {
            words.extend(["-H".to_owned(), field.to_owned()]);
        }
    }
    words.push(url);
    Ok(words)
}

/// Length of a message of gRPC.
fn message_bytes(load: &ScenarioLoad) -> u64 {
    if load.body_bytes > 0 { load.body_bytes } else { USUAL_MESSAGE_BYTES }
}

pub(super) fn parse_h2load_report(output: &str, load: &ScenarioLoad) -> anyhow::Result<LoadOutcome> {
    let mut outcome = LoadOutcome::default();
    let (mut is_complete, mut body_bytes) = (false, None);
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
        } else if let Some(rest) = line.strip_prefix("traffic: ") {
            let data = rest.rsplit_once(" data").and_then(|(before, _)| exact(before));
            body_bytes = Some(data.with_context(strange)?);
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
    if let (Some(wanted), Some(had)) = (load.expect.bytes, body_bytes) {
        judge_bytes(&mut outcome, load, wanted, had);
    }
    Ok(outcome)
}

/// Compares the bytes of all bodies with those of the good answers. The report has no other length. Answers
/// that were not complete at the end have sent a part, so that there may be more, up to what fits into the
/// streams.
fn judge_bytes(outcome: &mut LoadOutcome, load: &ScenarioLoad, wanted: u64, had: u64) {
    let failures = &mut outcome.failures;
    let good = outcome.requests.saturating_sub(failures.status + failures.broken + failures.timeout);
    let in_flight = u64::from(load.connections) * u64::from(load.streams);
    let least = good.saturating_mul(wanted);
    // Answers with another status have bodies of another length.
    let is_more_allowed = failures.all() > 0 || load.expect.failing_one_in > 0;
    let most =
        if is_more_allowed { u64::MAX } else { least.saturating_add(in_flight.saturating_mul(wanted)) };
    let difference = if had < least { least - had } else { had.saturating_sub(most) };
    if difference > 0 {
        failures.content += difference.div_ceil(wanted.max(1)).min(good);
        outcome.notes.push(format!("the bodies of {good} answers had {had} bytes instead of {least}"));
    }
}

/// The exact number of bytes at the end of `1.10MB (1152000) total, 58.59KB (60000)`.
fn exact(list: &str) -> Option<u64> {
    list.rsplit_once('(')?.1.strip_suffix(')')?.parse().ok()
}

/// The number before a word in `1000 total, 1000 started, …`.
fn count(list: &str, name: &str) -> Option<u64> {
    list.split(", ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
}

/// How the line with the percentiles, in microseconds, begins.
const PERCENTILES: &str = "percentiles of the log in us:";
/// Length of a message of gRPC if the scenario has none.
const USUAL_MESSAGE_BYTES: u64 = 16;
/// Runs h2load with a log, and writes 50, 75, 90, 99 and 99.9 % of its times. The log has a line for each
/// request: when it began, its status (negative if it failed), how long it took in microseconds. If the first
/// word is a number, requests are a message of gRPC of this length: a byte that says that it is not
/// compressed, its length in four bytes, the text.
const SCRIPT: &str = r#"folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
log="$folder/log" length="$1"
shift
if [ -n "$length" ]; then
  { printf "$(printf '\\%03o\\%03o\\%03o\\%03o\\%03o' 0 $((length >> 24)) $((length >> 16 & 255)) $((length >> 8 & 255)) $((length & 255)))"
    printf '%*s' "$length" '' | tr ' ' m; } >"$folder/message"
  set -- -d "$folder/message" "$@"
fi
h2load --log-file="$log" "$@" || exit
awk '$2 > 0 { print $3 }' "$log" | sort -n | awk '{ time[NR] = $1 }
END { if (NR == 0) exit
  printf "percentiles of the log in us:"
  split("0.5 0.75 0.9 0.99 0.999", part, " ")
  for (n = 1; n <= 5; n++) { at = int(NR * part[n] + 0.999999); printf " %d", time[at < 1 ? 1 : at] }
  print "" }'"#;
