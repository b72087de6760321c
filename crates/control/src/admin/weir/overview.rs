//! `weir/overview`: the figures of now, their series over the last hour, the revisions in that time, and what
//! needs attention.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{Figures, TrafficInterval, TrafficNow, TrafficPoint};
use serde_json::{Map, Value, json};

use super::attention::attention_now;
use super::marks::revision_marks;
use crate::admin::call::{AdminParts, Call};
use crate::serve::RefusalResponse;
use crate::serve::list_query::{now_ms, whole_number};
use crate::serve::respond::{self, refuse_request};

/// Answers `weir/overview`.
pub(super) async fn answer_overview(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    overview(parts, call).await.unwrap_or_else(|refusal| *refusal)
}

async fn overview(parts: &Arc<AdminParts>, call: &Call) -> Result<Response<Bytes>, RefusalResponse> {
    let minutes = whole_number(&call.query, "minutes")?.unwrap_or(MINUTES_MAX);
    if !(MINUTES_MIN..=MINUTES_MAX).contains(&minutes) {
        return Err(refuse_request(format!("the argument minutes must be {MINUTES_MIN} to {MINUTES_MAX}")));
    }
    let (step, step_ms) = match whole_number(&call.query, "step")? {
        None | Some(10) => (TrafficInterval::TenSeconds, 10_000),
        Some(1) => (TrafficInterval::Second, 1_000),
        Some(_) => return Err(refuse_request("the argument step must be 1 or 10, in seconds")),
    };
    let since = whole_number(&call.query, "since")?.unwrap_or(0);
    let most = usize::try_from(minutes * 60_000 / step_ms).unwrap_or(usize::MAX);
    let traffic = parts.reports.traffic.as_ref();
    let now = traffic.and_then(|traffic| traffic.now());
    let points = traffic.map(|traffic| traffic.points(step, since, most)).unwrap_or_default();
    let began_ms = now_ms().saturating_sub(minutes * 60_000);
    let marks = revision_marks(parts).await;
    let marks: Vec<&Value> =
        marks.iter().filter(|mark| mark["at_ms"].as_u64().is_some_and(|at_ms| at_ms >= began_ms)).collect();
    let asked = Arc::clone(parts);
    let attention = respond::blocking(move || attention_now(&asked)).await?;
    let workers: Vec<Value> = parts
        .reports
        .workers
        .revisions()
        .iter()
        .map(|worker| json!({ "worker": worker.worker, "revision": worker.revision }))
        .collect();
    let newest = points.last().or(now.as_ref().map(|now| &now.point));
    let body = json!({
        "instance": parts.reports.instance.hostname,
        "seq": newest.map_or(since, |point| point.seq),
        "step_ms": step_ms,
        "end_ms": newest.map_or_else(now_ms, |point| point.end_ms),
        "series": series(&points),
        "now": now_value(now.as_ref()),
        "marks": marks,
        "attention": attention.lines,
        "workers": workers,
        "revision": parts.view.load().revision(),
    });
    Ok(respond::json(StatusCode::OK, &body))
}

/// One array for each figure, oldest value first.
fn series(points: &[TrafficPoint]) -> Value {
    let mut series = Map::new();
    for (name, read) in FIGURES {
        let values: Vec<Value> = points.iter().map(|point| read(&point.figures)).collect();
        series.insert((*name).to_owned(), values.into());
    }
    series.into()
}

/// The figures of now; each is null where it is not known.
pub(super) fn now_value(now: Option<&TrafficNow>) -> Value {
    let mut body = Map::new();
    for (name, read) in FIGURES {
        body.insert((*name).to_owned(), now.map_or(Value::Null, |now| read(&now.point.figures)));
    }
    let requests = now.map(|now| round_number(now.point.figures.requests()));
    let more = [
        ("requests", json!(requests)),
        ("requests_total", json!(now.map(|now| now.requests_total))),
        ("cores", json!(now.map(|now| now.cores))),
        ("memory_limit", json!(now.and_then(|now| now.memory_limit_bytes))),
        ("log_lines_lost", json!(now.map(|now| now.log_lines_lost))),
    ];
    body.extend(more.map(|(name, value)| (name.to_owned(), value)));
    body.into()
}

/// A figure's value in an answer.
type FigureReader = fn(&Figures) -> Value;

/// The names of the figures.
const FIGURES: &[(&str, FigureReader)] = &[
    ("req_2xx", |figures| round_number(figures.successes)),
    ("req_3xx", |figures| round_number(figures.redirections)),
    ("req_4xx", |figures| round_number(figures.client_errors)),
    ("req_5xx", |figures| round_number(figures.server_errors)),
    ("req_other", |figures| round_number(figures.other)),
    ("p50_us", |figures| figures.p50_us.into()),
    ("p90_us", |figures| figures.p90_us.into()),
    ("p99_us", |figures| figures.p99_us.into()),
    ("bytes", |figures| round_number(figures.bytes)),
    ("cpu", |figures| round_number(figures.cpu)),
    ("rss", |figures| figures.resident_bytes.into()),
    ("in_flight", |figures| round_number(figures.in_flight)),
    ("connections", |figures| round_number(figures.connections)),
];

/// A number with three decimals at most, which is more than counts of seconds say.
pub(super) fn round_number(value: f64) -> Value {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    // A whole number is written without a decimal point.
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { (rounded as i64).into() } else { rounded.into() }
}

/// The shortest time that may be asked for.
const MINUTES_MIN: u64 = 5;
/// The time that is kept.
const MINUTES_MAX: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_figures_are_null() {
        let now = now_value(None);
        assert_eq!(
            (&now["req_2xx"], &now["requests"], &now["cores"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(series(&[])["p99_us"], json!([]));
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0.0, "0"), (1.0 / 3.0, "0.333"), (1_206.0, "1206"), (0.000_1, "0")] {
            assert_eq!(round_number(value).to_string(), text);
        }
    }
}
