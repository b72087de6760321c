//! A client that sends bodies and expects them back, for the engine in the client's role.

use std::collections::HashMap;

use super::content;
use super::driver::App;
use http2::{BodyState, Connection, Event, FieldSink, RequestTarget, StartError, StreamKey};
use message::{Headers, ResponseHead};

/// The end of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The whole body came back.
    Good,
    /// The peer says that it did not process it.
    Unprocessed,
    /// It was reset.
    Reset(u32),
}

pub(crate) struct Asker {
    /// Exchanges that are to be started.
    pub(crate) left: usize,
    length: usize,
    path: &'static str,
    streams: HashMap<StreamKey, Exchange>,
    pub(crate) outcomes: Vec<Outcome>,
}

struct Exchange {
    seed: usize,
    upload: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    statuses: Vec<u16>,
}

impl Asker {
    pub(crate) fn new(count: usize, length: usize, path: &'static str) -> Self {
        Self { left: count, length, path, streams: HashMap::new(), outcomes: Vec::new() }
    }

    /// Starts as many exchanges as the connection takes.
    pub(crate) fn start(&mut self, connection: &mut Connection) {
        while self.left > 0 {
            let target = RequestTarget {
                method: b"POST",
                scheme: "https",
                authority: b"h.example",
                path: self.path.as_bytes(),
                query: Some(b"a=b"),
                protocol: None,
            };
            let mut writer = match connection.start_request(&target) {
                Ok(writer) => writer,
                Err(StartError::TooManyStreams) => return,
                Err(error) => {
                    assert_eq!(error, StartError::GoAway);
                    self.left = 0;
                    return;
                }
            };
            writer.field("X-Constant", b"the same in every request");
            writer.field("X-Seed", self.left.to_string().as_bytes());
            let key = writer.finish(false);
            let upload = content(self.left, self.length);
            let (sent, received, statuses) = (0, Vec::new(), Vec::new());
            self.streams.insert(key, Exchange { seed: self.left, upload, sent, received, statuses });
            self.left -= 1;
            self.upload(connection, key);
        }
    }

    fn upload(&mut self, connection: &mut Connection, key: StreamKey) {
        let Some(exchange) = self.streams.get_mut(&key) else { return };
        let before = exchange.sent;
        exchange.sent += connection.write_data(key, &exchange.upload[exchange.sent..], false);
        if exchange.sent == exchange.upload.len() && (exchange.sent > before || before == 0) {
            let mut trailers = Headers::new();
            trailers.append("X-Sum", exchange.seed.to_string().as_bytes()).unwrap();
            connection.finish(key, Some(&trailers));
        }
    }

    fn download(&mut self, connection: &mut Connection, key: StreamKey) {
        let Some(exchange) = self.streams.get_mut(&key) else { return };
        let mut head = ResponseHead::new();
        while connection.take_response(key, &mut head).is_some() {
            exchange.statuses.push(head.status);
        }
        let mut buffer = Vec::new();
        let outcome = loop {
            match connection.body_state(key) {
                BodyState::Pending => return,
                BodyState::Data(_) => {
                    let count = connection.take_data(key, &mut buffer);
                    connection.consume(key, count);
                    exchange.received.extend_from_slice(&buffer);
                }
                BodyState::End { has_trailers } => {
                    assert!(has_trailers && exchange.received == exchange.upload, "seed {}", exchange.seed);
                    assert_eq!(exchange.statuses.last(), Some(&200));
                    let sum = connection.trailers(key).unwrap().get("x-sum").unwrap();
                    assert_eq!(sum, exchange.seed.to_string().as_bytes());
                    break Outcome::Good;
                }
                BodyState::Reset(reset) if reset.is_unprocessed => break Outcome::Unprocessed,
                BodyState::Reset(reset) => break Outcome::Reset(reset.code.0),
            }
        };
        self.outcomes.push(outcome);
        self.streams.remove(&key);
        connection.release(key);
        self.start(connection);
    }
}

impl App for Asker {
    fn event(&mut self, connection: &mut Connection, event: Event) {
        match event {
            Event::SettingsChanged => self.start(connection),
            Event::Writable(key) => self.upload(connection, key),
            Event::Head(key) | Event::Data(key) | Event::End(key) | Event::Reset(key, _) => {
                self.download(connection, key);
            }
            _ => {}
        }
    }

    fn is_done(&self, connection: &Connection) -> bool {
        self.left == 0 && self.streams.is_empty() && connection.peer_settings().has_arrived
    }
}
