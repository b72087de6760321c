//! The fields of a `multipart/form-data` body (RFC 7578, RFC 2046 section 5.1). Pure: from a body held in
//! memory. It knows names and contents, no files, encodings or nesting.

/// Parts that are looked at: more than any form has.
const PARTS_MAX: usize = 1_000;

/// The boundary that a `Content-Type` names, if it is of this type.
pub(super) fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let (media_type, parameters) = content_type.split_at(content_type.iter().position(|byte| *byte == b';')?);
    if !media_type.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data") {
        return None;
    }
    parameter(parameters, b"boundary").filter(|boundary| !boundary.is_empty())
}

/// Name and content of each part that has a name, in order. What comes behind a malformed part is not looked
/// at. Line breaks are CRLF, or LF alone if the first delimiter ends so, as written by hand and read by
/// APISIX; never both in one body, so that a value with a bare LF is no delimiter for this gateway alone.
pub(super) fn fields<'b>(body: &'b [u8], boundary: &[u8]) -> Vec<(&'b [u8], &'b [u8])> {
    let mut fields = Vec::new();
    let dashes = [b"--", boundary].concat();
    // The first delimiter has a line break before it only where a preamble stands.
    let first = match body.starts_with(&dashes) {
        true => Some(0),
        false => memchr::memmem::find(body, &[b"\n", &*dashes].concat()).map(|at| at + 1),
    };
    let Some(first) = first else { return fields };
    let mut rest = &body[first + dashes.len()..];
    let line_break: &[u8] = if behind_spaces(rest).starts_with(b"\n") { b"\n" } else { b"\r\n" };
    let delimiter = [line_break, &*dashes].concat();
    let blank_line = [line_break, line_break].concat();
    for _ in 0..PARTS_MAX {
        // Behind the last delimiter stand two dashes, behind every other one a line break, perhaps after
        // spaces.
        let Some(part) = behind_spaces(rest).strip_prefix(line_break) else { break };
        let Some(end) = memchr::memmem::find(part, &delimiter) else { break };
        if let Some(field) = field(&part[..end], &blank_line) {
            fields.push(field);
        }
        rest = &part[end + delimiter.len()..];
    }
    fields
}

fn behind_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[end..]
}

fn field<'b>(part: &'b [u8], blank_line: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let head_end = memchr::memmem::find(part, blank_line)?;
    let name = part[..head_end].split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let is_disposition = line[..colon].eq_ignore_ascii_case(b"content-disposition");
        if is_disposition { parameter(&line[colon + 1..], b"name") } else { None }
    })?;
    Some((name, &part[head_end + blank_line.len()..]))
}

/// The parameter `name` of a header field's value, with or without quotes. A quoted value ends at the next
/// quote: names and boundaries that hold one are not written by any browser (RFC 7578 section 2 lets them be
/// percent-encoded).
fn parameter<'v>(value: &'v [u8], name: &[u8]) -> Option<&'v [u8]> {
    let mut rest = value;
    loop {
        rest = &rest[rest.iter().position(|byte| *byte == b';')? + 1..];
        let equals = rest.iter().position(|byte| matches!(byte, b'=' | b';'))?;
        if rest[equals] == b';' {
            rest = &rest[equals..];
            continue;
        }
        let key = rest[..equals].trim_ascii();
        let written = &rest[equals + 1..];
        let (text, length) = match written.strip_prefix(b"\"") {
            Some(inside) => {
                let quote = inside.iter().position(|byte| *byte == b'"')?;
                (&inside[..quote], quote + 2)
            }
            None => {
                let end = written.iter().position(|byte| *byte == b';').unwrap_or(written.len());
                (written[..end].trim_ascii(), end)
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(text);
        }
        rest = &written[length..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(body: &str, expected: &[(&str, &str)]) {
        let found: Vec<_> = fields(body.as_bytes(), b"XX")
            .into_iter()
            .map(|(name, value)| (str::from_utf8(name).unwrap(), str::from_utf8(value).unwrap()))
            .collect();
        assert_eq!(found, expected, "{body:?}");
    }

    #[test]
    fn parts_with_names() {
        let part = |name: &str, value: &str| {
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let (a, b) = (part("a", "1"), part("b", "two\r\nlines --XX"));
        check(&format!("{a}{b}--XX--\r\n"), &[("a", "1"), ("b", "two\r\nlines --XX")]);
        check(&format!("preamble\r\n{a}--XX--"), &[("a", "1")]);
        let file = "--XX\r\nContent-Type: text/plain\r\ncontent-disposition: form-data; filename=\"name=x;\"; name=f\r\n\r\nT\r\n";
        check(&format!("{file}--XX  \r\nX: y\r\n\r\nnameless\r\n{a}--XX--"), &[("f", "T"), ("a", "1")]);
        check(&part("a", ""), &[]);
        check(&format!("{}--XX--", part("a", "")), &[("a", "")]);
    }

    #[test]
    fn bare_line_feeds_are_read_if_all_are_bare() {
        let part = |name: &str, value: &str| {
            format!("--XX\nContent-Disposition: form-data; name=\"{name}\"\n\n{value}\n")
        };
        let (a, b) = (part("a", "1"), part("b", "two\nlines --XX"));
        check(&format!("{a}{b}--XX--\n"), &[("a", "1"), ("b", "two\nlines --XX")]);
        check(&format!("preamble\n{a}--XX--"), &[("a", "1")]);
        // A value with a delimiter of the other kind is one value.
        let inner = "x\n--XX\nContent-Disposition: form-data; name=\"b\"\n\n2";
        let body = format!("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n{inner}\r\n--XX--");
        check(&body, &[("a", inner)]);
    }

    #[test]
    fn what_is_malformed_ends_the_search() {
        for body in
            ["", "--XX", "--XX--", "--XX\r\n", "--XX\r\n\r\n", "--XXa\r\n\r\nb\r\n--XX--", "nothing at all"]
        {
            check(body, &[]);
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(words in proptest::collection::vec(0..WORDS.len(), 0..40)) {
            let text: Vec<u8> = words.iter().flat_map(|word| WORDS[*word].bytes()).collect();
            prop_assert!(fields(&text, b"XX").len() <= words.len());
            let _ = boundary(&text);
        }
    }

    const WORDS: [&str; 16] = [
        "--XX",
        "--",
        "\r\n",
        "\r",
        "\n",
        "\r\n\r\n",
        "XX",
        " ",
        ";",
        ":",
        "=",
        "\"",
        "name",
        "Content-Disposition",
        "multipart/form-data",
        "boundary",
    ];

    #[test]
    fn boundaries() {
        let check = |value: &str, expected: Option<&str>| {
            assert_eq!(boundary(value.as_bytes()), expected.map(str::as_bytes), "{value}");
        };
        check("multipart/form-data; boundary=XX", Some("XX"));
        check("Multipart/Form-Data;charset=utf-8; Boundary=\"a b;c\"", Some("a b;c"));
        check("multipart/form-data; x; boundary=XX ; y=z", Some("XX"));
        check("multipart/form-data; boundary=", None);
        check("multipart/form-data; boundary=\"XX", None);
        check("multipart/form-data", None);
        check("multipart/mixed; boundary=XX", None);
    }
}
