//! One request through a gateway, to check that it is up and forwards the origin's response. It measures nothing. It
//! uses curl, which speaks every protocol and shares no code with the contenders.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::scenario::Protocol;

/// Time limit of the response.
const LIMIT_SECONDS: &str = "5";

/// Sends one request; returns the body. Fails unless the response is a 200.
pub(super) fn ask(protocol: Protocol, address: SocketAddr, path: &str) -> anyhow::Result<Vec<u8>> {
    let (scheme, version) = match protocol {
        Protocol::Http | Protocol::Websocket => ("http", "--http1.1"),
        Protocol::Https => ("https", "--http1.1"),
        Protocol::Http2 => ("https", "--http2"),
        Protocol::H2c | Protocol::Grpc => ("http", "--http2-prior-knowledge"),
        Protocol::Http3 => ("https", "--http3-only"),
    };
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--insecure",
            "--noproxy",
            "*",
            "--max-time",
            LIMIT_SECONDS,
            version,
        ])
        .args(["--write-out", "%{stderr}%{http_code}", &format!("{scheme}://{address}{path}")])
        .stdin(Stdio::null())
        .output()
        .context("curl is missing; it is in Debian's package curl: apt-get install curl")?;
    let told = String::from_utf8_lossy(&output.stderr);
    let status = told.trim().get(told.trim().len().saturating_sub(3)..).unwrap_or("");
    if status != "200" {
        bail!("{path} is answered with {}", if status == "000" { told.trim() } else { status });
    }
    Ok(output.stdout)
}
