//! Replies of a Redis server, read in pieces of any size: the types of RESP 2 and 3, nested. It keeps the
//! first words of a reply, which tell messages of subscriptions apart, and no values.

use std::borrow::Cow;

/// Most levels of arrays inside each other. Replies of Redis have five or six.
const DEPTH_MAX: usize = 64;
/// Most digits of a length, its sign among them.
const DIGITS_MAX: usize = 20;
/// Longest line of a text, an error or a number. Errors of scripts hold whole messages of users.
const LINE_MAX_BYTES: usize = 64 * 1_024;
/// How much of the first element is kept: the longest word of interest is `punsubscribe`.
const WORD_MAX_BYTES: usize = 16;

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedisReply<'r> {
    /// Pushed by the server, so that it answers no command (RESP 3).
    pub(super) is_push: bool,
    /// The first element of an array, if it is a text.
    pub(super) word: &'r [u8],
    /// The third element of an array, if it is a number.
    pub(super) number: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReplyReader {
    state: ReplyReaderState,
    /// The values that are missing at each level.
    levels: Vec<ReplyLevel>,
    is_push: bool,
    word: Vec<u8>,
    number: Option<i64>,
}

#[derive(Debug)]
struct ReplyLevel {
    left: u64,
    /// Elements so far.
    index: u64,
    /// A map in front of a value, which is no value itself.
    is_attribute: bool,
}

#[derive(Debug, Default)]
enum ReplyReaderState {
    /// The letter of a type.
    #[default]
    Letter,
    /// A line: its letter, its beginning, and its length so far.
    Line { letter: u8, text: Vec<u8>, length: usize, has_cr: bool },
    /// So many bytes of a text, then a line end.
    Text { left: u64 },
    /// The line end behind a text.
    End { has_cr: bool },
}

type RedisReplyFault = Cow<'static, str>;

impl ReplyReader {
    /// Reads on; `complete` gets each whole reply.
    ///
    /// # Errors
    /// The bytes are no replies.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        complete: &mut impl FnMut(RedisReply<'_>),
    ) -> Result<(), RedisReplyFault> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match &mut self.state {
                ReplyReaderState::Letter => self.begin(byte)?,
                ReplyReaderState::Text { left } => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= taken as u64;
                    let is_whole = *left == 0;
                    if is_word(&self.levels) {
                        let kept = taken.min(WORD_MAX_BYTES - self.word.len());
                        self.word.extend_from_slice(&bytes[..kept]);
                    }
                    if is_whole {
                        self.state = ReplyReaderState::End { has_cr: false };
                    }
                    bytes = &bytes[taken..];
                    continue;
                }
                ReplyReaderState::End { has_cr } => match (*has_cr, byte) {
                    (false, b'\r') => *has_cr = true,
                    (true, b'\n') => self.end_value(complete),
                    _ => return Err("a text of a reply is longer than its length".into()),
                },
                ReplyReaderState::Line { text, length, has_cr, .. } => match (*has_cr, byte) {
                    (false, b'\r') => *has_cr = true,
                    (true, b'\n') => self.end_line(complete)?,
                    (true, _) => return Err("a line of a reply has a lone CR".into()),
                    (false, byte) => {
                        if *length == LINE_MAX_BYTES {
                            return Err(
                                format!("a line of a reply has more than {LINE_MAX_BYTES} bytes").into()
                            );
                        }
                        *length += 1;
                        if text.len() < DIGITS_MAX {
                            text.push(byte);
                        }
                    }
                },
            }
            bytes = rest;
        }
        Ok(())
    }

    fn begin(&mut self, letter: u8) -> Result<(), RedisReplyFault> {
        if !b"+-:$*_,#!=(%~>|".contains(&letter) {
            return Err(format!("a reply has the unknown type `{}`", letter.escape_ascii()).into());
        }
        if self.levels.is_empty() {
            self.is_push = letter == b'>';
            self.word.clear();
            self.number = None;
        }
        self.state = ReplyReaderState::Line { letter, text: Vec::new(), length: 0, has_cr: false };
        Ok(())
    }

    fn end_line(&mut self, complete: &mut impl FnMut(RedisReply<'_>)) -> Result<(), RedisReplyFault> {
        let ReplyReaderState::Line { letter, text, length, .. } = std::mem::take(&mut self.state) else {
            return Ok(());
        };
        let number = || -> Result<Option<u64>, RedisReplyFault> {
            let written = str::from_utf8(&text).ok().filter(|_| length == text.len());
            match written.and_then(|text| text.parse::<i64>().ok()) {
                Some(-1) => Ok(None),
                Some(number) => {
                    u64::try_from(number).map(Some).map_err(|_| "a length of a reply is negative".into())
                }
                None => Err("a length of a reply is malformed".into()),
            }
        };
        let aggregate = |factor: u64| -> Result<Option<u64>, RedisReplyFault> {
            Ok(number()?.map(|count| count.saturating_mul(factor)))
        };
        match letter {
            b'$' | b'!' | b'=' => match number()? {
                None => self.end_value(complete),
                Some(0) => self.state = ReplyReaderState::End { has_cr: false },
                Some(left) => self.state = ReplyReaderState::Text { left },
            },
            b'*' | b'~' | b'>' => {
                let count = aggregate(1)?;
                self.open(count, false, complete)?;
            }
            b'%' => {
                let count = aggregate(2)?;
                self.open(count, false, complete)?;
            }
            b'|' => {
                let count = aggregate(2)?;
                self.open(count, true, complete)?;
            }
            b':' => {
                if let [ReplyLevel { index: 2, .. }] = self.levels[..] {
                    self.number = str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                }
                self.end_value(complete);
            }
            _ => {
                if is_word(&self.levels) {
                    self.word.extend_from_slice(&text[..text.len().min(WORD_MAX_BYTES)]);
                }
                self.end_value(complete);
            }
        }
        Ok(())
    }

    /// Begins an aggregate of `count` values; none: it is null.
    fn open(
        &mut self,
        count: Option<u64>,
        is_attribute: bool,
        complete: &mut impl FnMut(RedisReply<'_>),
    ) -> Result<(), RedisReplyFault> {
        match count {
            Some(left @ 1..) => {
                if self.levels.len() == DEPTH_MAX {
                    return Err(format!("a reply has more than {DEPTH_MAX} levels").into());
                }
                self.levels.push(ReplyLevel { left, index: 0, is_attribute });
            }
            _ if is_attribute => {}
            _ => self.end_value(complete),
        }
        Ok(())
    }

    /// A value is whole, and with it perhaps the aggregates that it is the last one of.
    fn end_value(&mut self, complete: &mut impl FnMut(RedisReply<'_>)) {
        self.state = ReplyReaderState::Letter;
        while let Some(level) = self.levels.last_mut() {
            level.left -= 1;
            level.index += 1;
            if level.left > 0 {
                return;
            }
            let is_attribute = level.is_attribute;
            self.levels.pop();
            if is_attribute {
                // The value that it belongs to follows.
                return;
            }
        }
        complete(RedisReply { is_push: self.is_push, word: &self.word, number: self.number });
    }
}

/// Whether the value is the first one of the outermost aggregate.
fn is_word(levels: &[ReplyLevel]) -> bool {
    matches!(levels, [ReplyLevel { index: 0, is_attribute: false, .. }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let (mut reader, mut replies) = (ReplyReader::default(), Vec::new());
        for part in bytes.chunks(piece) {
            let fed = reader.feed(part, &mut |reply: RedisReply<'_>| {
                let word = reply.word.escape_ascii();
                replies.push(format!(
                    "{} {word} {:?}",
                    if reply.is_push { "push" } else { "reply" },
                    reply.number
                ));
            });
            fed.map_err(Cow::into_owned)?;
        }
        Ok(replies)
    }

    #[test]
    fn replies_are_read_however_they_are_cut() {
        let cases: &[(&[u8], &[&str])] = &[
            (b"+OK\r\n-ERR no\r\n:7\r\n", &["reply  None"; 3]),
            (b"$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n", &["reply  None"; 5]),
            (b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", &["reply message None"]),
            (b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", &["reply unsubscribe Some(0)"]),
            (b"*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n$1\r\na\r\n", &["reply  None"]),
            (b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n_\r\n", &["push invalidate None", "reply  None"]),
            (
                b"%1\r\n+a\r\n,1.5\r\n#t\r\n(12345678901234567890\r\n",
                &["reply a None", "reply  None", "reply  None"],
            ),
            (b"|1\r\n+ttl\r\n:3\r\n:7\r\n", &["reply  None"]),
            (b"*2\r\n|1\r\n+k\r\n+v\r\n:1\r\n:2\r\n", &["reply  None"]),
            (b"=7\r\ntxt:abc\r\n!3\r\nERR\r\n~1\r\n+x\r\n", &["reply  None", "reply  None", "reply x None"]),
            (b"$3\r\nab", &[]),
        ];
        for (bytes, expected) in cases {
            for piece in 1..=bytes.len() {
                assert_eq!(read(bytes, piece).unwrap(), *expected, "{} in {piece}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let long = [&b"+"[..], &[b'x'; LINE_MAX_BYTES + 1]].concat();
        for (bytes, reason) in [
            (&b"HTTP/1.1 400\r\n"[..], "unknown type `H`"),
            (b"$x\r\n", "malformed"),
            (b"$\r\n", "malformed"),
            (b"$-2\r\n", "negative"),
            (b"*99999999999999999999\r\n", "malformed"),
            (b"$1\r\nab\r\n", "longer than its length"),
            (b"+a\rb\r\n", "lone CR"),
            (&deep, "more than 64 levels"),
            (&long, "more than 65536 bytes"),
        ] {
            let message = read(bytes, 7).unwrap_err();
            assert!(message.contains(reason), "{message}");
        }
    }
}
