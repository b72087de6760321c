//! The text of one request for a terminal. Characters of clients that could move the cursor are replaced.

use std::fmt::Write;

use serde::Deserialize;
use stdx::clock::HttpDate;

use crate::terminal::Paint;
use crate::top::numbers::clean;

/// The record of a request, as far as a line shows it.
#[derive(Debug, Deserialize)]
pub(super) struct TapRecord {
    t_ms: u64,
    method: String,
    host: String,
    path: String,
    route: Option<String>,
    consumer: Option<String>,
    endpoint: Option<String>,
    status: u16,
    cause: Option<String>,
    detail: Option<String>,
    total_us: u64,
    #[serde(default)]
    spans: Vec<TapSpan>,
}

#[derive(Debug, Deserialize)]
struct TapSpan {
    name: String,
    group: String,
    us: u64,
    failed: bool,
    detail: Option<String>,
}

impl TapRecord {
    /// The request in one line, and with `spans` its timeline in the lines below.
    pub(super) fn render(&self, spans: bool, paint: Paint) -> String {
        let status = match self.status {
            500.. => paint.bad(&self.status.to_string()),
            400..500 => paint.noted(&self.status.to_string()),
            status => format!("{status:03}"),
        };
        let mut text = format!(
            "{} {status} {} {}{}",
            paint.faint(&time(self.t_ms)),
            clean(&self.method),
            clean(&self.host),
            clean(&self.path)
        );
        if let Some(route) = &self.route {
            let _ = write!(text, "  route={}", clean(route));
        }
        if let Some(consumer) = &self.consumer {
            let _ = write!(text, "  consumer={}", clean(consumer));
        }
        if let Some(endpoint) = &self.endpoint {
            let _ = write!(text, "  {}", clean(endpoint));
        }
        if let Some(cause) = &self.cause {
            let _ = write!(text, "  {}", paint.bad(&clean(cause)));
        }
        let _ = write!(text, "  {}", duration(self.total_us));
        if spans {
            if let Some(detail) = self.detail.as_deref().filter(|detail| !detail.is_empty()) {
                let _ = write!(text, "\n    {}", clean(detail));
            }
            if !self.spans.is_empty() {
                let steps: Vec<String> = self.spans.iter().map(|span| span.text(paint)).collect();
                let _ = write!(text, "\n    {}", steps.join(" │ "));
            }
        }
        text
    }
}

impl TapSpan {
    fn text(&self, paint: Paint) -> String {
        let group = self.group.strip_prefix("attempt ").map(|attempt| format!("try {} ", clean(attempt)));
        let name = format!("{}{}", group.unwrap_or_default(), clean(&self.name));
        let took = duration(self.us);
        if !self.failed {
            return format!("{name} {took}");
        }
        let detail = self.detail.as_deref().unwrap_or("failed");
        format!("{name} {} {took}", paint.bad(&format!("✕ {}", clean(detail))))
    }
}

/// The time of day in UTC, to the millisecond.
fn time(at_ms: u64) -> String {
    let mut date = HttpDate::new();
    let text = String::from_utf8_lossy(date.at(at_ms / 1_000)).into_owned();
    let clock = text.get(17..25).unwrap_or_default();
    format!("{clock}.{:03}", at_ms % 1_000)
}

/// Microseconds below a millisecond, seconds from ten seconds on.
fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{:.1} ms", us as f64 / 1_000.0),
        _ => format!("{:.1} s", us as f64 / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> TapRecord {
        serde_json::from_value(serde_json::json!({
            "t_ms": 1_767_276_131_482_u64, "method": "POST", "host": "shop.example", "path": "/pay\u{1b}[2J",
            "route": "checkout", "consumer": null, "endpoint": "10.0.4.18:8080", "status": 502,
            "cause": "origin_closed", "detail": "it closed", "total_us": 38_200,
            "spans": [
                {"name": "jwt-auth", "group": "gateway", "us": 60, "failed": false, "detail": "rewrite"},
                {"name": "wait", "group": "attempt 1 10.0.4.18:8080", "us": 27_400, "failed": true, "detail": "x"},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn request_is_one_line_without_escapes() {
        let line = record().render(false, Paint::Plain);
        let expected = "14:02:11.482 502 POST shop.example/pay?[2J  route=checkout  10.0.4.18:8080  \
                        origin_closed  38.2 ms";
        assert_eq!(line, expected);
    }

    #[test]
    fn timeline_is_below() {
        let text = record().render(true, Paint::Plain);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["    it closed", "    jwt-auth 60 µs │ try 1 10.0.4.18:8080 wait ✕ x 27.4 ms"]);
    }
}
