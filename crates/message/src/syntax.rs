//! The character classes of RFC 9110 and 3986 and the small grammars made of them; it does not know messages.

/// True for a non-empty token (RFC 9110 section 5.6.2): what names, methods and options are made of.
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| has(byte, TOKEN))
}

/// True when every byte may stand in a field value: visible, space, HTAB or obs-text (RFC 9110 section 5.5).
pub fn is_field_value(text: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7F;
    // Whole blocks without a way out in between, so that the compiler checks a block with a few vector
    // instructions.
    let (blocks, rest) = text.as_chunks::<16>();
    let has_control = |block: &[u8; 16]| block.iter().fold(false, |found, &byte| found | is_control(byte));
    !blocks.iter().any(has_control) && !rest.iter().any(|&byte| is_control(byte))
}

/// True for `host [":" port]` (RFC 9110 section 4.2): no user information, no path, brackets only around an
/// IP literal, a port of 1 to 5 digits up to 65535. Empty text is not an authority.
pub fn is_authority(text: &[u8]) -> bool {
    let (host, rest) = match text.first() {
        None => return false,
        Some(b'[') => match text.iter().position(|&byte| byte == b']') {
            Some(close) if is_ip_literal(&text[1..close]) => text.split_at(close + 1),
            _ => return false,
        },
        Some(_) => {
            // Nearly every name is plain, so that the first byte that may not stand in one is the port's
            // colon.
            let mut end = text.iter().position(|&byte| !has(byte, REG_NAME)).unwrap_or(text.len());
            if text.get(end).is_some_and(|&byte| byte != b':') {
                end = text.iter().position(|&byte| byte == b':').unwrap_or(text.len());
                if !is_reg_name(&text[..end]) {
                    return false;
                }
            }
            text.split_at(end)
        }
    };
    !host.is_empty() && (rest.is_empty() || (rest[0] == b':' && is_port(&rest[1..])))
}

/// True when a raw target may contain these bytes: visible ASCII without `#`, which no client sends.
pub fn is_target(text: &[u8]) -> bool {
    // A fold without early exit: targets are short and nearly always good, and this one vectorises.
    text.iter().fold(true, |good, &byte| good & (byte > b' ') & (byte < 0x7F) & (byte != b'#'))
}

/// `text` without spaces and tabs at both ends (OWS, RFC 9110 section 5.6.3).
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The elements of a comma-separated list, trimmed; empty elements are kept for the caller to judge.
pub fn list(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b',').map(trim)
}

/// 1*DIGIT as a number; `None` for anything else, signs, spaces and overflow included.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

fn is_reg_name(text: &[u8]) -> bool {
    let mut index = 0;
    while index < text.len() {
        if text[index] == b'%' {
            match text.get(index + 1..index + 3) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => index += 3,
                _ => return false,
            }
        } else if has(text[index], REG_NAME) {
            index += 1;
        } else {
            return false;
        }
    }
    !text.is_empty()
}

fn is_ip_literal(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

fn is_port(text: &[u8]) -> bool {
    // Five digits cannot overflow, which spares the checks of a longer number.
    (1..=5).contains(&text.len())
        && text.iter().all(u8::is_ascii_digit)
        && text.iter().fold(0_u32, |port, byte| port * 10 + u32::from(byte - b'0')) <= u32::from(u16::MAX)
}

fn has(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

const TOKEN: u8 = 1;
const REG_NAME: u8 = 2;
const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let token_marks = b"!#$%&'*+-.^_`|~";
    let reg_name_marks = b"-._~!$&'()*+,;=";
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = TOKEN | REG_NAME;
        }
        byte += 1;
    }
    let mut index = 0;
    while index < token_marks.len() {
        table[token_marks[index] as usize] |= TOKEN;
        table[reg_name_marks[index] as usize] |= REG_NAME;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let good =
            ["a", "a.b", "a:80", "127.0.0.1:0", "[::1]", "[::1]:443", "A_b.c", "a%20b", "a:65535", "a,b"];
        let bad = [
            "", ":80", "a:", "a:65536", "a:x", "a:-1", "a:000080", "u@a", "a/b", "a?b", "a b", "[::1", "::1",
            "[::1]x", "[zz]", "[]", "a%2", "a%zz", "a\\b", "\u{e9}", "a:80:80", "[::1]:", "a#b", "a\tb",
        ];
        for text in good {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        for text in bad {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn decimals() {
        let table: [(&str, Option<u64>); 9] = [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("1 ", None),
            ("0x1", None),
            ("1.0", None),
        ];
        for (text, expected) in table {
            assert_eq!(decimal(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn tokens_and_values() {
        assert!(is_token(b"X-Request-Id!#$%&'*+.^_`|~09"));
        for bad in [&b""[..], b"a b", b"a:", b"a\x00", b"\x85", b"a\"", b"(a)", b"a/b"] {
            assert!(!is_token(bad));
        }
        assert!(is_field_value(b"a\tb \xC3\xA9"));
        // A control character is found at every place of values of every length.
        for length in 0..40 {
            let mut value = vec![b'a'; length];
            assert!(is_field_value(&value));
            for at in 0..length {
                value[at] = 0x7F;
                assert!(!is_field_value(&value), "{at} of {length}");
                value[at] = b'a';
            }
        }
        for bad in [&b"a\rb"[..], b"a\nb", b"\x00", b"\x0B", b"\x7F", b"\x1B[0m"] {
            assert!(!is_field_value(bad));
        }
    }
}
