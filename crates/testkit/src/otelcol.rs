//! The collector of OpenTelemetry as a peer of a test; it prints the spans that it receives.
//! `lab/install.sh peers` builds it.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::foreign::{ATTEMPTS, free_address, go_program};
use crate::process::Process;
use crate::wait::wait_for;

/// A running collector; killed when dropped.
#[derive(Debug)]
pub struct Otelcol {
    http: SocketAddr,
    grpc: SocketAddr,
    _folder: TempDir,
    process: Process,
}

/// A span that a collector has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedSpan {
    /// The id of the trace, in hexadecimal digits.
    pub trace_id: String,
    /// The id of the span.
    pub id: String,
    /// The id of the span above it; empty without one.
    pub parent_id: String,
    /// The name.
    pub name: String,
    /// `Server`, `Client` or `Internal`.
    pub kind: String,
    /// `Unset` or `Error`.
    pub status: String,
    /// The attributes as the collector prints them: `Str(a)`, `Int(1)`.
    pub attributes: BTreeMap<String, String>,
}

impl Otelcol {
    /// Starts a collector that takes OTLP over HTTP and over gRPC.
    pub fn start() -> Otelcol {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let (http, grpc) = (free_address(), free_address());
            let file = folder.path().join("collector.yaml");
            let configuration =
                CONFIGURATION.replace("$HTTP", &http.to_string()).replace("$GRPC", &grpc.to_string());
            fs::write(&file, configuration).expect("a writable temporary directory");
            let mut command = Command::new(go_program("otelcol"));
            command.arg("--config").arg(format!("file:{}", file.display()));
            let mut process = Process::spawn(&mut command).expect("the collector can be started");
            let is_up = wait_for("the collector is ready", || {
                let is_ready = process.stderr.text().contains("Everything is ready");
                if is_ready { Some(true) } else { process.ended().map(|_| false) }
            });
            if is_up {
                return Otelcol { http, grpc, _folder: folder, process };
            }
            let errors = process.stderr.text();
            assert!(errors.contains("address already in use"), "the collector did not start: {errors}");
        }
        panic!("the collector found no free ports in {ATTEMPTS} attempts");
    }

    /// The address of OTLP over HTTP.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The address of OTLP over gRPC.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc
    }

    /// Everything that it has printed.
    pub fn output(&self) -> String {
        self.process.stderr.text()
    }

    /// All spans that it has received.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        parse(&self.output())
    }

    /// Waits for a span that `is_wanted`.
    pub fn wait_for_span(&self, is_wanted: impl Fn(&CollectedSpan) -> bool) -> CollectedSpan {
        wait_for("the collector has the span", || self.spans().into_iter().find(|span| is_wanted(span)))
    }
}

/// Reads the spans of what the debug exporter prints.
fn parse(output: &str) -> Vec<CollectedSpan> {
    let mut spans: Vec<CollectedSpan> = Vec::new();
    let mut is_in_span = false;
    for line in output.lines() {
        if line.starts_with("Span #") {
            spans.push(CollectedSpan::default());
            is_in_span = true;
            continue;
        }
        if line.contains("ResourceSpans #") {
            is_in_span = false;
        }
        let Some(span) = spans.last_mut().filter(|_| is_in_span) else { continue };
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim().to_owned();
        match name.trim() {
            "Trace ID" => span.trace_id = value,
            "ID" => span.id = value,
            "Parent ID" => span.parent_id = value,
            "Name" => span.name = value,
            "Kind" => span.kind = value,
            "Status code" => span.status = value,
            name => {
                if let Some(name) = name.strip_prefix("-> ") {
                    span.attributes.insert(name.to_owned(), value);
                }
            }
        }
    }
    spans
}

const CONFIGURATION: &str = "receivers:
  otlp:
    protocols:
      http: {endpoint: $HTTP}
      grpc: {endpoint: $GRPC}
exporters:
  debug: {verbosity: detailed}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_from_output() {
        let output = "x\tResourceSpans #0\nResource attributes:\n     -> a: Str(b)\nSpan #0\n    Trace ID       : 01\n    \
                      Parent ID      : \n    ID             : 02\n    Name           : GET /a\n    Kind           : Server\n    \
                      Status code    : Unset\nAttributes:\n     -> url.path: Str(/a:b)\nResourceSpans #1\n     -> a: Str(c)\n";
        let attributes = BTreeMap::from([("url.path".to_owned(), "Str(/a:b)".to_owned())]);
        let text = |text: &str| text.to_owned();
        let expected = CollectedSpan {
            trace_id: text("01"),
            id: text("02"),
            parent_id: text(""),
            name: text("GET /a"),
            kind: text("Server"),
            status: text("Unset"),
            attributes,
        };
        assert_eq!(parse(output), [expected]);
    }
}
