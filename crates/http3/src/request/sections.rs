//! Field sections of a request stream: heads, interim heads and trailers, and what they do to the state of
//! the message. It does not know frames and the rules of fields.

use message::Method;
use multiplex::{HeadReader, Parsed, Section, StoredHead, pool};

use super::{RequestEvent, RequestReader, Side};
use crate::{Connection, ConnectionError, ErrorCode, Fault, Limits, StreamError, qpack};

impl RequestReader {
    /// Decodes a section and applies it.
    pub(super) fn section(
        &mut self,
        connection: &Connection,
        block: &[u8],
    ) -> Result<Option<RequestEvent>, Fault> {
        let config = connection.config();
        let section = match self.side {
            Side::Body | Side::Trailers => Section::Trailers,
            Side::Head if self.is_server => Section::Request { extended: config.extended_connect },
            Side::Head => Section::Response,
        };
        let mut reader = HeadReader::new(section, config.head);
        qpack::decode(block, &mut reader)
            .map_err(|error| ConnectionError::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, error.reason()))?;
        let head = match reader.finish() {
            Parsed::Good(head) => head,
            Parsed::Malformed(reason, head) => {
                self.keep_refused(head);
                return Err(StreamError::message(reason).into());
            }
            Parsed::TooLarge(head) => {
                self.keep_refused(head);
                return self.section_too_large().map(Some);
            }
        };
        match section {
            Section::Request { .. } => self.request(&head),
            Section::Response => self.response(&head)?,
            Section::Trailers => {
                self.take_over_trailers(head);
                return Ok(None);
            }
        }
        if let Some(earlier) = self.head.replace(head) {
            pool::give_head(earlier);
        }
        Ok(Some(RequestEvent::Head))
    }

    /// Keeps the texts of a refused request.
    #[cold]
    fn keep_refused(&mut self, head: Box<StoredHead>) {
        if self.is_server && self.side == Side::Head {
            self.refused = Some(head);
        } else {
            pool::give_head(head);
        }
    }

    /// A section that is larger than its limit before or after it was decoded. A server can answer a request.
    pub(super) fn section_too_large(&mut self) -> Result<RequestEvent, Fault> {
        let reason = match self.side {
            Side::Head if self.is_server => {
                self.close();
                return Ok(RequestEvent::HeadTooLarge);
            }
            Side::Head => "response head too large",
            Side::Body | Side::Trailers => "trailers too large",
        };
        Err(StreamError::new(ErrorCode::EXCESSIVE_LOAD, reason).into())
    }

    fn request(&mut self, head: &StoredHead) {
        self.content_length = head.content_length;
        self.is_tunnel = head.method == Method::Connect;
        self.side = Side::Body;
    }

    /// Checks a response head against the state of the stream and takes over what follows from it.
    fn response(&mut self, head: &StoredHead) -> Result<(), StreamError> {
        if head.status < 200 {
            self.interim_heads += 1;
            if self.interim_heads > Limits::INTERIM_HEADS {
                return Err(StreamError::new(ErrorCode::EXCESSIVE_LOAD, "too many interim responses"));
            }
            return Ok(());
        }
        self.is_tunnel = self.asked == Method::Connect && head.status < 300;
        self.has_no_content = self.asked == Method::Head || matches!(head.status, 204 | 304);
        // The length of a tunnel's response has no meaning (RFC 9110 section 9.3.6).
        self.content_length = head.content_length.filter(|_| !self.is_tunnel);
        self.side = Side::Body;
        Ok(())
    }

    fn take_over_trailers(&mut self, head: Box<StoredHead>) {
        self.side = Side::Trailers;
        if head.headers.is_empty() {
            pool::give_head(head);
        } else {
            self.trailers = Some(head);
        }
    }
}
