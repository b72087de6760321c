//! The frame that carries the trailers of a call at the end of a gRPC-Web body.

use message::Headers;

/// The first byte of a frame of trailers; the length of its text follows in four bytes.
const TRAILERS: u8 = 0x80;

/// The frame of these trailers. Without a status the server has broken the call off.
pub(super) fn of_trailers(trailers: &Headers) -> Vec<u8> {
    let status = trailers.get("grpc-status").filter(|status| !status.is_empty());
    let Some(status) = status else { return of_status(2, "upstream grpc status not received") };
    let mut text = Vec::with_capacity(64);
    line(&mut text, b"grpc-status", status);
    line(&mut text, b"grpc-message", trailers.get("grpc-message").unwrap_or_default());
    for field in trailers.iter() {
        let is_written = [&b"grpc-status"[..], b"grpc-message"]
            .into_iter()
            .any(|name| field.name.eq_ignore_ascii_case(name));
        if !is_written {
            line(&mut text, &field.name.to_ascii_lowercase(), field.value);
        }
    }
    framed(&text)
}

/// The frame of a status that the gateway gives; the message is in the form of `grpc-message`.
pub(super) fn of_status(code: u32, message: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(64);
    line(&mut text, b"grpc-status", itoa::Buffer::new().format(code).as_bytes());
    line(&mut text, b"grpc-message", message.as_bytes());
    framed(&text)
}

fn line(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    text.extend_from_slice(name);
    text.push(b':');
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

fn framed(text: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(5 + text.len());
    frame.push(TRAILERS);
    // Trailers have limits of their own, far below four gigabytes.
    frame.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(text);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_holds_status_first_and_all_trailers() {
        let check = |fields: &[(&str, &str)], expected: &str| {
            let mut trailers = Headers::new();
            for (name, value) in fields {
                trailers.append(name, value.as_bytes()).unwrap();
            }
            let frame = of_trailers(&trailers);
            assert_eq!(frame[0], 0x80);
            assert_eq!(frame[1..5], u32::try_from(frame.len() - 5).unwrap().to_be_bytes());
            assert_eq!(String::from_utf8_lossy(&frame[5..]), expected);
        };
        check(&[("grpc-status", "0")], "grpc-status:0\r\ngrpc-message:\r\n");
        check(
            &[("X-Sum", "7"), ("grpc-message", "a%20b"), ("grpc-status", "5")],
            "grpc-status:5\r\ngrpc-message:a%20b\r\nx-sum:7\r\n",
        );
        let broken = "grpc-status:2\r\ngrpc-message:upstream grpc status not received\r\n";
        check(&[], broken);
        check(&[("grpc-status", "")], broken);
    }
}
