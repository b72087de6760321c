//! Parses HTTP/1 responses from bytes as they arrive: the status, the body in pieces, and whether the
//! connection can be used again. It does no I/O and does not know the expected response.

use peer::Fault;
use peer::body::{Body, Part};
use peer::head::{self, StatusLine};

/// The state of parsing one response, reused by [`begin`](ResponseParser::begin) with its memory.
#[derive(Debug, Default)]
pub(super) struct ResponseParser {
    /// The rest of the body; `None` until the head is complete.
    body: Option<Body>,
    /// The bytes of a head that was cut; empty while heads arrive complete.
    carried: Vec<u8>,
    /// The answer's status; known from its head on.
    pub(super) status: u16,
    /// Whether the connection can serve another request.
    pub(super) keeps: bool,
}

/// A final head: its length and meaning.
struct FinalHead {
    bytes: usize,
    status: u16,
    keeps: bool,
    body: Body,
}

impl ResponseParser {
    /// Forgets the last answer.
    pub(super) fn begin(&mut self) {
        self.body = None;
        self.carried.clear();
        self.status = 0;
        self.keeps = false;
    }

    /// Takes the next bytes, hands the pieces of the body on with the status, and returns how many bytes
    /// belonged to this answer. Bytes after an answer that [`is_whole`](ResponseParser::is_whole) belong to
    /// no request.
    pub(super) fn take(&mut self, bytes: &[u8], mut piece: impl FnMut(u16, &[u8])) -> Result<usize, Fault> {
        let used = match self.body {
            Some(_) => 0,
            None => match self.take_head(bytes)? {
                Some(taken) => taken,
                None => return Ok(bytes.len()),
            },
        };
        let (status, Some(body)) = (self.status, &mut self.body) else { return Ok(used) };
        let taken = body.take(&bytes[used..], |part| {
            if let Part::Data(data) = part {
                piece(status, data);
            }
        })?;
        Ok(used + taken)
    }

    /// Handles the server's close; returns whether the response is complete with it.
    pub(super) fn take_end(&mut self) -> bool {
        self.body.as_mut().is_some_and(Body::take_end)
    }

    /// Whether the response is complete.
    pub(super) fn is_whole(&self) -> bool {
        self.body.is_some_and(|body| body.is_whole())
    }

    /// Whether no byte of this response has arrived.
    pub(super) fn is_untouched(&self) -> bool {
        self.body.is_none() && self.carried.is_empty()
    }

    /// Parses heads up to that of the final response; returns how many of `bytes` they took, or `None` if all
    /// were taken and more are needed.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let mut used = 0;
        loop {
            let carried = self.carried.len();
            let head = if carried == 0 {
                parse_head(&bytes[used..])?
            } else {
                self.carried.extend_from_slice(&bytes[used..]);
                parse_head(&self.carried)?
            };
            let Some(head) = head else {
                if carried == 0 {
                    self.carried.extend_from_slice(&bytes[used..]);
                }
                if self.carried.len() > LONGEST_HEAD_BYTES {
                    return Err(TOO_LONG);
                }
                return Ok(None);
            };
            if head.bytes > LONGEST_HEAD_BYTES {
                return Err(TOO_LONG);
            }
            used += head.bytes - carried;
            self.carried.clear();
            // Interim responses are skipped; a 101 ends HTTP on this connection (RFC 9110 15.2).
            if (100..200).contains(&head.status) && head.status != SWITCHING_PROTOCOLS {
                if used == bytes.len() {
                    return Ok(None);
                }
                continue;
            }
            (self.status, self.keeps, self.body) = (head.status, head.keeps, Some(head.body));
            return Ok(Some(used));
        }
    }
}

/// The head at the beginning of `bytes`; `None` while it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<FinalHead>, Fault> {
    let Some(head) = head::parse(bytes, head::status_line)? else { return Ok(None) };
    let StatusLine { status, is_1_1 } = head.line;
    // RFC 9112 6.3: these responses have no body, whatever their fields say.
    let is_bodiless = status < 200 || status == 204 || status == 304;
    let announced = if is_bodiless { Some(Body::WHOLE) } else { head.facts.body()? };
    let keeps = announced.is_some() && head.facts.keeps_alive(is_1_1);
    Ok(Some(FinalHead { bytes: head.bytes, status, keeps, body: announced.unwrap_or(Body::UNTIL_CLOSED) }))
}

const TOO_LONG: Fault = Fault("a head longer than 64 KiB");
/// The longest head that is read: far above those of gateways, so that only an endless one is refused.
const LONGEST_HEAD_BYTES: usize = 64 * 1024;
const SWITCHING_PROTOCOLS: u16 = 101;

#[cfg(test)]
#[path = "reading/tests.rs"]
mod tests;
