//! A request head that was refused, read once more without judging it: for logs, which have to say what was
//! asked. It does not know why it was refused.

use message::{RequestHead, Version};

/// Bytes of a head that are read: more are looked at by nothing, because a log line needs none of them.
const READ_BYTES: usize = 64 * 1024;

/// Fills `head` with the texts of the refused head at the start of `input`, cut and unchecked, as far as they
/// have come.
#[cold]
pub fn read_refused(input: &[u8], head: &mut RequestHead) {
    let input = &input[..input.len().min(READ_BYTES)];
    let input = input.strip_prefix(b"\r\n").unwrap_or(input);
    let mut lines = input.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (method, target, version) = split_line(lines.next().unwrap_or_default());
    head.set_refused(version, method, target);
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        head.add_refused_field(line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
    }
}

/// The method, the target and the version of a start line; the last is 1.1 unless it says 1.0.
fn split_line(line: &[u8]) -> (&[u8], &[u8], Version) {
    let Some(blank) = line.iter().position(|&byte| byte == b' ') else { return (line, b"", Version::Http11) };
    let (method, rest) = (&line[..blank], &line[blank + 1..]);
    let last = rest.iter().rposition(|&byte| byte == b' ');
    match last.map(|last| (&rest[..last], &rest[last + 1..])) {
        Some((target, version)) if version.starts_with(b"HTTP/") => {
            let is_old = version == b"HTTP/1.0";
            (method, target, if is_old { Version::Http10 } else { Version::Http11 })
        }
        _ => (method, rest, Version::Http11),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_heads_are_read_as_far_as_they_came() {
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(9_000));
        let cut_target = format!("/{}", "a".repeat(2_047));
        let table: [(&[u8], &str, &str, &str); 12] = [
            (b"GET /two HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET", "/two", "a"),
            (b"\r\nGET /none HTTP/1.1\r\n\r\n", "GET", "/none", ""),
            (b"GET /a b HTTP/1.1\r\nHOST:h \r\n", "GET", "/a b", "h"),
            (b"GET /bare HTTP/1.1\nHost: h\n\n", "GET", "/bare", "h"),
            (b"GET /colon HTTP/1.1\r\nnonsense\r\nHost: h\r\n\r\nHost: x", "GET", "/colon", "h"),
            (b"GET /half", "GET", "/half", ""),
            (b"GET /half HTT", "GET", "/half HTT", ""),
            (b"GET", "GET", "", ""),
            (b"", "", "", ""),
            (b"\x16\x03\x01\x02", "\u{16}\u{3}\u{1}\u{2}", "", ""),
            (b"GET /version HTTP/2.0\r\n\r\n", "GET", "/version", ""),
            (long.as_bytes(), "GET", &cut_target, ""),
        ];
        for (input, method, target, host) in table {
            let mut head = RequestHead::new();
            read_refused(input, &mut head);
            let texts =
                [head.method_text(), head.target_text(), head.authority()].map(String::from_utf8_lossy);
            assert_eq!(texts, [method, target, host], "{}", String::from_utf8_lossy(input));
        }
    }
}
