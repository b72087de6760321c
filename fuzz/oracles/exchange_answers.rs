//! A naive reader of responses: from the bytes of a connection to complete messages (RFC 9112 section 6.3).

/// A final response, or 101.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header fields; names in lower case, values trimmed.
    pub fields: Vec<(String, String)>,
    /// The body without the chunked coding.
    pub body: Vec<u8>,
    /// Whether the end of the stream ends the body.
    pub until_end: bool,
    /// Bytes of the response, with the interim responses before it.
    pub taken_bytes: usize,
}

/// The result of reading the start of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A complete response.
    Whole(Answer),
    /// An incomplete response.
    Cut {
        /// The head of the final response, if it is complete, with the body so far.
        head: Option<Answer>,
    },
    /// Bytes that are not a response.
    Malformed(String),
}

impl Answer {
    /// The value of a header field, if there is one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Whether the response announces the end of its connection.
    pub fn closes(&self) -> bool {
        let options = self.fields.iter().filter(|(name, _)| name == "connection");
        options
            .flat_map(|(_, value)| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case("close"))
    }
}

/// Reads the response to a request with `method`; `ended` says that the stream ended with FIN after `bytes`.
pub fn read(bytes: &[u8], method: &str, ended: bool) -> Reading {
    let mut rest = bytes;
    loop {
        let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Reading::Cut { head: None };
        };
        let (head, body) = (&rest[..end], &rest[end + 4..]);
        let mut answer = match read_head(head) {
            Ok(answer) => answer,
            Err(text) => return Reading::Malformed(text),
        };
        if (100..200).contains(&answer.status) && answer.status != 101 {
            rest = body;
            continue;
        }
        answer.taken_bytes = bytes.len() - body.len();
        return match read_body(&mut answer, body, method, ended) {
            Ok(true) => Reading::Whole(answer),
            Ok(false) => Reading::Cut { head: Some(answer) },
            Err(text) => Reading::Malformed(text),
        };
    }
}

fn read_head(head: &[u8]) -> Result<Answer, String> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let malformed = |what: &str| format!("{what}: {}", head.escape_ascii());
    let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "));
    let status = rest.and_then(|rest| rest.split(' ').next()).filter(|status| status.len() == 3);
    let status = status.and_then(|status| status.parse().ok()).filter(|status| (100..1000).contains(status));
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| malformed("a line without a colon"))?;
        if name.is_empty() || name.contains([' ', '\t']) || value.contains(['\r', '\n']) {
            return Err(malformed("a bad field"));
        }
        fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
    }
    let status = status.ok_or_else(|| malformed("no status"))?;
    Ok(Answer { status, fields, body: Vec::new(), until_end: false, taken_bytes: 0 })
}

/// Whether the body is complete.
fn read_body(answer: &mut Answer, body: &[u8], method: &str, ended: bool) -> Result<bool, String> {
    let values = |name: &str| -> Vec<String> {
        answer.fields.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    let (lengths, codings): (Vec<&str>, Vec<&str>) =
        (lengths.iter().map(String::as_str).collect(), codings.iter().map(String::as_str).collect());
    if method == "HEAD" || matches!(answer.status, 101 | 204 | 304) {
        return Ok(true);
    }
    match (&lengths[..], &codings[..]) {
        ([], []) => {
            answer.until_end = true;
            answer.taken_bytes += body.len();
            answer.body = body.to_vec();
            Ok(ended)
        }
        ([length], []) => {
            let length: usize = length.parse().map_err(|_| format!("no length: {length}"))?;
            let taken_bytes = length.min(body.len());
            answer.body = body[..taken_bytes].to_vec();
            answer.taken_bytes += taken_bytes;
            Ok(taken_bytes == length)
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => {
            let Some(taken_bytes) = chunks(body, &mut answer.body)? else { return Ok(false) };
            answer.taken_bytes += taken_bytes;
            Ok(true)
        }
        _ => Err(format!("no one framing: {lengths:?} {codings:?}")),
    }
}

/// The length of a chunked body at the start of `bytes`; none if it is incomplete. The data so far is
/// appended to `data`.
pub fn chunks(bytes: &[u8], data: &mut Vec<u8>) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(line) = line(&bytes[at..]) else { return Ok(None) };
        let text = String::from_utf8_lossy(line);
        let digits = text.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16).map_err(|_| format!("no chunk size: {text}"))?;
        at += line.len() + 2;
        if size == 0 {
            break;
        }
        let rest = &bytes[at..];
        data.extend_from_slice(&rest[..size.min(rest.len())]);
        if rest.len() < size {
            return Ok(None);
        }
        at += size;
        match &bytes[at..] {
            [b'\r', b'\n', ..] => at += 2,
            [] | [b'\r'] => return Ok(None),
            _ => return Err("a chunk does not end".to_owned()),
        }
    }
    loop {
        let Some(line) = line(&bytes[at..]) else { return Ok(None) };
        at += line.len() + 2;
        if line.is_empty() {
            return Ok(Some(at));
        }
    }
}

/// The first line, without its end.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    bytes.windows(2).position(|window| window == b"\r\n").map(|end| &bytes[..end])
}
