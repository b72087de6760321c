//! A server that sends each body back with its trailers, or does what the path says.

use std::collections::HashMap;

use super::driver::App;
use http2::{BodyState, Connection, ErrorCode, Event, FieldSink, StreamKey};
use message::{FieldSet, Headers, RequestHead};

#[derive(Default)]
pub(crate) struct Echo {
    streams: HashMap<StreamKey, Body>,
    /// Streams that the client reset.
    pub(crate) resets: usize,
    pub(crate) requests: usize,
    pub(crate) is_drained: bool,
    shutdown_at: Option<usize>,
}

#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    sent: usize,
}

impl Echo {
    /// An echo that begins a graceful shutdown with this request.
    pub(crate) fn with_shutdown_at(request: usize) -> Self {
        Self { shutdown_at: Some(request), ..Self::default() }
    }

    fn request(&mut self, connection: &mut Connection, key: StreamKey) {
        self.requests += 1;
        if self.shutdown_at == Some(self.requests) {
            connection.shutdown();
        }
        let mut head = RequestHead::new();
        connection.take_request(key, &mut head).unwrap();
        match head.path() {
            b"/reset" => {
                connection.reset(key, ErrorCode::HTTP_1_1_REQUIRED);
                return connection.release(key);
            }
            b"/early" => {
                connection.start_response(key, 413).unwrap().finish(true);
                return connection.release(key);
            }
            _ => {}
        }
        connection.start_interim(key, 103).unwrap().field("Link", b"</style>");
        let mut writer = connection.start_response(key, 200).unwrap();
        writer.fields_except(&head.headers, FieldSet::of(&[message::FieldId::Host]));
        writer.field("X-Path", head.path());
        writer.finish(false);
        self.streams.insert(key, Body::default());
        self.pump(connection, key);
    }

    fn pump(&mut self, connection: &mut Connection, key: StreamKey) {
        let Some(body) = self.streams.get_mut(&key) else { return };
        loop {
            if body.sent < body.bytes.len() {
                let count = connection.write_data(key, &body.bytes[body.sent..], false);
                connection.consume(key, count);
                body.sent += count;
                if body.sent < body.bytes.len() {
                    return;
                }
            }
            match connection.body_state(key) {
                BodyState::Pending => return,
                BodyState::Data(length) => {
                    assert_eq!(connection.take_data(key, &mut body.bytes), length);
                    body.sent = 0;
                }
                BodyState::End { has_trailers } => {
                    let mut trailers = Headers::new();
                    assert_eq!(connection.take_trailers(key, &mut trailers), has_trailers);
                    connection.finish(key, Some(&trailers));
                    break;
                }
                BodyState::Reset(_) => {
                    self.resets += 1;
                    break;
                }
            }
        }
        connection.release(key);
        self.streams.remove(&key);
    }
}

impl App for Echo {
    fn event(&mut self, connection: &mut Connection, event: Event) {
        match event {
            Event::Head(key) => self.request(connection, key),
            Event::Data(key) | Event::End(key) | Event::Writable(key) | Event::Reset(key, _) => {
                self.pump(connection, key);
            }
            Event::Drained => self.is_drained = true,
            _ => {}
        }
    }

    fn is_done(&self, connection: &Connection) -> bool {
        connection.is_drained()
    }
}
