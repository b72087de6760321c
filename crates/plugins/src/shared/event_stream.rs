//! Event streams (`text/event-stream`), which may never end: a plugin that edits bodies takes their events
//! one by one, or leaves the stream alone. It knows nothing of an event but its end, an empty line.

use exchange::plugin::Portion;
pub(crate) use exchange::plugin::event_stream::is_event_stream;

/// The part of a stream that is not passed on yet, because its event is not complete.
pub(crate) struct EventBuffer {
    bytes: Vec<u8>,
    /// Where the next event begins.
    begin: usize,
    /// Where the search for its end goes on.
    searched: usize,
    limit_bytes: usize,
}

impl EventBuffer {
    /// An empty buffer for events of at most `limit_bytes`.
    pub(crate) fn new(limit_bytes: usize) -> EventBuffer {
        EventBuffer { bytes: Vec::new(), begin: 0, searched: 0, limit_bytes }
    }

    /// Adds a piece of the stream.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The next complete event with the empty line behind it; at the end of the stream, the rest too.
    ///
    /// # Errors
    /// The event that is not complete yet is too long already.
    pub(crate) fn next(&mut self, portion: Portion) -> Result<Option<Vec<u8>>, String> {
        let found = (self.searched..self.bytes.len()).find_map(|at| event_end(&self.bytes, at));
        let rest = self.bytes.len() - self.begin;
        let end = match found {
            Some(end) => end,
            None if portion == Portion::Last && rest > 0 => self.bytes.len(),
            None if rest > self.limit_bytes => {
                return Err(format!("an event of the stream is longer than {} bytes", self.limit_bytes));
            }
            None => {
                self.bytes.drain(..self.begin);
                self.begin = 0;
                // An end may begin up to three bytes before the next piece.
                self.searched = self.bytes.len().saturating_sub(3);
                return Ok(None);
            }
        };
        let event = self.bytes[self.begin..end].to_vec();
        (self.begin, self.searched) = (end, end);
        Ok(Some(event))
    }
}

/// The end of an event of which the empty line begins at `at`: two line breaks, each CR LF, LF or CR.
fn event_end(bytes: &[u8], at: usize) -> Option<usize> {
    let after_first = line_break(bytes, at)?;
    line_break(bytes, after_first)
}

fn line_break(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'\n' => Some(at + 1),
        b'\r' => Some(at + 1 + usize::from(bytes.get(at + 1) == Some(&b'\n'))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream that comes in these pieces, or the reason that it fails.
    fn events(pieces: &[&str], limit_bytes: usize) -> Result<Vec<String>, String> {
        let mut buffer = EventBuffer::new(limit_bytes);
        let mut all = Vec::new();
        let pieces = pieces.iter().map(|piece| (*piece, Portion::Piece));
        for (piece, portion) in pieces.chain([("", Portion::Last)]) {
            buffer.add(piece.as_bytes());
            while let Some(event) = buffer.next(portion)? {
                all.push(String::from_utf8(event).unwrap());
            }
        }
        Ok(all)
    }

    #[test]
    fn events_are_told_by_empty_lines() {
        let check = |pieces: &[&str], expected: &[&str]| {
            assert_eq!(events(pieces, 20).unwrap(), expected, "{pieces:?}");
        };
        check(&[], &[]);
        check(&["data: a\n\ndata: b\n\n"], &["data: a\n\n", "data: b\n\n"]);
        check(&["data: a\r\n", "\r\ndata", ": b"], &["data: a\r\n\r\n", "data: b"]);
        check(&["a\r\rb\nc", "\n", "\n", "d"], &["a\r\r", "b\nc\n\n", "d"]);
        check(&["a\r", "\n", "\r", "\nb\n\n"], &["a\r\n\r", "\nb\n\n"]);
    }

    #[test]
    fn long_event_fails_the_stream() {
        assert!(events(&["0123456789\n\n0123456789", "0123456789"], 20).is_ok());
        assert!(events(&["0123456789", "0123456789", "0"], 20).is_err());
    }
}
