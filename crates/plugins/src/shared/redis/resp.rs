//! RESP, the protocol of Redis, version 2: commands are written, replies are read. Sizes are limited, because
//! a reply may come from a broken server or from one that is no Redis. It opens no connection.

/// The longest reply, in bytes: a session of OpenID Connect or the slots of a large cluster fit, and a buffer
/// of each of the few connections of a worker stays small.
pub(crate) const REPLY_MAX_BYTES: usize = 1024 * 1024;
/// The most values in one array: the slots of a cluster have three for each node.
const ARRAY_MAX: usize = 16 * 1024;
/// Arrays inside arrays.
const DEPTH_MAX: usize = 8;
/// The longest line with a length, a number or an error.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// A value of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisValue {
    /// Nothing: a key that does not exist.
    Nil,
    /// A whole number.
    Integer(i64),
    /// A text or bytes; a status such as OK as well.
    Bytes(Vec<u8>),
    /// Several values.
    Array(Vec<RedisValue>),
    /// The command failed for this reason, which begins with a word in capitals.
    Error(String),
}

impl RedisValue {
    /// The number: an integer, or a text of digits.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self {
            RedisValue::Integer(number) => Some(*number),
            RedisValue::Bytes(_) => self.as_text()?.parse().ok(),
            _ => None,
        }
    }

    /// The number with its fraction.
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            RedisValue::Integer(number) => Some(*number as f64),
            RedisValue::Bytes(_) => self.as_text()?.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            RedisValue::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The values, if it is an array.
    pub(crate) fn as_array(&self) -> Option<&[RedisValue]> {
        match self {
            RedisValue::Array(values) => Some(values),
            _ => None,
        }
    }
}

/// Why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedReply(pub(crate) &'static str);

/// Appends a command with these arguments, its name first.
pub(crate) fn write_command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(number.format(arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(b"\r\n$");
        out.extend_from_slice(number.format(argument.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(argument);
    }
    out.extend_from_slice(b"\r\n");
}

/// The first reply in `bytes` and its length; nothing while it is not complete.
///
/// # Errors
/// The bytes are no reply, or a longer one than is accepted.
pub(crate) fn parse_redis_reply(bytes: &[u8]) -> Result<Option<(RedisValue, usize)>, MalformedReply> {
    let mut reader = RespReader { bytes, at: 0 };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(ReplyParseError::Incomplete) if bytes.len() > REPLY_MAX_BYTES => Err(TOO_LONG),
        Err(ReplyParseError::Incomplete) => Ok(None),
        Err(ReplyParseError::Malformed(reason)) => Err(reason),
    }
}

const TOO_LONG: MalformedReply = MalformedReply("the reply is too long");

enum ReplyParseError {
    Incomplete,
    Malformed(MalformedReply),
}

struct RespReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> RespReader<'a> {
    fn value(&mut self, depth: usize) -> Result<RedisValue, ReplyParseError> {
        let malformed = |reason| Err(ReplyParseError::Malformed(MalformedReply(reason)));
        let kind = *self.bytes.get(self.at).ok_or(ReplyParseError::Incomplete)?;
        self.at += 1;
        if !b"+-:$*".contains(&kind) {
            return malformed("the server does not speak the protocol of Redis");
        }
        let line = self.line()?;
        match kind {
            b'+' => Ok(RedisValue::Bytes(line.to_vec())),
            b'-' => Ok(RedisValue::Error(String::from_utf8_lossy(line).into_owned())),
            b':' => Ok(RedisValue::Integer(number(line)?)),
            b'$' => match number(line)? {
                -1 => Ok(RedisValue::Nil),
                length => match usize::try_from(length) {
                    Ok(length) if length <= REPLY_MAX_BYTES => self.bulk(length),
                    _ => Err(ReplyParseError::Malformed(TOO_LONG)),
                },
            },
            _ => match number(line)? {
                -1 => Ok(RedisValue::Nil),
                length => match usize::try_from(length) {
                    Ok(_) if depth == DEPTH_MAX => malformed("the reply has too many arrays inside arrays"),
                    Ok(length) if length <= ARRAY_MAX => (0..length)
                        .map(|_| self.value(depth + 1))
                        .collect::<Result<_, _>>()
                        .map(RedisValue::Array),
                    _ => Err(ReplyParseError::Malformed(TOO_LONG)),
                },
            },
        }
    }

    fn line(&mut self) -> Result<&'a [u8], ReplyParseError> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().take(LINE_MAX_BYTES).position(|byte| *byte == b'\r') else {
            let is_long = rest.len() >= LINE_MAX_BYTES;
            return Err(if is_long {
                ReplyParseError::Malformed(TOO_LONG)
            } else {
                ReplyParseError::Incomplete
            });
        };
        match rest.get(length + 1) {
            None => Err(ReplyParseError::Incomplete),
            Some(b'\n') => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            Some(_) => Err(ReplyParseError::Malformed(MalformedReply("a line of the reply has no end"))),
        }
    }

    fn bulk(&mut self, length: usize) -> Result<RedisValue, ReplyParseError> {
        let rest = &self.bytes[self.at..];
        let end = rest.get(length..length + 2).ok_or(ReplyParseError::Incomplete)?;
        if end != b"\r\n" {
            return Err(ReplyParseError::Malformed(MalformedReply("a text of the reply has another length")));
        }
        self.at += length + 2;
        Ok(RedisValue::Bytes(rest[..length].to_vec()))
    }
}

fn number(line: &[u8]) -> Result<i64, ReplyParseError> {
    let text = std::str::from_utf8(line).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(ReplyParseError::Malformed(MalformedReply("the reply has a length that is no number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> RedisValue {
        RedisValue::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn commands_are_written_as_arrays() {
        let mut out = Vec::new();
        write_command(&[b"SET", b"k", b""], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_read_once_complete() {
        let check = |text: &str, expected: RedisValue| {
            let with_more = format!("{text}+next");
            assert_eq!(parse_redis_reply(with_more.as_bytes()), Ok(Some((expected, text.len()))), "{text:?}");
            for length in 0..text.len() {
                assert_eq!(parse_redis_reply(&text.as_bytes()[..length]), Ok(None), "{:?}", &text[..length]);
            }
        };
        check("+OK\r\n", bytes("OK"));
        check("-ERR no\r\n", RedisValue::Error("ERR no".to_owned()));
        check(":-5\r\n", RedisValue::Integer(-5));
        check("$3\r\na\r\n\r\n", bytes("a\r\n"));
        check("$0\r\n\r\n", bytes(""));
        check("$-1\r\n", RedisValue::Nil);
        check("*-1\r\n", RedisValue::Nil);
        check("*0\r\n", RedisValue::Array(Vec::new()));
        check(
            "*3\r\n:1\r\n*1\r\n$1\r\na\r\n$-1\r\n",
            RedisValue::Array(vec![
                RedisValue::Integer(1),
                RedisValue::Array(vec![bytes("a")]),
                RedisValue::Nil,
            ]),
        );
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let check =
            |text: &[u8]| assert!(parse_redis_reply(text).is_err(), "{:?}", String::from_utf8_lossy(text));
        check(b"HTTP/1.1 400 Bad Request\r\n");
        check(b"$x\r\n");
        check(b"$-2\r\n");
        check(b"$9999999999\r\n");
        check(b"*9999999\r\n");
        check(b"*-7\r\n");
        check(b"$1\r\nab\r\n");
        check(b"+OK\rx");
        check(&b"*1\r\n".repeat(DEPTH_MAX + 1));
        check(&[b"+".as_slice(), &vec![b'a'; LINE_MAX_BYTES]].concat());
        let endless =
            [b"*2\r\n$1048576\r\n".as_slice(), &vec![b'a'; REPLY_MAX_BYTES], b"\r\n$1048576\r\n"].concat();
        check(&endless);
    }

    #[test]
    fn numbers_come_as_integers_or_texts() {
        assert_eq!([RedisValue::Integer(3), bytes("3")].map(|value| value.as_integer()), [Some(3), Some(3)]);
        assert_eq!(
            [bytes("2.5"), bytes("nan"), RedisValue::Nil].map(|value| value.as_number()),
            [Some(2.5), None, None]
        );
    }
}
