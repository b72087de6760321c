//! gRPC over HTTP/2, as its specification has it: which requests are calls, their timeout, the codes of
//! statuses, the form of a reply without a message, and the lengths of messages. It knows no connection.

use message::{FieldId, Headers};

use crate::failure::Cause;

/// The facts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcCallState {
    /// The status that the client got, once there is one.
    pub status: Option<u32>,
    /// The time of the monotonic clock at which the client gives the call up; 0 is never.
    pub deadline_ns: u64,
    /// A plugin speaks gRPC to the upstream for a client that does not: replies to the client have no form of
    /// gRPC.
    pub is_translated: bool,
}

impl GrpcCallState {
    /// The call that a request with these fields is, if it began at `started_ns`.
    pub fn of(headers: &Headers, started_ns: u64) -> Option<GrpcCallState> {
        if !headers.get_known(FieldId::ContentType).is_some_and(is_call) {
            return None;
        }
        let timeout_ns = headers.get("grpc-timeout").and_then(timeout_ns);
        let deadline_ns = timeout_ns.map_or(0, |timeout_ns| started_ns.saturating_add(timeout_ns).max(1));
        Some(GrpcCallState { status: None, deadline_ns, is_translated: false })
    }

    /// Notes the status among these fields: trailers, or the head of a response without a message.
    pub fn note_status(&mut self, headers: &Headers) {
        if let Some(status) = headers.get("grpc-status").and_then(message::syntax::decimal) {
            self.status = u32::try_from(status).ok();
        }
    }
}

/// Whether content of this type is that of a call. `application/grpc-web` is another protocol.
pub fn is_call(content_type: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    content_type.split_at_checked(TYPE.len()).is_some_and(|(begin, rest)| {
        begin.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
    })
}

/// The value of `grpc-timeout` in nanoseconds; none if it has a form that the specification does not allow.
pub fn timeout_ns(text: &[u8]) -> Option<u64> {
    let (&unit, digits) = text.split_last()?;
    let unit_ns: u64 = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return None,
    };
    if digits.len() > TIMEOUT_DIGITS {
        return None;
    }
    Some(message::syntax::decimal(digits)?.saturating_mul(unit_ns))
}

/// The value of `grpc-timeout` for so much time, rounded up, because a server must not give up before its
/// client.
pub fn timeout_text(left_ns: u64) -> String {
    let units = [(1_000, 'u'), (1_000_000, 'm'), (1_000_000_000, 'S'), (60_000_000_000, 'M')];
    for (unit_ns, unit) in units {
        let count = left_ns.div_ceil(unit_ns);
        if count <= TIMEOUT_MAX {
            return format!("{count}{unit}");
        }
    }
    format!("{}H", left_ns.div_ceil(3_600_000_000_000).min(TIMEOUT_MAX))
}

/// Digits of a timeout, at most.
const TIMEOUT_DIGITS: usize = 8;
const TIMEOUT_MAX: u64 = 99_999_999;

/// Codes of statuses that the gateway sends.
pub mod code {
    #![allow(missing_docs, reason = "the names are those of the specification")]

    pub const CANCELLED: u32 = 1;
    pub const UNKNOWN: u32 = 2;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const PERMISSION_DENIED: u32 = 7;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const INTERNAL: u32 = 13;
    pub const UNAVAILABLE: u32 = 14;
    pub const UNAUTHENTICATED: u32 = 16;
    /// The last code that the specification defines.
    pub const LAST: u32 = 16;
}

/// The code for a reply with this status of HTTP: the table that clients use for replies of proxies, and 413
/// and 499.
pub fn code_of_status(status: u16) -> u32 {
    match status {
        400 => code::INTERNAL,
        401 => code::UNAUTHENTICATED,
        403 => code::PERMISSION_DENIED,
        404 => code::UNIMPLEMENTED,
        413 => code::RESOURCE_EXHAUSTED,
        429 | 502 | 503 | 504 => code::UNAVAILABLE,
        499 => code::CANCELLED,
        _ => code::UNKNOWN,
    }
}

/// The code for a failure.
pub fn code_of_cause(cause: Cause) -> u32 {
    match cause {
        Cause::RequestTimeout
        | Cause::DeadlineExceeded
        | Cause::ReadTimeout
        | Cause::BodyStalled
        | Cause::BodyTimeout
        | Cause::BodySlow => code::DEADLINE_EXCEEDED,
        Cause::MessageTooLarge
        | Cause::ResponseMessageTooLarge
        | Cause::BodyTooLarge
        | Cause::HeadTooLarge => code::RESOURCE_EXHAUSTED,
        Cause::MemoryLimit | Cause::Overloaded => code::UNAVAILABLE,
        Cause::BadResponse => code::INTERNAL,
        cause => code_of_status(cause.status()),
    }
}

/// The form of `grpc-message`: percent-encoded but for printable ASCII.
pub fn message_text(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                encoded.push('%');
                encoded.push(char::from(HEX[usize::from(byte >> 4)]));
                encoded.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    encoded
}

/// Finds the lengths of the messages of one direction of a call, in pieces of any size.
#[derive(Clone, Copy, Debug)]
pub struct MessageMeter {
    limit_bytes: u64,
    /// Bytes of the message that have not passed.
    left_bytes: u64,
    /// The length in the prefix that is being read, and how many of its bytes have passed.
    length: u32,
    prefix_bytes: u8,
}

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: u8 = 5;

impl MessageMeter {
    /// A meter that finds messages of more than `limit_bytes`.
    pub fn new(limit_bytes: u64) -> MessageMeter {
        MessageMeter { limit_bytes, left_bytes: 0, length: 0, prefix_bytes: 0 }
    }

    /// Passes `data`.
    ///
    /// # Errors
    /// The length of a message over the limit.
    pub fn pass(&mut self, mut data: &[u8]) -> Result<(), u32> {
        loop {
            let skipped = usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(data.len());
            self.left_bytes -= skipped as u64;
            data = &data[skipped..];
            let Some((&byte, rest)) = data.split_first() else { return Ok(()) };
            data = rest;
            if self.prefix_bytes > 0 {
                self.length = self.length << 8 | u32::from(byte);
            }
            self.prefix_bytes += 1;
            if self.prefix_bytes == PREFIX_BYTES {
                if u64::from(self.length) > self.limit_bytes {
                    return Err(self.length);
                }
                self.left_bytes = u64::from(self.length);
                (self.length, self.prefix_bytes) = (0, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_tells_calls() {
        let check = |text: &str, expected: bool| assert_eq!(is_call(text.as_bytes()), expected, "{text}");
        for text in
            ["application/grpc", "application/grpc+proto", "application/grpc; x=y", "Application/GRPC"]
        {
            check(text, true);
        }
        for text in
            ["application/grpc-web", "application/grpc-web+proto", "application/grp", "text/plain", ""]
        {
            check(text, false);
        }
    }

    #[test]
    fn timeouts_are_read_in_all_units() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(timeout_ns(text.as_bytes()), expected, "{text}");
        };
        check("1H", Some(3_600_000_000_000));
        check("2M", Some(120_000_000_000));
        check("3S", Some(3_000_000_000));
        check("4m", Some(4_000_000));
        check("5u", Some(5_000));
        check("6n", Some(6));
        check("0m", Some(0));
        check("99999999H", Some(u64::MAX));
        for bad in ["", "m", "1", "1s", "100000000m", "-1m", "1.5S", " 1m"] {
            check(bad, None);
        }
    }

    #[test]
    fn timeout_is_written_rounded_up() {
        let check = |left_ns: u64, expected: &str| {
            assert_eq!(timeout_text(left_ns), expected, "{left_ns}");
            assert!(timeout_ns(expected.as_bytes()).is_some_and(|read| read >= left_ns));
        };
        check(0, "0u");
        check(1, "1u");
        check(1_000_001, "1001u");
        check(99_999_999_000, "99999999u");
        check(99_999_999_001, "100000m");
        check(200_000_000_000_000, "200000S");
        check(u64::MAX / 2, "2562048H");
    }

    #[test]
    fn messages_over_the_limit_are_found() {
        let message = |length: u32, bytes: usize| {
            let mut data = vec![0];
            data.extend_from_slice(&length.to_be_bytes());
            data.resize(5 + bytes, 7);
            data
        };
        let good = [message(3, 3), message(0, 0), message(10, 10)].concat();
        let bad = [good.clone(), message(11, 0)].concat();
        for size in 1..=bad.len() {
            let run = |data: &[u8]| {
                let mut meter = MessageMeter::new(10);
                data.chunks(size).try_for_each(|piece| meter.pass(piece))
            };
            assert_eq!((run(&good), run(&bad)), (Ok(()), Err(11)), "pieces of {size}");
        }
        assert_eq!(MessageMeter::new(u64::MAX).pass(&message(u32::MAX, 9)), Ok(()));
    }

    #[test]
    fn message_text_is_percent_encoded() {
        assert_eq!(message_text("100 % ü\n"), "100 %25 %C3%BC%0A");
    }

    #[test]
    fn every_cause_has_a_code_that_is_no_success() {
        for cause in Cause::ALL {
            assert!((1..=code::LAST).contains(&code_of_cause(*cause)), "{cause:?}");
        }
    }
}
