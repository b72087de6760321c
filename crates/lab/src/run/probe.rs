//! One request through a gateway, to see that it is up and passes on what the origin says. It measures nothing: curl
//! asks, which speaks every protocol and is nobody's own code.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::scenario::Protocol;

/// An answer that takes longer is none.
const LIMIT_SECONDS: &str = "5";

/// Asks once. Fails unless a 200 comes back; its body.
pub(super) fn ask(protocol: Protocol, address: SocketAddr, path: &str) -> anyhow::Result<Vec<u8>> {
    let (scheme, version) = match protocol {
        Protocol::Http | Protocol::Websocket => ("http", "--http1.1"),
        Protocol::Https => ("https", "--http1.1"),
        Protocol::Http2 => ("https", "--http2"),
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
