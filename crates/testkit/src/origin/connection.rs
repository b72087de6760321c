//! One connection to a scripted origin: reads requests and runs the steps of the script.

use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::time::Duration;

use peer::body::Body;

use super::{Request, RunsAt, Script, Shared, Step};
use crate::wait::WAIT_LIMIT;
use crate::wire::{Head, Wire, bad};

/// Serves one connection until it ends. An error ends it, which the test notices at the other end.
pub(crate) fn serve(stream: TcpStream, number: usize, runs_at: RunsAt, script: &Script, shared: &Shared) {
    let limits = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(IDLE_LIMIT)))
        .and_then(|()| stream.set_write_timeout(Some(WAIT_LIMIT)));
    if limits.is_err() {
        return;
    }
    let mut connection = Connection { wire: Wire::new(stream), shared, pending: None };
    if runs_at == RunsAt::Accept {
        let mut request = Request { connection: number, ..Request::default() };
        let steps = script(&request).steps;
        let _ = connection.run(steps, &mut request);
        return;
    }
    while let Some(mut request) = connection.next_request(number) {
        if runs_at == RunsAt::Body {
            connection.read_body(&mut request);
            shared.record(request.clone());
        }
        let steps = script(&request).steps;
        let end = connection.run(steps, &mut request);
        if runs_at == RunsAt::Head {
            connection.read_body(&mut request);
            shared.record(request.clone());
        }
        if end.is_break() || request.body_error.is_some() {
            return;
        }
    }
}

struct Connection<'a> {
    wire: Wire,
    shared: &'a Shared,
    /// A body that was not read yet.
    pending: Option<Body>,
}

impl Connection<'_> {
    /// The next request; `None` at the end of the connection. Malformed bytes are recorded as a request
    /// without a method, so that a test that counts requests notices them.
    fn next_request(&mut self, number: usize) -> Option<Request> {
        self.wire.start_record();
        let outcome = match self.wire.read_head() {
            Ok(None) => return None,
            Ok(Some(head)) => request_of(head, number, &mut self.pending),
            Err(error) => Err(error),
        };
        let error = match outcome {
            Ok(request) => return Some(request),
            Err(error) => error,
        };
        let raw_head = self.wire.received();
        if !raw_head.is_empty() {
            let body_error = Some(format!("not a request: {error}"));
            self.shared.record(Request { connection: number, raw_head, body_error, ..Request::default() });
        }
        None
    }

    fn run(&mut self, steps: Vec<Step>, request: &mut Request) -> ControlFlow<()> {
        for step in steps {
            match self.step(step, request) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Break(()),
                Err(error) => {
                    request.body_error.get_or_insert_with(|| error.to_string());
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Runs one step; false if it ended the connection.
    fn step(&mut self, step: Step, request: &mut Request) -> io::Result<bool> {
        match step {
            Step::Send(bytes) => self.write(&bytes)?,
            Step::Repeat(bytes, times) => {
                for _ in 0..times {
                    self.write(&bytes)?;
                }
            }
            Step::Wait(signal) => return Ok(signal.wait()),
            Step::Set(signal) => signal.set(),
            Step::ReadBody => self.read_body(request),
            Step::ReadBytes(length) => {
                self.wire.read_body(Body::of_length(length as u64), 0)?;
            }
            Step::Echo => self.echo()?,
            Step::AwaitClose => {
                self.wire.read_body(Body::UNTIL_CLOSED, 0)?;
            }
            Step::FinishSending => self.wire.stream.shutdown(Shutdown::Write)?,
            Step::Close => {
                self.pending = None;
                self.wire.stream.shutdown(Shutdown::Both)?;
                return Ok(false);
            }
            Step::Reset => {
                self.pending = None;
                // SO_LINGER with zero seconds turns the following close into a reset.
                rustix::net::sockopt::set_socket_linger(&self.wire.stream, Some(Duration::ZERO))?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the body that the head announced, unless it has been read.
    fn read_body(&mut self, request: &mut Request) {
        let Some(body) = self.pending.take() else { return };
        match self.wire.read_body(body, KEPT_BODY_BYTES) {
            Ok(content) => {
                request.body = content.kept;
                request.body_length = content.length;
                request.trailers = content.trailers;
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                request.body_error = Some(format!("not a body: {error}"));
            }
            Err(error) => request.body_error = Some(error.to_string()),
        }
    }

    fn echo(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.wire.take(self.wire.ahead().len());
            self.write(&bytes)?;
            if !self.wire.fill()? {
                return Ok(());
            }
        }
    }

    /// Writes all bytes, and counts those that the kernel has accepted.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.wire.stream.write(bytes)?;
            self.shared.count_written(written);
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

/// The request of a head; its body is left in `pending`.
fn request_of(head: Head, connection: usize, pending: &mut Option<Body>) -> io::Result<Request> {
    let words: Vec<&str> = head.start_line.split(' ').collect();
    let &[method, target, version] = words.as_slice() else {
        return Err(bad(&format!("request line {:?}", head.start_line)));
    };
    if method.is_empty() || target.is_empty() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(bad(&format!("request line {:?}", head.start_line)));
    }
    *pending = head.announced()?;
    Ok(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        version: version.to_owned(),
        headers: head.headers,
        raw_head: head.raw,
        connection,
        ..Request::default()
    })
}

/// Bytes of a request body that are kept for the test.
const KEPT_BODY_BYTES: usize = 1024 * 1024;
/// Idle timeout of a kept connection: longer than a test takes, and short enough that the threads end.
const IDLE_LIMIT: Duration = Duration::from_secs(120);
