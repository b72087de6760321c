//! Tells event streams (`text/event-stream`) from other bodies: a plugin must not wait for the end of one,
//! because it may have none.

use message::{FieldId, Headers};

/// Whether a response with these fields is an event stream.
pub fn is_event_stream(headers: &Headers) -> bool {
    let kind = headers.get_known(FieldId::ContentType).unwrap_or_default();
    let media_type = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_tells_an_event_stream() {
        let check = |value: &str, expected: bool| {
            let mut headers = Headers::new();
            headers.append("Content-Type", value.as_bytes()).unwrap();
            assert_eq!(is_event_stream(&headers), expected, "{value}");
        };
        check("text/event-stream", true);
        check("Text/Event-Stream ; charset=utf-8", true);
        check("text/event-streams", false);
        check("application/json", false);
        assert!(!is_event_stream(&Headers::new()));
    }
}
