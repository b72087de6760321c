//! A second, simple implementation of the canonical path, with lists of segments. It gives no reason for a
//! refusal.

use router::path::PathOptions;

/// The forwarded and the decoded form of `raw`; none if it is refused.
pub fn canonical(raw: &[u8], options: &PathOptions) -> Option<(String, Vec<u8>)> {
    let text = normalized(raw)?;
    let mut kept: Vec<&str> = Vec::new();
    let all: Vec<&str> = text.strip_prefix('/')?.split('/').collect();
    for (index, segment) in all.iter().enumerate() {
        let last = index + 1 == all.len();
        let vanishes = match *segment {
            ".." => {
                kept.pop()?;
                true
            }
            "." => true,
            "" => options.merge_slashes,
            // A hidden dot segment is refused at any place, even if a later `..` would remove it.
            other if hides_dot_segment(other) => return None,
            _ => false,
        };
        if !vanishes {
            kept.push(segment);
        } else if last {
            kept.push("");
        }
    }
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for (index, segment) in kept.iter().enumerate() {
        let (name, parameters) = match segment.split_once(';') {
            Some((name, parameters)) if options.normalize_uri_like_servlet => (name, parameters),
            _ => (*segment, ""),
        };
        let decodes_slash = !options.match_uri_encoded_slash;
        let pieces: Vec<&str> = if decodes_slash { name.split("%2F").collect() } else { vec![name] };
        let is_cut = name.len() < segment.len();
        if is_cut && pieces.last() == Some(&"") && index + 1 < kept.len() {
            return None;
        }
        if decodes_slash && parameters.contains("%2F") {
            return None;
        }
        parts.extend(pieces.into_iter().map(without_escapes));
    }
    if options.merge_slashes {
        let last = parts.pop();
        parts.retain(|part| !part.is_empty());
        parts.extend(last);
    }
    let mut decoded = Vec::new();
    for part in parts {
        decoded.push(b'/');
        decoded.extend(part);
    }
    if options.delete_uri_tail_slash && decoded.len() > 1 && decoded.ends_with(b"/") {
        decoded.pop();
    }
    Some((format!("/{}", kept.join("/")), decoded))
}

/// The path with only the necessary escapes, in upper case; none if it has a forbidden byte or escape.
fn normalized(raw: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut escaped_before = None;
    let mut rest = raw.iter();
    if raw.first() != Some(&b'/') {
        return None;
    }
    while let Some(&first) = rest.next() {
        if first != b'%' {
            if !first.is_ascii_graphic() || b"\\#?".contains(&first) {
                return None;
            }
            text.push(char::from(first));
            escaped_before = None;
            continue;
        }
        let digits = [*rest.next()?, *rest.next()?];
        let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'))?;
        let value = u8::from_str_radix(digits, 16).ok()?;
        if value.is_ascii_control() || value == b'\\' || is_overlong(escaped_before, value) {
            return None;
        }
        let unreserved = value.is_ascii_alphanumeric() || b"-._~".contains(&value);
        if unreserved {
            text.push(char::from(value));
        } else {
            text.push_str(&format!("%{value:02X}"));
        }
        escaped_before = Some(value);
    }
    Some(text)
}

/// Whether two bytes begin an overlong form of a character (RFC 3629 section 3).
fn is_overlong(first: Option<u8>, second: u8) -> bool {
    matches!(
        (first, second),
        (Some(0xc0 | 0xc1), 0x80..=0xbf) | (Some(0xe0), 0x80..=0x9f) | (Some(0xf0), 0x80..=0x8f)
    )
}

/// Whether an origin that decodes slashes or removes parameters would read a dot segment here.
fn hides_dot_segment(segment: &str) -> bool {
    let split = segment.replace("%3B", ";");
    split.split("%2F").any(|piece| matches!(piece.split(';').next(), Some("." | "..")))
}

/// The decoded bytes of a normalised name; an encoded slash that was not split off stays encoded.
fn without_escapes(segment: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, piece) in segment.split('%').enumerate() {
        match (index, piece.split_at_checked(2)) {
            (0, _) => bytes.extend_from_slice(piece.as_bytes()),
            (_, Some(("2F", behind))) => bytes.extend_from_slice(format!("%2F{behind}").as_bytes()),
            (_, Some((digits, behind))) => {
                bytes.push(u8::from_str_radix(digits, 16).expect("a normalised escape has two digits"));
                bytes.extend_from_slice(behind.as_bytes());
            }
            (_, None) => unreachable!("a normalised escape has two digits"),
        }
    }
    bytes
}
