//! From the bytes of a request stream to frames: frames in parts, which frame may come now, and the end of
//! the stream. It does not know the fields of a section.

use multiplex::pool;

use super::{Reading, RequestEvent, RequestReader, Side, Step};
use crate::flood::Cost;
use crate::frame::{self, FrameHeader, kind};
use crate::{Connection, ConnectionError, ErrorCode, Fault, Limits, StreamError};

impl RequestReader {
    /// Takes bytes of the stream, up to the next event. The driver calls again with the rest of them. After a
    /// stream error and a head that is too large everything is dropped.
    ///
    /// # Errors
    /// The peer broke a rule of the stream or of the connection.
    pub fn read(&mut self, connection: &mut Connection, input: &[u8]) -> Result<Step, Fault> {
        connection.check_failure()?;
        let mut rest = input;
        let event =
            self.next(connection, &mut rest, input.len()).map_err(|fault| self.fail(connection, fault))?;
        Ok(Step { consumed: input.len() - rest.len(), event })
    }

    /// Says that the peer ended the stream. The message is complete if there is no error; trailers may be
    /// there.
    ///
    /// # Errors
    /// The stream ended inside a frame (an error of the connection) or inside the message.
    pub fn finish(&mut self, connection: &mut Connection) -> Result<(), Fault> {
        connection.check_failure()?;
        self.check_end().map_err(|fault| self.fail(connection, fault))
    }

    fn next(
        &mut self,
        connection: &mut Connection,
        rest: &mut &[u8],
        total: usize,
    ) -> Result<Option<RequestEvent>, Fault> {
        loop {
            match self.reading {
                Reading::Header => {
                    let Some(header) = self.partial.read(rest, frame::read_header) else { return Ok(None) };
                    let event = self.header(connection, header)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                Reading::Section(length) => {
                    let missing = length - self.block.len();
                    let (part, behind) = rest.split_at(missing.min(rest.len()));
                    *rest = behind;
                    if part.len() < missing {
                        self.keep(part);
                        return Ok(None);
                    }
                    self.reading = Reading::Header;
                    let event = self.whole_section(connection, part)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                Reading::Data(left) => {
                    let start = total - rest.len();
                    let count = take(rest, left);
                    if count == 0 {
                        return Ok(None);
                    }
                    self.reading = if count < left { Reading::Data(left - count) } else { Reading::Header };
                    return Ok(Some(RequestEvent::Data(start..total - rest.len())));
                }
                Reading::Skip(left) => {
                    let count = take(rest, left);
                    if count < left {
                        self.reading = Reading::Skip(left - count);
                        return Ok(None);
                    }
                    self.reading = Reading::Header;
                }
                Reading::Closed => {
                    *rest = &[];
                    return Ok(None);
                }
            }
        }
    }

    /// Checks whether a frame may come now, before its payload.
    fn header(
        &mut self,
        connection: &mut Connection,
        header: FrameHeader,
    ) -> Result<Option<RequestEvent>, Fault> {
        match header.kind {
            kind::DATA => self.data_header(connection, header.length)?,
            kind::HEADERS => return self.section_header(connection, header.length),
            kind::PUSH_PROMISE if !self.is_server => {
                return Err(ConnectionError::new(ErrorCode::ID_ERROR, "push without MAX_PUSH_ID").into());
            }
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {
                return Err(ConnectionError::unexpected("a control frame on a request stream").into());
            }
            one if kind::HTTP2.contains(&one) => {
                return Err(ConnectionError::unexpected("a frame type of HTTP/2").into());
            }
            _ => {
                connection.unknown_frame(header.length)?;
                self.reading = Reading::Skip(header.length);
            }
        }
        Ok(None)
    }

    fn data_header(&mut self, connection: &mut Connection, length: u64) -> Result<(), Fault> {
        match self.side {
            Side::Head => return Err(ConnectionError::unexpected("DATA before the head").into()),
            Side::Trailers => return Err(ConnectionError::unexpected("DATA behind the trailers").into()),
            Side::Body => {}
        }
        if length == 0 {
            connection.charge(Cost::EmptyData)?;
            let since_ms = connection.interval_start_ms();
            if std::mem::replace(&mut self.empty_since_ms, since_ms) != since_ms {
                self.empty_frames = 0;
            }
            self.empty_frames += 1;
            if self.empty_frames > Limits::EMPTY_DATA {
                let reason = "too many empty DATA frames in a row";
                return Err(StreamError::new(ErrorCode::EXCESSIVE_LOAD, reason).into());
            }
            return Ok(());
        }
        connection.data_frame();
        self.empty_frames = 0;
        self.received_bytes = self.received_bytes.saturating_add(length);
        let is_beyond = self.content_length.is_some_and(|announced| self.received_bytes > announced);
        if self.has_no_content || is_beyond {
            return Err(StreamError::message(LENGTH_DIFFERS).into());
        }
        self.reading = Reading::Data(length);
        Ok(())
    }

    fn section_header(
        &mut self,
        connection: &mut Connection,
        length: u64,
    ) -> Result<Option<RequestEvent>, Fault> {
        match self.side {
            Side::Trailers => return Err(ConnectionError::unexpected("HEADERS behind the trailers").into()),
            Side::Body if self.is_tunnel => {
                return Err(ConnectionError::unexpected("HEADERS in a tunnel").into());
            }
            Side::Head | Side::Body => {}
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > connection.config().block_bytes() {
            return self.section_too_large().map(Some);
        }
        self.reading = Reading::Section(length);
        Ok(None)
    }

    fn keep(&mut self, part: &[u8]) {
        if self.block.capacity() == 0 {
            self.block = pool::take_bytes();
        }
        self.block.extend_from_slice(part);
    }

    /// Handles a whole section, of which `part` is the end.
    fn whole_section(
        &mut self,
        connection: &mut Connection,
        part: &[u8],
    ) -> Result<Option<RequestEvent>, Fault> {
        if self.block.is_empty() {
            return self.section(connection, part);
        }
        let mut block = std::mem::take(&mut self.block);
        block.extend_from_slice(part);
        let result = self.section(connection, &block);
        pool::give_bytes(block);
        result
    }

    fn check_end(&mut self) -> Result<(), Fault> {
        match self.reading {
            Reading::Closed => return Ok(()),
            Reading::Header if !self.partial.is_some() => {}
            _ => return Err(ConnectionError::frame("the stream ended inside a frame").into()),
        }
        if self.side == Side::Head {
            return Err(if self.is_server {
                StreamError::new(ErrorCode::REQUEST_INCOMPLETE, "the stream ended before the request").into()
            } else {
                StreamError::message("the stream ended before the response").into()
            });
        }
        let is_short = self.content_length.is_some_and(|announced| announced != self.received_bytes);
        if is_short && !self.has_no_content {
            return Err(StreamError::message(LENGTH_DIFFERS).into());
        }
        Ok(())
    }

    /// Ends the reading. Streams that the peer's faults end are counted.
    fn fail(&mut self, connection: &mut Connection, fault: Fault) -> Fault {
        self.close();
        match fault {
            Fault::Connection(error) => Fault::Connection(connection.fail(error)),
            Fault::Stream(_) => match connection.charge(Cost::LocalReset) {
                Ok(()) => fault,
                Err(error) => Fault::Connection(error),
            },
        }
    }

    /// Drops what was read; further input is dropped.
    pub(super) fn close(&mut self) {
        self.reading = Reading::Closed;
        pool::give_bytes(std::mem::take(&mut self.block));
        self.head.take().into_iter().chain(self.trailers.take()).for_each(pool::give_head);
    }
}

/// Moves `rest` behind at most `count` bytes; how many there are.
fn take(rest: &mut &[u8], count: u64) -> u64 {
    let count = count.min(rest.len() as u64);
    *rest = &rest[count as usize..];
    count
}

const LENGTH_DIFFERS: &str = "Content-Length differs from the content";
