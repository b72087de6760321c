//! The body of an answer, line by line as it arrives, for watches that never end.

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;

use super::connection::Incoming;

/// The lines of one answer, with its status.
pub(crate) struct ResponseLines {
    pub(crate) status: u16,
    body: Incoming,
    buffer: BytesMut,
    /// The bytes at the start of the buffer that hold no end of a line.
    searched: usize,
    line_max_bytes: usize,
    is_over: bool,
}

impl ResponseLines {
    pub(super) fn new(status: u16, body: Incoming, line_max_bytes: usize) -> ResponseLines {
        let buffer = BytesMut::new();
        ResponseLines { status, body, buffer, searched: 0, line_max_bytes, is_over: false }
    }

    /// The next line without its end; none after the last. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The body broke off, or a line is longer than the limit of an answer.
    pub(crate) async fn next(&mut self) -> Result<Option<BytesMut>, String> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.searched + at);
                self.buffer.advance(1);
                self.searched = 0;
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.is_over {
                self.searched = 0;
                let rest = self.buffer.split();
                return Ok((!rest.is_empty()).then_some(rest));
            }
            match self.body.frame().await {
                None => self.is_over = true,
                Some(Err(error)) => return Err(format!("the answer broke off: {error}")),
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    if self.buffer.len() + data.len() > self.line_max_bytes {
                        return Err(format!("a line is longer than {} bytes", self.line_max_bytes));
                    }
                    self.buffer.extend_from_slice(&data);
                }
            }
        }
    }
}
