//! gRPC clients: error responses of the gateway as `grpc-status`, and the deadline of a call. It knows no
//! message and no stream.

use std::fmt::Write;

use message::{FieldId, Headers, Version};

use exchange::Exchange;
use exchange::failure::Cause;

/// Whether the request is a call of gRPC. gRPC-Web is another protocol: its clients read the status of the response.
pub(crate) fn is_call(exchange: &Exchange) -> bool {
    let rest = || {
        let content_type = exchange.request.headers.get_known(FieldId::ContentType)?;
        let (start, rest) = content_type.split_at_checked(CONTENT_TYPE.len())?;
        start.eq_ignore_ascii_case(CONTENT_TYPE.as_bytes()).then_some(rest)
    };
    // Over HTTP/1 there is no gRPC.
    exchange.request.version == Version::Http2 && matches!(rest(), Some([] | [b'+' | b';', ..]))
}

/// Makes an error response of the gateway one that consists of trailers only, as gRPC has it: with HTTP status 200, the code
/// that stands for the status of the response, and `text`.
pub(super) fn make_trailers_only(exchange: &mut Exchange, text: &str) {
    let cause = exchange.failure.as_ref().map(|failure| failure.cause);
    let code = status_code(exchange.response.status, cause);
    let response = &mut exchange.response;
    response.status = 200;
    for id in [FieldId::ContentType, FieldId::ContentLength] {
        response.headers.remove_known(id);
    }
    let mut number = itoa::Buffer::new();
    let (code, text) = (number.format(code), percent_encoded(text));
    for (name, value) in [("content-type", CONTENT_TYPE), ("grpc-status", code), ("grpc-message", &text)] {
        response.headers.set(name, value.as_bytes()).expect("digits, and text that is percent-encoded");
    }
}

/// The time that an exchange has, in milliseconds: the setting's (0 is without limit), and for a call of gRPC no more than
/// its client gave it.
pub(crate) fn time_ms(exchange: &Exchange, setting_ms: u64) -> Option<u64> {
    let call_ms = if is_call(exchange) { timeout_ms(&exchange.request.headers) } else { None };
    let setting_ms = Some(setting_ms).filter(|time_ms| *time_ms != 0);
    [setting_ms, call_ms].into_iter().flatten().min()
}

/// The deadline of a call as its client sent it, in milliseconds, rounded up; none if it sent none that is well-formed.
fn timeout_ms(headers: &Headers) -> Option<u64> {
    let (unit, digits) = headers.get("grpc-timeout")?.split_last()?;
    if digits.is_empty() || digits.len() > TIMEOUT_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(number * 3_600_000),
        b'M' => Some(number * 60_000),
        b'S' => Some(number * 1_000),
        b'm' => Some(number),
        b'u' => Some(number.div_ceil(1_000)),
        b'n' => Some(number.div_ceil(1_000_000)),
        _ => None,
    }
}

/// The code of gRPC for an HTTP status (gRPC, "HTTP to gRPC Status Code Mapping"), and DEADLINE_EXCEEDED for a call that had
/// its time.
fn status_code(status: u16, cause: Option<Cause>) -> u8 {
    match status {
        _ if cause == Some(Cause::RequestTimeout) => 4,
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

/// A text as `grpc-message` carries it: printable ASCII, everything else by percent signs.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a string takes all that is written to it"),
        }
    }
    encoded
}

const CONTENT_TYPE: &str = "application/grpc";
/// The longest number in `grpc-timeout`, by gRPC's grammar.
const TIMEOUT_DIGITS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_has_digits_and_a_unit() {
        let check = |text: &str, expected: Option<u64>| {
            let mut headers = Headers::new();
            headers.append("grpc-timeout", text.as_bytes()).unwrap();
            assert_eq!(timeout_ms(&headers), expected, "{text}");
        };
        check("1S", Some(1_000));
        check("250m", Some(250));
        check("1500u", Some(2));
        check("1n", Some(1));
        check("0n", Some(0));
        check("2M", Some(120_000));
        check("99999999H", Some(99_999_999 * 3_600_000));
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S", "1 S"] {
            check(text, None);
        }
        assert_eq!(timeout_ms(&Headers::new()), None);
    }

    #[test]
    fn status_maps_to_a_code_of_grpc() {
        let codes =
            [(400, 13), (401, 16), (403, 7), (404, 12), (429, 14), (503, 14), (504, 14), (418, 2), (500, 2)];
        for (status, code) in codes {
            assert_eq!(status_code(status, None), code, "{status}");
        }
        assert_eq!(status_code(504, Some(Cause::ReadTimeout)), 14);
        assert_eq!(status_code(504, Some(Cause::RequestTimeout)), 4);
    }

    #[test]
    fn message_is_percent_encoded() {
        assert_eq!(percent_encoded("50% of ö\n"), "50%25 of %C3%B6%0A");
    }
}
