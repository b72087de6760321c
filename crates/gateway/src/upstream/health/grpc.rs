//! A check by the health service of gRPC (`grpc.health.v1.Health/Check`): one unary call on an HTTP/2
//! connection. Not in APISIX.

use std::io;

use http2::{Config, Connection, Event, FieldSink, RequestTarget, StreamKey};
use message::{Headers, ResponseHead};
use net::env;
use net::transport::Transport;

use super::io::{read_some, write_all_bytes};
use super::outcome::CheckOutcome;
use super::rules::Observation;

/// The path of the call.
const PATH: &[u8] = b"/grpc.health.v1.Health/Check";
/// The longest answer; `HealthCheckResponse` has two bytes as a rule.
const BODY_MAX_BYTES: usize = 1024;
/// Bytes of the length in front of a message, with its flag of compression.
const PREFIX_BYTES: usize = 5;

/// Asks whether `service` is served.
///
/// # Errors
/// The connection broke.
pub(super) async fn probe_grpc_health(
    transport: &mut Transport,
    scheme: &str,
    host: &str,
    service: &str,
) -> io::Result<CheckOutcome> {
    let mut call = GrpcHealthCall::begin(scheme, host, service);
    let mut input = Vec::new();
    loop {
        while !call.connection.output().is_empty() {
            let output = call.connection.output().to_vec();
            write_all_bytes(transport, &output).await?;
            call.connection.advance(output.len());
        }
        if let Some(outcome) = call.turn() {
            return Ok(outcome);
        }
        if !call.connection.output().is_empty() {
            continue;
        }
        input.clear();
        if read_some(transport, &mut input).await? == 0 {
            return Ok(CheckOutcome::new(Observation::TcpFailure, "it closed the connection"));
        }
        if let Err(error) = call.connection.receive(&input, env::monotonic_ns() / 1_000_000) {
            return Ok(CheckOutcome::new(Observation::BadResponse, format!("no HTTP/2: {error}")));
        }
    }
}

/// The call on its connection.
struct GrpcHealthCall {
    connection: Connection,
    key: Option<StreamKey>,
    head: ResponseHead,
    body: Vec<u8>,
}

impl GrpcHealthCall {
    fn begin(scheme: &str, host: &str, service: &str) -> GrpcHealthCall {
        let mut connection = Connection::client(Config { max_streams: 1, ..Config::default() });
        let authority = host.as_bytes();
        let target =
            RequestTarget { method: b"POST", scheme, authority, path: PATH, query: None, protocol: None };
        // A new connection takes a request.
        let key = connection.start_request(&target).ok().map(|mut writer| {
            writer.field("content-type", b"application/grpc");
            writer.field("te", b"trailers");
            writer.field("user-agent", b"weir-health-check");
            writer.finish(false)
        });
        if let Some(key) = key {
            // Shorter than every window (the schema bounds the name).
            connection.write_data(key, &request(service), true);
        }
        GrpcHealthCall { connection, key, head: ResponseHead::new(), body: Vec::new() }
    }

    /// Takes in what has arrived; the outcome once it is certain.
    fn turn(&mut self) -> Option<CheckOutcome> {
        let Some(own) = self.key else {
            return Some(CheckOutcome::not_made("the request could not be written"));
        };
        let bad = |detail: String| Some(CheckOutcome::new(Observation::BadResponse, detail));
        let mut part = Vec::new();
        while let Some(event) = self.connection.next_event() {
            match event {
                Event::Head(_) => {
                    let info = self.connection.take_response(own, &mut self.head);
                    // A call that fails at once ends with its head, without an event for the end.
                    if info.is_some_and(|info| info.is_end) {
                        return Some(self.outcome(own));
                    }
                }
                Event::Data(_) => {
                    let count = self.connection.take_data(own, &mut part);
                    self.connection.consume(own, count);
                    self.body.extend_from_slice(&part);
                    if self.body.len() > BODY_MAX_BYTES {
                        return bad("a response that is too long".to_owned());
                    }
                }
                Event::End(_) => {
                    self.connection.take_data(own, &mut part);
                    self.body.extend_from_slice(&part);
                    return Some(self.outcome(own));
                }
                Event::HeadTooLarge(_) => return bad("a head that is too large".to_owned()),
                Event::Reset(_, code) => return bad(format!("it reset the call ({code:?})")),
                Event::GoAway(_)
                | Event::Writable(_)
                | Event::SettingsChanged
                | Event::Pong(_)
                | Event::Drained => {}
            }
        }
        None
    }

    /// The outcome of the complete answer.
    fn outcome(&mut self, own: StreamKey) -> CheckOutcome {
        let bad = |detail: String| CheckOutcome::new(Observation::BadResponse, detail);
        if self.head.status != 200 {
            return bad(format!("status {}", self.head.status));
        }
        let mut trailers = Headers::new();
        self.connection.take_trailers(own, &mut trailers);
        // A call that fails at once has its status in the head.
        let status = [&trailers, &self.head.headers].into_iter().find_map(|fields| fields.get("grpc-status"));
        match status {
            Some(b"0") => {}
            Some(status) => {
                return bad(format!(
                    "grpc-status {}",
                    String::from_utf8_lossy(&status[..status.len().min(3)])
                ));
            }
            None => return bad("no grpc-status".to_owned()),
        }
        match serving_status(&self.body) {
            Some(1) => CheckOutcome::new(Observation::Success, "SERVING"),
            Some(0) => bad("UNKNOWN".to_owned()),
            Some(2) => bad("NOT_SERVING".to_owned()),
            Some(3) => bad("SERVICE_UNKNOWN".to_owned()),
            Some(other) => bad(format!("serving status {other}")),
            None => bad("a message that is no HealthCheckResponse".to_owned()),
        }
    }
}

/// `HealthCheckRequest { string service = 1 }` with its prefix; a name is shorter than 128 bytes, so that one
/// byte holds its length.
fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(PREFIX_BYTES + 2 + service.len());
    let length = if service.is_empty() { 0 } else { service.len() + 2 };
    message.extend_from_slice(&[0, 0, 0, 0, length as u8]);
    if !service.is_empty() {
        message.extend_from_slice(&[0x0a, service.len() as u8]);
        message.extend_from_slice(service.as_bytes());
    }
    message
}

/// The enumeration of `HealthCheckResponse { ServingStatus status = 1 }` with its prefix; 0 where the field
/// is left out. None for a compressed or malformed message.
fn serving_status(body: &[u8]) -> Option<i32> {
    let (prefix, message) = body.split_first_chunk::<PREFIX_BYTES>()?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if prefix[0] != 0 || message.len() != length {
        return None;
    }
    status_of_message(message)
}

/// The first field of a message, by the rules of Protocol Buffers: fields that are not known are skipped, and
/// the last value of one that is repeated counts.
fn status_of_message(mut message: &[u8]) -> Option<i32> {
    let (mut status, mut open_groups) = (0, 0_u32);
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let (field, wire_type) = (tag >> 3, tag & 7);
        if field == 0 || field > FIELD_MAX {
            return None;
        }
        match wire_type {
            0 => {
                let value = varint(&mut message)?;
                if field == STATUS_FIELD && open_groups == 0 {
                    // An enumeration has 32 bits; longer values are cut to them.
                    status = value as i32;
                }
            }
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            3 => open_groups += 1,
            4 => open_groups = open_groups.checked_sub(1)?,
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    (open_groups == 0).then_some(status)
}

/// Takes a number of at most ten bytes off the front of `bytes`.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for index in 0..VARINT_MAX_BYTES {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(7 * index).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The number of the field `status`.
const STATUS_FIELD: u64 = 1;
/// The largest number of a field.
const FIELD_MAX: u64 = (1 << 29) - 1;
/// The longest number: 64 bits, seven in a byte.
const VARINT_MAX_BYTES: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_and_read_as_protobuf() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
        let message = |message: &[u8]| [&[0, 0, 0, 0, message.len() as u8], message].concat();
        let cases: [(Vec<u8>, Option<i32>); 20] = [
            (message(&[8, 1]), Some(1)),
            (message(&[8, 2]), Some(2)),
            (message(&[]), Some(0)),
            (message(&[0x12, 3, b'a', b'b', b'c', 8, 1]), Some(1)),
            (message(&[8, 1, 0x12, 0]), Some(1)),
            (message(&[8, 2, 8, 1]), Some(1)),
            (message(&[8, 0x81, 0x80, 0]), Some(1)),
            (message(&[0x88, 0x80, 0, 1]), Some(1)),
            (message(&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Some(-1)),
            (message(&[16, 2, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 8, 1]), Some(1)),
            (message(&[0x1b, 8, 2, 0x1c, 8, 1]), Some(1)),
            (message(&[10, 1, 2]), Some(0)),
            (vec![1, 0, 0, 0, 2, 8, 1], None),
            (vec![0, 0, 0, 0, 3, 8, 1], None),
            (message(&[8]), None),
            (message(&[8, 0x81]), None),
            (message(&[0x12, 9, 1]), None),
            (message(&[0, 1]), None),
            (message(&[0x1b, 8, 1]), None),
            (vec![0, 0], None),
        ];
        for (body, expected) in cases {
            assert_eq!(serving_status(&body), expected, "{body:?}");
        }
    }
}
