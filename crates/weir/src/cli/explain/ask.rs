//! One question to a node's control API: a blocking HTTP/1.0 exchange, which needs no client library.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::Question;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody listens there.
    NotThere(io::Error),
    /// Somebody does, but does not answer the question; the reason as a sentence.
    Refused(String),
}

/// The record of the node at `control`.
pub(super) fn ask(control: SocketAddr, question: &Question) -> Result<Value, Failure> {
    let body = serde_json::to_string(question).map_err(|error| Failure::Refused(error.to_string()))?;
    let stream = TcpStream::connect_timeout(&control, PATIENCE).map_err(Failure::NotThere)?;
    let answer = exchange(stream, control, &body)
        .map_err(|error| Failure::Refused(format!("the node at {control} did not answer: {error}")))?;
    read_answer(&answer).map_err(|reason| Failure::Refused(format!("the node at {control}: {reason}")))
}

/// Sends the body and reads to the end. HTTP/1.0, so that the answer is neither chunked nor kept open.
fn exchange(mut stream: TcpStream, control: SocketAddr, body: &str) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "POST /v1/weir/explain HTTP/1.0\r\nHost: {control}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The JSON of a 200, or the reason of anything else.
fn read_answer(answer: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("it did not answer in HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    match (status, serde_json::from_str::<Value>(body)) {
        ("200", Ok(record)) => Ok(record),
        ("200", Err(error)) => Err(format!("its answer is not JSON: {error}")),
        ("404", _) => Err("it cannot explain; is it the control API of a weir of this version?".to_owned()),
        (_, Ok(Value::Object(object))) if object.contains_key("error_msg") => {
            Err(object["error_msg"].as_str().unwrap_or(body).to_owned())
        }
        _ => Err(format!("it answered {status} {}", body.trim())),
    }
}

/// A node on the same machine or network answers in milliseconds, a stuck one never.
const PATIENCE: Duration = Duration::from_secs(5);

/// A record lists at most 1,000 candidates of a few hundred bytes each.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_answers() {
        let check = |answer: &str, expected: Result<&str, &str>| {
            let got = read_answer(answer.as_bytes()).map(|record| record.to_string());
            assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{answer}");
        };
        check("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"a\":1}", Ok(r#"{"a":1}"#));
        check("HTTP/1.0 400 Bad Request\r\n\r\n{\"error_msg\":\"bad url\"}", Err("bad url"));
        check("HTTP/1.0 500 Oops\r\n\r\nno\n", Err("it answered 500 no"));
        check("SSH-2.0-x\r\n", Err("it did not answer in HTTP"));
    }

    #[test]
    fn tells_nobody_from_a_refusal() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let question = Question {
            method: "GET".to_owned(),
            url: "/".to_owned(),
            headers: Vec::new(),
            remote_addr: address.ip(),
        };
        assert!(matches!(ask(address, &question), Err(Failure::NotThere(_))));
    }
}
