//! `weir tap`: single requests of the running instance as they pass, or the failures that it kept. It decides
//! nothing: the instance filters and samples.

mod line;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;

use crate::admin_client::{NodeArguments, agreed};
use crate::ask::Followed;
use crate::terminal::{Paint, print, print_error};
use line::TapRecord;

/// Follow single requests of the running instance
///
/// The expression is that of the lists of the dashboard: words match route, host and path; `status:>=500`,
/// `took:>200ms`, `host:*.example`, `route:shop`, `cause:origin_closed`; `a,b` is or; a leading `-` negates.
/// While nothing is followed, the instance records failures only; `--failures` prints those.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TapArguments {
    /// Show requests that match this only
    #[arg(value_name = "EXPRESSION", num_args = 0..)]
    expression: Vec<String>,
    /// Show at most so many requests a second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    rate: u32,
    /// End after this time, such as 60s or 5m [default: on Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Show the timeline of each request below it
    #[arg(long)]
    spans: bool,
    /// Print each record as JSON, one in a line
    #[arg(long)]
    json: bool,
    /// Print the failures that the instance kept, oldest first, and end
    #[arg(long, conflicts_with_all = ["rate", "time"])]
    failures: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Counts of all seconds so far.
#[derive(Default)]
struct TapTotals {
    seen: u64,
    matched: u64,
    sent: u64,
    dropped: u64,
    seconds: u64,
}

/// Asks, and prints what arrives.
pub(crate) fn execute_tap(arguments: &TapArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let query = encoded(&arguments.expression.join(" "));
    let paint = Paint::for_stdout();
    if arguments.failures {
        let answer = agreed(node.ask_running("GET", &format!("weir/failures?q={query}"), "")?)?;
        let list = answer["list"].as_array().cloned().unwrap_or_default();
        if !list.iter().rev().all(|record| show(record, arguments, paint)) {
            return Ok(ExitCode::SUCCESS);
        }
        let lost = answer["lost"].as_u64().unwrap_or_default();
        if lost > 0 && !arguments.json {
            print(
                paint
                    .faint(&format!("-- {lost} more were not kept, because there were too many in a second")),
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let timeline = u8::from(arguments.spans || arguments.json);
    let target = format!("weir/tap?q={query}&rate={}&timeline={timeline}", arguments.rate);
    // A time beyond the clock never comes.
    let ends = arguments.time.and_then(|time| Instant::now().checked_add(time));
    let mut totals = TapTotals::default();
    loop {
        let body = match node.follow(&target, PATIENCE)? {
            Followed::Body(body) => body,
            Followed::Refused(answer) => {
                let at = answer.body.as_ref().ok().and_then(|body| body["at"].as_u64());
                let reason = answer.reason();
                match at {
                    Some(at) => {
                        let expression = arguments.expression.join(" ");
                        let at = usize::try_from(at).unwrap_or(usize::MAX).min(expression.chars().count());
                        bail!("{reason}\n  {expression}\n  {}^", " ".repeat(at))
                    }
                    None => return agreed(answer).map(|_| ExitCode::SUCCESS),
                }
            }
        };
        if !follow(body, arguments, ends, &mut totals, paint)? {
            break;
        }
    }
    if !arguments.json {
        print(paint.faint(&totals.line()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads events until the time is over or the stream ends; true if the instance wants to be asked again.
fn follow(
    body: Box<dyn BufRead>,
    arguments: &TapArguments,
    ends: Option<Instant>,
    totals: &mut TapTotals,
    paint: Paint,
) -> anyhow::Result<bool> {
    let mut event = String::new();
    for line in body.lines() {
        let line = line.map_err(|error| anyhow::anyhow!("the instance stopped answering: {error}"))?;
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data)?;
            match event.as_str() {
                // The reader of the output is gone, as in `weir tap | head`.
                "request" if !show(&data, arguments, paint) => return Ok(false),
                "count" => totals.add(&data),
                "end" => return Ok(true),
                _ => {}
            }
        }
        // The counts come once a second, so that the time is looked at in time.
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            return Ok(false);
        }
    }
    print_error("the instance has ended the stream");
    Ok(false)
}

/// Prints a record; false if the reader of standard output is gone.
fn show(record: &Value, arguments: &TapArguments, paint: Paint) -> bool {
    let text = if arguments.json {
        record.to_string()
    } else {
        match serde_json::from_value::<TapRecord>(record.clone()) {
            Ok(record) => record.render(arguments.spans, paint),
            Err(error) => {
                print_error(format_args!("a record has an unknown form: {error}"));
                return true;
            }
        }
    };
    writeln!(std::io::stdout().lock(), "{}", text.trim_end()).is_ok()
}

impl TapTotals {
    fn add(&mut self, counts: &Value) {
        let count = |name: &str| counts[name].as_u64().unwrap_or_default();
        self.seen += count("seen");
        self.matched += count("matched");
        self.sent += count("sent");
        self.dropped += count("dropped");
        self.seconds += 1;
    }

    fn line(&self) -> String {
        let rate = |count: u64| count / self.seconds.max(1);
        format!(
            "-- {}/s seen, {}/s matched, {} shown, {} dropped",
            rate(self.seen),
            rate(self.matched),
            self.sent,
            self.dropped
        )
    }
}

/// The text as the value of a query argument.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~*:/".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A time with its unit: s, m or h.
fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &text[number.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err("write a time such as 30s, 5m or 1h".to_owned()),
    };
    let seconds = number.parse::<u64>().map_err(|_| "write a time such as 30s, 5m or 1h".to_owned())?;
    Ok(Duration::from_secs(seconds.saturating_mul(factor)))
}

/// Longest silence of the instance, which sends counts once a second.
const PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_is_encoded_and_times_are_read() {
        assert_eq!(encoded("a b&status:>=5é"), "a%20b%26status:%3E%3D5%C3%A9");
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert!(duration("5x").is_err() && duration("s").is_err());
    }
}
