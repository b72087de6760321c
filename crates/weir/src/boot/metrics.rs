//! Metrics of the node as a whole, which neither the engine nor the control side knows alone. The request counters are
//! the engine's.

use std::fmt::Write;

use gateway::engine::Engine;
use gateway::observe::log_writer::LogWriter;

use crate::log::LogControl;

/// Appends the name and version of this instance, the revision that each worker runs, and how many log lines were lost.
pub(super) fn write_node(
    engine: &Engine,
    error_log: &LogControl,
    access_log: Option<&LogWriter>,
    text: &mut String,
) {
    let hostname = rustix::system::uname().nodename().to_string_lossy().replace(['\\', '"', '\n'], "");
    sample(
        text,
        "apisix_node_info",
        "gauge",
        "Info of this node.",
        &format!("{{hostname=\"{hostname}\"}} 1"),
    );
    let version = env!("CARGO_PKG_VERSION");
    sample(
        text,
        "weir_build_info",
        "gauge",
        "The version of this node.",
        &format!("{{version=\"{version}\"}} 1"),
    );
    header(text, "weir_config_revision", "gauge", "The revision of the configuration that a worker runs.");
    for (worker, revision) in engine.revisions().into_iter().enumerate() {
        line(text, "weir_config_revision", &format!("{{worker=\"{worker}\"}} {revision}"));
    }
    let help = "Lines of the access log lost because they could not be written, or not fast enough.";
    let lines = access_log.map_or(0, LogWriter::lost_lines);
    sample(text, "weir_access_log_dropped_lines_total", "counter", help, &format!(" {lines}"));
    let help = "Lines of the error log lost because they could not be written, or not fast enough.";
    let lines = error_log.lost_lines();
    sample(text, "weir_error_log_dropped_lines_total", "counter", help, &format!(" {lines}"));
}

fn sample(text: &mut String, name: &str, kind: &str, help: &str, labels_and_value: &str) {
    header(text, name, kind, help);
    line(text, name, labels_and_value);
}

fn header(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels_and_value: &str) {
    let _ = writeln!(text, "{name}{labels_and_value}");
}
