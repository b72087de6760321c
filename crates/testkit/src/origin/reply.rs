//! The steps of an origin for a request, as data.

use crate::signal::Signal;

/// One step of an origin.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes these bytes unchanged.
    Send(Vec<u8>),
    /// Writes these bytes repeatedly, for bodies that are too long for memory.
    Repeat(Vec<u8>, usize),
    /// Blocks until the test sets the signal.
    Wait(Signal),
    /// Sets a signal that the test waits for.
    Set(Signal),
    /// Reads the body of the request now ([`Origin::on_head`](super::Origin::on_head) only).
    ReadBody,
    /// Reads this number of bytes.
    ReadBytes(usize),
    /// Sends back every received byte until the peer stops sending, as the far end of a tunnel.
    Echo,
    /// Reads and discards until the peer closes.
    AwaitClose,
    /// Shuts down the sending side; the script can still read.
    FinishSending,
    /// Closes the connection (FIN).
    Close,
    /// Closes the connection with a reset (RST), as a crashed origin does.
    Reset,
}

/// The steps of an origin for one request, in order. Without a closing step the connection is kept for the
/// next request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub(crate) steps: Vec<Step>,
}

impl Reply {
    /// A reply without steps.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// 200 with this body.
    pub fn ok(body: &str) -> Reply {
        Reply::status(200, body)
    }

    /// A status with this body and its length.
    pub fn status(status: u16, body: &str) -> Reply {
        Reply::with(status, &[], body.as_bytes())
    }

    /// A status with these fields, a body and its length. 1xx, 204 and 304 get no length.
    pub fn with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if status >= 200 && status != 204 && status != 304 {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        Reply::raw(head.as_bytes()).send(body)
    }

    /// 200 with one chunk per item and these trailers.
    pub fn chunked(chunks: &[&str], trailers: &[(&str, &str)]) -> Reply {
        let mut bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
        for chunk in chunks {
            bytes += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
        }
        bytes += "0\r\n";
        for (name, value) in trailers {
            bytes += &format!("{name}: {value}\r\n");
        }
        Reply::raw((bytes + "\r\n").as_bytes())
    }

    /// These bytes unchanged; the connection is kept.
    pub fn raw(bytes: &[u8]) -> Reply {
        Reply::new().send(bytes)
    }

    /// A reply of these steps.
    pub fn steps(steps: impl IntoIterator<Item = Step>) -> Reply {
        Reply { steps: steps.into_iter().collect() }
    }

    /// Adds `step`.
    pub fn then(mut self, step: Step) -> Reply {
        self.steps.push(step);
        self
    }

    /// Adds a write of these bytes.
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Reply {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Adds a wait for the signal of the test.
    pub fn wait(self, signal: &Signal) -> Reply {
        self.then(Step::Wait(signal.clone()))
    }

    /// Adds a close (FIN).
    pub fn close(self) -> Reply {
        self.then(Step::Close)
    }

    /// Adds a reset (RST).
    pub fn reset(self) -> Reply {
        self.then(Step::Reset)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        304 => "Not Modified",
        404 => "Not Found",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
