//! One request of a client of HTTP/2 and its response. It moves no bytes of the connection.

use http2::{BodyState, Connection, ErrorCode, RequestTarget, StreamKey};
use message::{FieldSink, ResponseHead};

use super::super::client::Client;
use super::super::ledger::Ending;
use super::super::pattern::Whose;
use super::super::plugins::{EDIT_MASK, LOCAL_STATUS};
use net::env::memory::{Random, note};

/// A request in flight.
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) panics: bool,
    pub(super) is_over: bool,
    method: &'static str,
    key: StreamKey,
    body: Vec<u8>,
    sent: usize,
    /// The end of the part of the body that may be sent: half of it while the call holds the rest back.
    send_to: usize,
    answer: Option<Answer>,
}

/// The part of a response that has arrived.
struct Answer {
    status: u16,
    /// The execution at a node that made it; none for a response of the gateway.
    execution: Option<usize>,
    mask: u8,
    bytes: u64,
    /// The body of a response of the gateway.
    local: Vec<u8>,
}

impl Call {
    /// Draws a request and starts it. The connection takes it, because it has few streams.
    pub(super) fn start(client: &Client, engine: &mut Connection, random: &mut Random) -> Call {
        let plan = &client.plan;
        let method = *random.pick(&["GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE"]);
        let route = random.below(plan.routes as u64) as usize;
        let has_body = matches!(method, "POST" | "PUT");
        let body_bytes = match random.below(10) {
            _ if !has_body => 0,
            0..6 => random.below(200),
            6..9 => random.below(4_000),
            _ => random.below(90_000),
        };
        let id = client.ledger.ask(method, route, body_bytes);
        let path = format!("/r{route}/{id}");
        let target = RequestTarget {
            method: method.as_bytes(),
            scheme: "http",
            authority: b"h",
            path: path.as_bytes(),
            query: None,
            protocol: None,
        };
        let mut writer = engine.start_request(&target).expect("asked before, and few streams are open");
        writer.field("x-id", id.to_string().as_bytes());
        let panics = random.chance(plan.faults.panic);
        if panics {
            writer.field("x-panic", random.pick(&["access", "head", "body"]).as_bytes());
        }
        if has_body && random.chance(60) {
            writer.field("content-length", body_bytes.to_string().as_bytes());
        }
        let key = writer.finish(!has_body);
        let body = Whose::Request(id).bytes(0, body_bytes);
        let send_to = if has_body { body.len() } else { 0 };
        let mut call = Call { id, panics, is_over: false, method, key, body, sent: 0, send_to, answer: None };
        if has_body && call.body.is_empty() {
            engine.finish(call.key, None);
            call.body.clear();
        }
        call
    }

    /// Stops the body before its last byte.
    pub(super) fn hold_back(&mut self) {
        self.send_to = self.body.len() / 2;
    }

    /// Sends the rest of the body.
    pub(super) fn go_on(&mut self) {
        self.send_to = self.body.len();
    }

    /// Resets the stream.
    pub(super) fn cancel(&mut self, client: &Client, engine: &mut Connection) {
        engine.reset(self.key, ErrorCode::CANCEL);
        engine.release(self.key);
        self.leave(client);
    }

    /// Gives the request up.
    pub(super) fn leave(&mut self, client: &Client) {
        self.is_over = true;
        client.ledger.end(self.id, Ending::GivenUp, false);
    }

    /// Sends and receives what the connection has and takes; whether anything moved.
    pub(super) fn step(&mut self, client: &Client, engine: &mut Connection, random: &mut Random) -> bool {
        let mut has_moved = self.send(engine, random);
        let mut head = ResponseHead::new();
        while engine.take_response(self.key, &mut head).is_some() {
            has_moved = true;
            if head.status >= 200 {
                self.answer = Some(self.begin_answer(client, &head));
            }
        }
        let mut piece = Vec::new();
        while let BodyState::Data(_) = engine.body_state(self.key) {
            has_moved = true;
            engine.take_data(self.key, &mut piece);
            self.receive(client, &mut piece);
            engine.consume(self.key, piece.len());
        }
        has_moved
    }

    fn send(&mut self, engine: &mut Connection, random: &mut Random) -> bool {
        let before = self.sent;
        while self.sent < self.send_to {
            let end = self.send_to.min(self.sent + 1 + random.below(20_000) as usize);
            let piece = &self.body[self.sent..end];
            let count = engine.write_data(self.key, piece, end == self.body.len());
            self.sent += count;
            if count < piece.len() {
                break;
            }
        }
        self.sent > before
    }

    fn begin_answer(&self, client: &Client, head: &ResponseHead) -> Answer {
        let number = |name: &str| std::str::from_utf8(head.headers.get(name)?).ok()?.parse::<u64>().ok();
        note(|| format!("client {}: request {} gets {}", client.number, self.id, head.status));
        // Every response carries the stamp of its request, except a 408, because its request was never read
        // whole.
        let stamp = number("x-stamp");
        if stamp.is_some_and(|stamp| stamp != self.id) || stamp.is_none() && head.status != 408 {
            let status = head.status;
            client.ledger.violation(format!("request {} got the answer of {stamp:?}: {status}", self.id));
        }
        let execution = number("x-id").and_then(|id| {
            if id != self.id {
                client.ledger.violation(format!("request {} was answered by the answer of {id}", self.id));
            }
            number("x-execution").map(|execution| execution as usize)
        });
        let mask = if head.headers.get("x-edited").is_some() { EDIT_MASK } else { 0 };
        Answer { status: head.status, execution, mask, bytes: 0, local: Vec::new() }
    }

    fn receive(&mut self, client: &Client, piece: &mut [u8]) {
        let Some(answer) = &mut self.answer else {
            return client.ledger.violation(format!("request {} got a body without a head", self.id));
        };
        let Some(execution) = answer.execution else {
            return answer.local.extend_from_slice(piece);
        };
        piece.iter_mut().for_each(|byte| *byte ^= answer.mask);
        if !Whose::Answer(self.id, execution).is_at(answer.bytes, piece) {
            let place = format!("{} on, execution {execution}", answer.bytes);
            client.ledger.violation(format!("the answer to {} is not its own from {place}", self.id));
        }
        answer.bytes += piece.len() as u64;
    }

    /// How the request has ended, if it has.
    pub(super) fn ending(&mut self, client: &Client, engine: &mut Connection) -> Option<Ending> {
        let (whole, is_unprocessed) = match engine.body_state(self.key) {
            BodyState::End { .. } => (true, false),
            BodyState::Reset(reset) => (false, reset.is_unprocessed),
            BodyState::Pending | BodyState::Data(_) => return None,
        };
        self.is_over = true;
        engine.release(self.key);
        let Some(mut answer) = self.answer.take() else {
            return Some(Ending::Nothing { expected: is_unprocessed });
        };
        match answer.execution {
            Some(execution) if self.method == "HEAD" => {
                // A response to HEAD has no body, so the bytes that the execution recorded stand in for it.
                let executions = client.ledger.entry(self.id).map_or(Vec::new(), |entry| entry.executions);
                answer.bytes = executions.get(execution).map_or(0, |done| done.bytes);
            }
            None if whole && answer.status == LOCAL_STATUS && self.method != "HEAD" => {
                let wanted = format!("local {}", self.id);
                let edited: Vec<u8> = answer.local.iter().map(|byte| byte ^ EDIT_MASK).collect();
                if answer.local != wanted.as_bytes() && edited != wanted.as_bytes() {
                    let local = &answer.local;
                    client.ledger.violation(format!("request {} got the local answer {local:?}", self.id));
                }
            }
            _ => {}
        }
        let Answer { status, execution, bytes, .. } = answer;
        Some(Ending::Answer { status, execution, bytes, whole })
    }
}
