//! A single request on a blocking connection of its own, for a body to compare with.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail};
use peer::Fault;

use super::reading::ResponseParser;
use super::target::LoadTarget;

/// Sends one request; returns status and body. Fails if no complete response arrives in time.
pub fn fetch(target: &LoadTarget, timeout: Duration) -> anyhow::Result<(u16, Vec<u8>)> {
    let address = target.address;
    if target.is_tls {
        bail!("a single answer is asked for without TLS only: write http://HOST:PORT/PATH");
    }
    let mut stream = TcpStream::connect_timeout(&address, timeout)
        .with_context(|| format!("cannot connect to {address}: is it running?"))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let LoadTarget { host, path, .. } = target;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).with_context(|| format!("{address} does not take a request"))?;
    let (mut reading, mut body, mut buffer) = (ResponseParser::default(), Vec::new(), vec![0; BUFFER_BYTES]);
    while !reading.is_whole() {
        let bytes = stream.read(&mut buffer).with_context(|| format!("{address} does not answer"))?;
        if bytes == 0 {
            if !reading.take_end() {
                bail!("{address} closed the connection in the middle of an answer");
            }
            break;
        }
        let taken = reading.take(&buffer[..bytes], |_, piece| body.extend_from_slice(piece));
        if let Err(Fault(fault)) = taken {
            bail!("what {address} answers is no HTTP/1: {fault}");
        }
    }
    Ok((reading.status, body))
}

const BUFFER_BYTES: usize = 64 * 1024;
