//! Commands of a Redis client, read in pieces of any size: arrays of bulk strings. Inline commands are
//! refused, as in APISIX. It keeps the beginning of one argument at a time.

use std::borrow::Cow;

/// Most arguments of a command, and most bytes of one: the limits of Redis itself.
const ARGUMENTS_MAX: u64 = 1024 * 1024;
const ARGUMENT_MAX_BYTES: u64 = 512 * 1024 * 1024;
/// How much of an argument is kept: keys of rules are no longer.
const KEPT_MAX_BYTES: usize = super::faults::KEY_MAX_BYTES;
/// Most digits of a length.
const DIGITS_MAX: usize = 10;

/// The receiver of what is read.
pub(super) trait CommandReceiver {
    /// An argument with its number and their count. Of a long one `kept` is the beginning, `length` the whole
    /// length.
    fn argument(&mut self, index: usize, count: usize, kept: &[u8], length: usize);
    /// The command is complete.
    fn complete(&mut self);
}

/// See the module.
#[derive(Debug)]
pub(super) struct RequestReader {
    state: RequestReaderState,
    index: usize,
    count: usize,
    kept: Vec<u8>,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
enum RequestReaderState {
    /// A length behind this letter: the letter itself if no digit was read.
    Number { letter: u8, is_begun: bool, value: u64, digits: usize, has_cr: bool },
    /// So many bytes of an argument are missing.
    Argument { left: usize },
    /// The line end behind an argument.
    End { has_cr: bool },
}

const fn number(letter: u8) -> RequestReaderState {
    RequestReaderState::Number { letter, is_begun: false, value: 0, digits: 0, has_cr: false }
}

impl Default for RequestReader {
    fn default() -> RequestReader {
        RequestReader { state: number(b'*'), index: 0, count: 0, kept: Vec::new(), length: 0 }
    }
}

impl RequestReader {
    /// Reads on.
    ///
    /// # Errors
    /// The bytes are no commands.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        receiver: &mut impl CommandReceiver,
    ) -> Result<(), Cow<'static, str>> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match &mut self.state {
                RequestReaderState::Argument { left } => {
                    let taken = (*left).min(bytes.len());
                    let kept = taken.min(KEPT_MAX_BYTES - self.kept.len());
                    self.kept.extend_from_slice(&bytes[..kept]);
                    *left -= taken;
                    if *left == 0 {
                        self.state = RequestReaderState::End { has_cr: false };
                    }
                    bytes = &bytes[taken..];
                    continue;
                }
                RequestReaderState::End { has_cr: false } if byte == b'\r' => {
                    self.state = RequestReaderState::End { has_cr: true }
                }
                RequestReaderState::End { has_cr: true } if byte == b'\n' => self.end_argument(receiver),
                RequestReaderState::End { .. } => return Err("an argument is longer than its length".into()),
                RequestReaderState::Number { letter, is_begun, value, digits, has_cr } => match byte {
                    byte if !*is_begun && byte == *letter => *is_begun = true,
                    _ if !*is_begun => {
                        return Err(match letter {
                            b'*' => "the client sends no array of RESP".into(),
                            _ => "a command has an argument that is no bulk string".into(),
                        });
                    }
                    b'0'..=b'9' if !*has_cr && *digits < DIGITS_MAX => {
                        *value = *value * 10 + u64::from(byte - b'0');
                        *digits += 1;
                    }
                    b'\r' if !*has_cr && *digits > 0 => *has_cr = true,
                    b'\n' if *has_cr => {
                        let (letter, value) = (*letter, *value);
                        self.begin(letter, value)?;
                    }
                    _ => return Err("a length of a command is malformed".into()),
                },
            }
            bytes = rest;
        }
        Ok(())
    }

    fn begin(&mut self, letter: u8, value: u64) -> Result<(), Cow<'static, str>> {
        if letter == b'*' {
            if !(1..=ARGUMENTS_MAX).contains(&value) {
                return Err(format!("a command has {value} arguments").into());
            }
            (self.index, self.count) = (0, usize::try_from(value).unwrap_or(usize::MAX));
            self.state = number(b'$');
            return Ok(());
        }
        if value > ARGUMENT_MAX_BYTES {
            return Err(format!("an argument has {value} bytes").into());
        }
        self.length = usize::try_from(value).unwrap_or(usize::MAX);
        self.kept.clear();
        self.state = match self.length {
            0 => RequestReaderState::End { has_cr: false },
            left => RequestReaderState::Argument { left },
        };
        Ok(())
    }

    fn end_argument(&mut self, receiver: &mut impl CommandReceiver) {
        receiver.argument(self.index, self.count, &self.kept, self.length);
        self.index += 1;
        if self.index < self.count {
            self.state = number(b'$');
        } else {
            receiver.complete();
            self.state = number(b'*');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct RecordedCommands(Vec<String>);

    impl CommandReceiver for RecordedCommands {
        fn argument(&mut self, index: usize, count: usize, kept: &[u8], length: usize) {
            self.0.push(format!("{index}/{count} {} {length}", kept.escape_ascii()));
        }

        fn complete(&mut self) {
            self.0.push("complete".to_owned());
        }
    }

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let (mut reader, mut recorded) = (RequestReader::default(), RecordedCommands::default());
        for part in bytes.chunks(piece) {
            reader.feed(part, &mut recorded).map_err(Cow::into_owned)?;
        }
        Ok(recorded.0)
    }

    #[test]
    fn commands_are_read_however_they_are_cut() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nb:\r\n*1\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGE";
        let expected =
            ["0/2 GET 3", "1/2 a\\r\\nb: 5", "complete", "0/1  0", "complete", "0/1 PING 4", "complete"];
        for piece in 1..=bytes.len() {
            assert_eq!(read(bytes, piece).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn long_argument_is_kept_in_part() {
        let bytes = [&b"*1\r\n$5000\r\n"[..], &[b'x'; 5_000], b"\r\n"].concat();
        let expected = format!("0/1 {} 5000", "x".repeat(KEPT_MAX_BYTES));
        assert_eq!(read(&bytes, 999).unwrap(), [expected, "complete".to_owned()]);
    }

    #[test]
    fn other_bytes_are_refused() {
        for (bytes, reason) in [
            (&b"PING\r\n"[..], "no array"),
            (b"\r\n", "no array"),
            (b"*0\r\n", "0 arguments"),
            (b"*-1\r\n", "malformed"),
            (b"*1e9\r\n", "malformed"),
            (b"*\r\n", "malformed"),
            (b"*1\n", "malformed"),
            (b"*9999999\r\n", "9999999 arguments"),
            (b"*11111111111\r\n", "malformed"),
            (b"*1\r\n:1\r\n", "no bulk string"),
            (b"*1\r\n$-1\r\n", "malformed"),
            (b"*1\r\n$9999999999\r\n", "9999999999 bytes"),
            (b"*1\r\n$1\r\nab\r\n", "longer than its length"),
            (b"*1\r\n$1\r\na\rb", "longer than its length"),
        ] {
            for piece in [1, bytes.len()] {
                let message = read(bytes, piece).unwrap_err();
                assert!(message.contains(reason), "{}: {message}", bytes.escape_ascii());
            }
        }
    }
}
