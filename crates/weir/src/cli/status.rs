//! `weir status`: the state of the running instance in a few lines.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::admin_client::{NodeArguments, agreed};
use crate::terminal::{Paint, print};
use crate::top::data::Overview;
use crate::top::numbers::{clean, grouped};
use crate::top::screen::{attention, heading, painted};

/// Show the state of the running instance: revision, workers, figures, and what needs attention
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StatusArguments {
    /// Print the answers of the instance as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Asks, and prints the answer.
pub(crate) fn execute_status(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let status: Value = agreed(node.ask_running("GET", "weir/status", "")?)?;
    let overview: Value = agreed(node.ask_running("GET", "weir/overview?minutes=5", "")?)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&json!({ "status": status, "overview": overview }))?);
        return Ok(ExitCode::SUCCESS);
    }
    let overview: Overview = serde_json::from_value(overview)?;
    print(render(&status, &overview, Paint::for_stdout()));
    Ok(ExitCode::SUCCESS)
}

fn render(status: &Value, overview: &Overview, paint: Paint) -> String {
    let in_words = paint == Paint::Plain;
    let mut lines = vec![painted(&heading(overview, usize::MAX >> 1), paint)];
    let counts = status["objects"].as_object().cloned().unwrap_or_default();
    lines.push(objects(&counts));
    let faults = status["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
    if overview.attention.is_empty() && faults.is_empty() {
        let (there, workers) = overview.workers_at_revision();
        let verb = if there == workers { "Everything is in force" } else { "Coming into force" };
        lines.push(format!("{verb}: revision {} on {there} of {workers} workers", overview.revision));
    }
    lines.extend(attention(overview, in_words, usize::MAX).iter().map(|line| painted(line, paint)));
    lines.extend(faults.iter().take(FAULTS_MAX).map(|fault| fault_line(fault, paint)));
    let more = faults.len().saturating_sub(FAULTS_MAX);
    if more > 0 {
        lines.push(format!("and {} more faults", grouped(more as u64)));
    }
    lines.extend(layer_4(&status["layer_4"]));
    for source in ["etcd", "acme"] {
        if let Some(state) = status[source]["state"].as_str() {
            lines.push(format!("{source}: {}", clean(state)));
        }
    }
    lines.join("\n")
}

/// The kinds that have objects, with their number.
fn objects(counts: &Map<String, Value>) -> String {
    let counted = counts.iter().filter_map(|(kind, count)| {
        let count = count.as_u64().filter(|count| *count > 0)?;
        Some(format!("{} {}", clean(kind).replace('_', " "), grouped(count)))
    });
    let counted: Vec<String> = counted.collect();
    if counted.is_empty() { "no objects yet".to_owned() } else { counted.join(", ") }
}

/// The open sessions of layer 4, and a line of addresses for each kind of listener.
fn layer_4(part: &Value) -> Vec<String> {
    let mut by_name: Vec<(&str, Vec<String>)> = Vec::new();
    for listener in part["listeners"].as_array().into_iter().flatten() {
        let (Some(name), Some(address)) = (listener["name"].as_str(), listener["address"].as_str()) else {
            continue;
        };
        match by_name.iter_mut().find(|(known, _)| *known == name) {
            Some((_, addresses)) => addresses.push(clean(address)),
            None => by_name.push((name, vec![clean(address)])),
        }
    }
    if by_name.is_empty() {
        return Vec::new();
    }
    let open = |transport: &str| grouped(part["sessions"][transport].as_u64().unwrap_or_default());
    let first = format!("layer 4: {} sessions over TCP, {} over UDP", open("tcp"), open("udp"));
    let of_name = |(name, addresses): &(&str, Vec<String>)| {
        let shown = addresses[..addresses.len().min(ADDRESSES_MAX)].join(", ");
        match addresses.len().saturating_sub(ADDRESSES_MAX) {
            0 => format!("  {}: {shown}", clean(name)),
            more => format!("  {}: {shown} and {} more", clean(name), grouped(more as u64)),
        }
    };
    std::iter::once(first).chain(by_name.iter().map(of_name)).collect()
}

fn fault_line(fault: &Value, paint: Paint) -> String {
    let text = |name: &str| clean(fault[name].as_str().unwrap_or_default());
    let (key, pointer, reason) = (text("key"), text("pointer"), text("reason"));
    let place = format!("{key} {pointer}");
    match place.trim() {
        "" => format!("fault: {}", paint.bad(&reason)),
        place => format!("fault: {place}: {}", paint.bad(&reason)),
    }
}

/// Addresses of one kind of listener that are shown; `/v1/weir/listeners` of the control API has all.
const ADDRESSES_MAX: usize = 6;
/// Faults that are listed; `weir/status` has all.
const FAULTS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::data::{Attention, Worker};

    #[test]
    fn quiet_instance_has_three_lines() {
        let overview = Overview {
            instance: "edge".into(),
            revision: 3,
            workers: vec![Worker { revision: 3 }],
            ..Overview::default()
        };
        let status = json!({ "objects": { "routes": 10_432, "ssls": 0, "plugin_configs": 2 }, "faults": [] });
        let text = render(&status, &overview, Paint::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..],
            ["routes 10,432, plugin configs 2", "Everything is in force: revision 3 on 1 of 1 workers"]
        );
    }

    #[test]
    fn listeners_of_layer_4_have_lines() {
        let one = |name: &str, port: u16| json!({ "name": name, "address": format!("127.0.0.1:{port}") });
        let mut listeners: Vec<Value> = (9_100..9_108).map(|port| one("stream-tcp", port)).collect();
        listeners.push(one("stream-udp", 53));
        let status = json!({
            "objects": {}, "faults": [],
            "layer_4": { "listeners": listeners, "sessions": { "tcp": 50_000, "udp": 7 } },
        });
        let text = render(&status, &Overview::default(), Paint::Plain);
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("layer 4")).collect();
        assert_eq!(lines[0], "layer 4: 50,000 sessions over TCP, 7 over UDP");
        assert!(lines[1].starts_with("  stream-tcp: 127.0.0.1:9100, 127.0.0.1:9101, "), "{}", lines[1]);
        assert!(lines[1].ends_with("127.0.0.1:9105 and 2 more"), "{}", lines[1]);
        assert_eq!(lines[2..], ["  stream-udp: 127.0.0.1:53"]);
    }

    #[test]
    fn faults_and_attention_are_listed() {
        let line = Attention {
            severity: "err".into(),
            what: "objects_out".into(),
            title: "Route shop is out of force.".into(),
            detail: "/uri: bad".into(),
            link: "/routes/shop".into(),
        };
        let overview = Overview { attention: vec![line], ..Overview::default() };
        let status = json!({
            "objects": {},
            "faults": [{ "key": "routes/shop", "pointer": "/uri", "reason": "b\u{1b}ad" }, { "reason": "a.yaml:3" }],
            "etcd": { "state": "following" },
        });
        let text = render(&status, &overview, Paint::Plain);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "no objects yet",
                "bad  Route shop is out of force. /uri: bad",
                "fault: routes/shop /uri: b?ad",
                "fault: a.yaml:3",
                "etcd: following",
            ]
        );
    }
}
