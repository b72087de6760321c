//! Metrics of this instance that need both the gateway and the control side. The request counters are the
//! gateway's.

use gateway::engine::Engine;
use gateway::observe::log_writer::LogWriter;
use stdx::prometheus_text::{header, sample, scalar};

use crate::log::LogControl;

/// Appends the name and version of this instance, the revision that each worker runs, and how many log lines
/// were lost.
pub(super) fn write_node(
    engine: &Engine,
    error_log: &LogControl,
    access_logs: &[LogWriter],
    text: &mut String,
) {
    let system = rustix::system::uname();
    let (hostname, version) = (system.nodename().to_string_lossy(), env!("CARGO_PKG_VERSION"));
    header(text, "apisix_node_info", "gauge", "Info of this node.");
    sample(text, "apisix_node_info", &[("hostname", &hostname), ("version", &version)], 1);
    header(text, "weir_build_info", "gauge", "The version of this node.");
    sample(text, "weir_build_info", &[("version", &version)], 1);
    header(text, "weir_config_revision", "gauge", "The revision of the configuration that a worker runs.");
    for (worker, revision) in engine.revisions().into_iter().enumerate() {
        sample(text, "weir_config_revision", &[("worker", &worker)], revision);
    }
    let help = "Lines of the access logs lost because they could not be written, or not fast enough.";
    let lines: u64 = access_logs.iter().map(LogWriter::lost_lines).sum();
    scalar(text, "weir_access_log_dropped_lines_total", "counter", help, lines);
    let help = "Lines of the error log lost because they could not be written, or not fast enough.";
    scalar(text, "weir_error_log_dropped_lines_total", "counter", help, error_log.lost_lines());
}
