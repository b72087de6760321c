//! A naive reader of odd responses, in the forms that `docs/reference/odd-messages.md` lists as read from
//! nodes: for responses that the strict reader of `exchange_answers` does not take.

use super::exchange_answers::Answer;

/// The final response to a request with `method`, and whether it is complete; none if its form is refused.
/// `ended` says that the stream ended with FIN after `bytes`.
pub fn read(bytes: &[u8], method: &str, ended: bool) -> Option<(Answer, bool)> {
    let mut rest = bytes;
    loop {
        let mut answer = read_head(&mut rest)?;
        if !(100..200).contains(&answer.status) || answer.status == 101 {
            let is_whole = read_body(&mut answer, rest, method, ended)?;
            return Some((answer, is_whole));
        }
    }
}

/// A line without its end, which is LF with or without CR before it.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, behind) = (&rest[..end], &rest[end + 1..]);
    *rest = behind;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn read_head(rest: &mut &[u8]) -> Option<Answer> {
    let first = line(rest)?;
    let mut parts = first.split(|byte| matches!(byte, b' ' | b'\t')).filter(|part| !part.is_empty());
    let version = parts.next()?.strip_prefix(b"HTTP/")?;
    if !version.first()?.is_ascii_digit() || version[0] == b'0' {
        return None;
    }
    let status = parts.next()?.split(|byte| *byte == b'.').next()?;
    let status =
        std::str::from_utf8(status).ok()?.parse().ok().filter(|status| (100..1000).contains(status))?;
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut is_dropped = true;
    loop {
        let text: String = line(rest)?.iter().map(|byte| char::from(*byte)).collect();
        if text.is_empty() {
            return Some(Answer { status, fields, body: Vec::new(), until_end: false, taken_bytes: 0 });
        }
        if text.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut().filter(|_| !is_dropped) {
                value.push(' ');
                value.push_str(text.trim());
            }
            continue;
        }
        let field = text.split_once(':').map(|(name, value)| (name.trim_end().to_ascii_lowercase(), value));
        let is_token = |name: &str| {
            !name.is_empty() && !name.contains(|letter: char| " \t()<>@,;:\\\"/[]?={}".contains(letter))
        };
        is_dropped = field.as_ref().is_none_or(|(name, _)| !is_token(name));
        if let Some((name, value)) = field.filter(|_| !is_dropped) {
            fields.push((name, value.trim().to_owned()));
        }
    }
}

/// Whether the body is complete; none where its framing or a chunk is refused.
fn read_body(answer: &mut Answer, body: &[u8], method: &str, ended: bool) -> Option<bool> {
    let elements = |name: &str| -> Vec<String> {
        let values = answer.fields.iter().filter(|(other, _)| other == name);
        let elements =
            values.flat_map(|(_, value)| value.split(',')).map(|one| one.trim().to_ascii_lowercase());
        elements.filter(|one| !one.is_empty() && one != "identity").collect()
    };
    let (lengths, codings) = (elements("content-length"), elements("transfer-encoding"));
    if method == "HEAD" || matches!(answer.status, 101 | 204 | 304) {
        return Some(true);
    }
    if !codings.is_empty() {
        return codings.iter().all(|coding| coding == "chunked").then(|| chunks(answer, body))?;
    }
    let Some(length) = lengths.first() else {
        answer.until_end = true;
        answer.body = body.to_vec();
        return Some(ended);
    };
    let length: usize = length.parse().ok().filter(|_| lengths.iter().all(|other| other == length))?;
    answer.body = body[..length.min(body.len())].to_vec();
    Some(body.len() >= length)
}

fn chunks(answer: &mut Answer, mut rest: &[u8]) -> Option<bool> {
    loop {
        let Some(text) = line(&mut rest) else { return Some(false) };
        let digits = text.split(|byte| *byte == b';').next()?.trim_ascii_end();
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        answer.body.extend_from_slice(&rest[..size.min(rest.len())]);
        if rest.len() <= size {
            return Some(false);
        }
        rest = &rest[size..];
        if !line(&mut rest)?.is_empty() {
            return None;
        }
    }
    loop {
        match line(&mut rest) {
            None => return Some(false),
            Some([]) => return Some(true),
            Some(_) => {}
        }
    }
}
