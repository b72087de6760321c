//! One request to an instance's Admin or control API: a blocking HTTP/1.0 exchange, over TLS where the API
//! has it, which needs no client library. Knows no endpoint of these APIs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use outbound::blocking_tls::{ClientFiles, ReadWrite};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct InstanceRequest<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    /// Header fields besides `Host`, `Content-Length` and the others that every request has.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    /// The body, as JSON; empty for none.
    pub(crate) body: &'a str,
    /// Timeout of each read and write.
    pub(crate) patience: Duration,
    /// TLS as these files say; none asks over plain HTTP.
    pub(crate) tls: Option<&'a ClientFiles>,
}

/// The response of the instance.
#[derive(Debug)]
pub(crate) struct InstanceResponse {
    /// The status code.
    pub(crate) status: u16,
    /// The body, if it is JSON.
    pub(crate) body: Result<Value, String>,
}

/// The reason for a missing response.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// Nothing listens at the address.
    NotThere(io::Error),
    /// The connection opened but gave no usable response; the reason as a sentence.
    Refused(String),
}

/// Sends a request to the instance at `node`.
///
/// # Errors
/// See [`RequestFailure`]; a response of any status is no error.
pub(crate) fn ask_instance(
    node: SocketAddr,
    question: &InstanceRequest<'_>,
) -> Result<InstanceResponse, RequestFailure> {
    let stream = TcpStream::connect_timeout(&node, CONNECT_PATIENCE).map_err(RequestFailure::NotThere)?;
    let answer = exchange(stream, node, question).map_err(|error| {
        RequestFailure::Refused(format!("the instance at {node} did not answer: {error}"))
    })?;
    read_answer(&answer)
        .map_err(|reason| RequestFailure::Refused(format!("the instance at {node}: {reason}")))
}

/// A response that arrives piece by piece.
pub(crate) enum Followed {
    /// The body of a response with status 200; it ends with the connection.
    Body(Box<dyn BufRead>),
    /// A response of another status.
    Refused(InstanceResponse),
}

/// As [`ask_instance`], for a response that arises while it is read. `patience` is the longest silence.
///
/// # Errors
/// See [`RequestFailure`].
pub(crate) fn follow_response(
    node: SocketAddr,
    question: &InstanceRequest<'_>,
) -> Result<Followed, RequestFailure> {
    let stream = TcpStream::connect_timeout(&node, CONNECT_PATIENCE).map_err(RequestFailure::NotThere)?;
    let refused =
        |error: io::Error| RequestFailure::Refused(format!("the instance at {node} did not answer: {error}"));
    let mut reader = BufReader::new(send(stream, question, node).map_err(refused)?.0);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        if reader.read_until(b'\n', &mut head).map_err(refused)? == 0 {
            break;
        }
    }
    if head.starts_with(b"HTTP/1") && head.get(9..12) == Some(b"200") {
        return Ok(Followed::Body(Box::new(reader)));
    }
    let mut answer = head;
    reader.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(refused)?;
    let answer = read_answer(&answer)
        .map_err(|reason| RequestFailure::Refused(format!("the instance at {node}: {reason}")));
    answer.map(Followed::Refused)
}

/// Sends the request and reads until the end of the connection.
fn exchange(stream: TcpStream, node: SocketAddr, question: &InstanceRequest<'_>) -> io::Result<Vec<u8>> {
    let (stream, sent) = send(stream, question, node)?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    if answer.is_empty() {
        sent?;
        read?;
    }
    Ok(answer)
}

/// Sends the request. HTTP/1.0, so that the response is neither chunked nor kept open.
fn send(
    stream: TcpStream,
    question: &InstanceRequest<'_>,
    node: SocketAddr,
) -> io::Result<(Box<dyn ReadWrite>, io::Result<()>)> {
    let InstanceRequest { method, target, fields, body, patience, tls } = question;
    stream.set_read_timeout(Some(*patience))?;
    stream.set_write_timeout(Some(*patience))?;
    let mut stream: Box<dyn ReadWrite> = match tls {
        Some(tls) => tls.wrap(stream)?,
        None => Box::new(stream),
    };
    let length = body.len();
    let mut head = format!("{method} {target} HTTP/1.0\r\nHost: {node}\r\n");
    for (name, value) in *fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"));
    stream.write_all(head.as_bytes())?;
    // The error is used only without a response, because an instance that refuses the request may close
    // before it has read the body.
    let sent = stream.write_all(body.as_bytes()).and_then(|()| stream.flush());
    Ok((stream, sent))
}

fn read_answer(answer: &[u8]) -> Result<InstanceResponse, String> {
    if answer.is_empty() {
        return Err("it closed the connection without an answer; does its `admin_allow` list this address?"
            .to_owned());
    }
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("it did not answer in HTTP")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or("it did not answer in HTTP")?;
    let body = serde_json::from_str(body).map_err(|_| body.trim().to_owned());
    Ok(InstanceResponse { status, body })
}

impl InstanceResponse {
    /// The reason for a refusal: the `error_msg` of the instance, or its status.
    pub(crate) fn reason(&self) -> String {
        match &self.body {
            Ok(Value::Object(object)) if object.contains_key("error_msg") => {
                let reason = object["error_msg"].as_str().unwrap_or_default();
                match object.get("description").and_then(Value::as_str) {
                    Some(description) => format!("{reason}: {description}"),
                    None => reason.to_owned(),
                }
            }
            Ok(body) => format!("it answered {} {body}", self.status),
            Err(body) => format!("it answered {} {body}", self.status).trim_end().to_owned(),
        }
    }
}

/// An instance on the same machine or network accepts in milliseconds; one that is stuck never does.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Longest head of an answer that is followed.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Room for a whole set (at most the largest resource file) and its plan.
const ANSWER_BYTES_MAX: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_answers() {
        let check = |answer: &str, expected: Result<(u16, &str), &str>| {
            let got = read_answer(answer.as_bytes()).map(|answer| match &answer.body {
                Ok(body) if answer.status == 200 => (answer.status, body.to_string()),
                _ => (answer.status, answer.reason()),
            });
            let expected = expected.map(|(status, body)| (status, body.to_owned())).map_err(str::to_owned);
            assert_eq!(got, expected, "{answer}");
        };
        check("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"a\":1}", Ok((200, r#"{"a":1}"#)));
        check("HTTP/1.0 400 Bad Request\r\n\r\n{\"error_msg\":\"bad url\"}", Ok((400, "bad url")));
        check("HTTP/1.0 401 U\r\n\r\n{\"error_msg\":\"a\",\"description\":\"b\"}", Ok((401, "a: b")));
        check("HTTP/1.0 500 Oops\r\n\r\nno\n", Ok((500, "it answered 500 no")));
        check("HTTP/1.0 503 Busy\r\n\r\n", Ok((503, "it answered 503")));
        check("SSH-2.0-x\r\n", Err("it did not answer in HTTP"));
        check("SSH-2.0-x\r\n\r\n", Err("it did not answer in HTTP"));
    }

    #[test]
    fn missing_listener_differs_from_refusal() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let patience = Duration::from_secs(1);
        let question =
            InstanceRequest { method: "GET", target: "/", fields: &[], body: "", patience, tls: None };
        assert!(matches!(ask_instance(address, &question), Err(RequestFailure::NotThere(_))));
    }
}
