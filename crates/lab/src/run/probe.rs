//! One request through a gateway, to check that it is up and forwards the origin's response. It measures
//! nothing. It uses curl, which shares no code with the contenders. Debian's curl speaks no HTTP/3: there the
//! TCP side of the same address is asked, and the load generator checks every answer.

pub(super) mod bytes;

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::scenario::ScenarioProtocol;

/// Responses that a gateway must forward unchanged before it is measured.
pub(super) fn paths(protocol: ScenarioProtocol) -> [&'static str; 2] {
    match protocol {
        ScenarioProtocol::Grpc => ["/lab.Echo/Unary", "/lab.Echo/Stream3"],
        // No path: see `bytes`.
        ScenarioProtocol::Tcp | ScenarioProtocol::Udp | ScenarioProtocol::TlsByName => ["", ""],
        _ => ["/checked-out", "/sample.html"],
    }
}

/// Sends one request; returns the body. Fails unless the response is a 200, and the status of a call OK.
pub(super) fn probe_gateway(
    protocol: ScenarioProtocol,
    address: SocketAddr,
    path: &str,
) -> anyhow::Result<Vec<u8>> {
    if protocol.is_layer4() {
        return bytes::probe_layer4(protocol, address);
    }
    let (scheme, version) = match protocol {
        ScenarioProtocol::Http | ScenarioProtocol::Websocket => ("http", "--http1.1"),
        ScenarioProtocol::Https => ("https", "--http1.1"),
        ScenarioProtocol::Http2 | ScenarioProtocol::Http3 => ("https", "--http2"),
        ScenarioProtocol::H2c | ScenarioProtocol::Grpc => ("http", "--http2-prior-knowledge"),
        ScenarioProtocol::Tcp | ScenarioProtocol::Udp | ScenarioProtocol::TlsByName => {
            bail!("bytes are no request")
        }
    };
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--insecure",
        "--noproxy",
        "*",
        "--max-time",
        LIMIT_SECONDS,
        version,
    ]);
    command.args(["--write-out", "%{stderr}%{http_code}", &format!("{scheme}://{address}{path}")]);
    if protocol == ScenarioProtocol::Grpc {
        // Trailers are written behind the fields of the head.
        command.args(["--dump-header", "/dev/stderr", "--data-binary", "@-"]);
        command.args(["--header", "content-type: application/grpc", "--header", "te: trailers"]);
    }
    let output = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            if let Some(mut input) = child.stdin.take().filter(|_| protocol == ScenarioProtocol::Grpc) {
                input.write_all(MESSAGE)?;
            }
            child.wait_with_output()
        })
        .context("curl cannot be run; it is in Debian's package curl: apt-get install curl")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let status = stderr.trim().get(stderr.trim().len().saturating_sub(3)..).unwrap_or("");
    if status != "200" {
        bail!("{path} is answered with {}", if status == "000" { stderr.trim() } else { status });
    }
    if protocol == ScenarioProtocol::Grpc {
        match grpc_status(&stderr) {
            Some("0") => {}
            Some(other) => bail!("the call {path} ends with grpc-status {other}"),
            None => bail!("the call {path} ends without grpc-status"),
        }
    }
    Ok(output.stdout)
}

/// The status of a call in the fields and trailers of its response.
fn grpc_status(fields: &str) -> Option<&str> {
    fields.lines().find_map(|line| line.strip_prefix("grpc-status:")).map(str::trim)
}

/// Time limit of the response.
const LIMIT_SECONDS: &str = "5";
/// A message of gRPC of four bytes.
const MESSAGE: &[u8] = b"\0\0\0\0\x04ping";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_call_is_found() {
        let head = "HTTP/2 200 \r\ncontent-type: application/grpc\r\n\r\n";
        assert_eq!(grpc_status(&format!("{head}grpc-status: 0\r\n\r\n200")), Some("0"));
        assert_eq!(grpc_status("HTTP/2 200 \r\ngrpc-status: 14\r\ngrpc-message: x\r\n\r\n200"), Some("14"));
        assert_eq!(grpc_status(head), None);
    }
}
