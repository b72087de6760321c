//! An origin for HTTP/2 that a test scripts frame by frame: it decodes what it reads and writes the bytes it
//! is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use http2::hpack::{Decoder, Field, FieldVisitor};
use testkit::Signal;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const ALTSVC: u8 = 10;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;

/// A frame as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// One connection of the gateway.
pub(crate) struct Peer {
    stream: TcpStream,
    /// Its number, from 0.
    pub(crate) number: usize,
    decoder: Decoder,
    log: Arc<Mutex<Vec<Frame>>>,
}

impl Peer {
    /// Writes a frame; one that the gateway no longer reads is lost.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.write(&frame(kind, flags, stream, payload));
    }

    /// Writes bytes at once; the gateway may no longer read them.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends SETTINGS with these values.
    pub(crate) fn settings(&mut self, settings: &[(u16, u32)]) {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        self.send(SETTINGS, 0, 0, &payload);
    }

    /// Answers with 200 and `body`.
    pub(crate) fn answer(&mut self, stream: u32, body: &[u8]) {
        self.send(HEADERS, END_HEADERS, stream, STATUS_200);
        self.send(DATA, END_STREAM, stream, body);
    }

    /// Answers the same once `signal` is set, while this peer reads on.
    pub(crate) fn answer_after(&self, signal: &Signal, stream: u32, body: &[u8]) {
        let socket = self.stream.try_clone().unwrap();
        let (decoder, log) = (Decoder::new(0), self.log.clone());
        let mut writer = Peer { stream: socket, number: self.number, decoder, log };
        let (signal, body) = (signal.clone(), body.to_vec());
        thread::spawn(move || {
            signal.wait();
            writer.answer(stream, &body);
        });
    }

    /// Resets a stream.
    pub(crate) fn reset(&mut self, stream: u32, code: u32) {
        self.send(RESET, 0, stream, &code.to_be_bytes());
    }

    /// Says GOAWAY; streams above `last` were not processed.
    pub(crate) fn goaway(&mut self, last: u32) {
        self.send(GOAWAY, 0, 0, &[last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat());
    }

    /// The next frame; none at the end of the connection. SETTINGS are acknowledged.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        self.log.lock().unwrap().push(frame.clone());
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.send(SETTINGS, ACK, 0, &[]);
        }
        Some(frame)
    }

    /// The next frame of this kind.
    pub(crate) fn wait_for(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The next request: its stream and its fields.
    pub(crate) fn request(&mut self) -> Option<(u32, Vec<(String, String)>)> {
        let frame = self.wait_for(HEADERS)?;
        assert_ne!(frame.flags & END_HEADERS, 0, "a request of the tests is one frame");
        let mut fields = Fields(Vec::new());
        self.decoder.decode(&frame.payload, &mut fields).expect("the gateway obeys HPACK");
        Some((frame.stream, fields.0))
    }

    /// Ends the connection. What was sent arrives, because unread bytes of the gateway would turn the close
    /// into a reset.
    pub(crate) fn close(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        self.drain();
    }

    /// Frames until the end of the connection.
    pub(crate) fn drain(&mut self) {
        while self.frame().is_some() {}
    }
}

struct Fields(Vec<(String, String)>);

impl FieldVisitor for Fields {
    fn field(&mut self, field: &Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push((text(field.name), text(field.value)));
    }
}

/// `:status: 200` by its index in the static table.
pub(crate) const STATUS_200: &[u8] = &[0x88];

/// See the module.
pub(crate) struct H2Origin {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    http1: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<Frame>>>,
}

impl H2Origin {
    /// Runs `script` for every connection, after the preface was read; its decoder has a table of 4096 bytes.
    pub(crate) fn start(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> H2Origin {
        H2Origin::with_table(4096, script)
    }

    /// The same with a table of `bytes`, as the script announces it.
    pub(crate) fn with_table(bytes: usize, script: impl Fn(&mut Peer) + Send + Sync + 'static) -> H2Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let log = Arc::new(Mutex::new(Vec::new()));
        let http1 = Arc::new(AtomicUsize::new(0));
        let (count, frames, script) = (accepted.clone(), log.clone(), Arc::new(script));
        let others = http1.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (script, log, others) = (script.clone(), frames.clone(), others.clone());
                thread::spawn(move || {
                    // A script that waits for nothing ends with its test.
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    // The end of a script may reset the connection; what it has written must be sent by then.
                    stream.set_nodelay(true).unwrap();
                    let mut preface = [0; 24];
                    if stream.read_exact(&mut preface).is_err() {
                        return;
                    }
                    if &preface != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" {
                        others.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    script(&mut Peer { stream, number, decoder: Decoder::new(bytes), log });
                });
            }
        });
        H2Origin { address, accepted, http1, log }
    }

    /// An origin that answers each request with `ok`.
    pub(crate) fn answering() -> H2Origin {
        H2Origin::start(|peer| {
            peer.settings(&[]);
            while let Some((stream, _)) = peer.request() {
                peer.answer(stream, b"ok");
            }
        })
    }

    pub(crate) fn node(&self) -> String {
        self.address.to_string()
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Connections that began with something else than HTTP/2.
    pub(crate) fn http1_connections(&self) -> usize {
        self.http1.load(Ordering::SeqCst)
    }

    /// Whether a frame for which `is_wanted` holds has arrived.
    pub(crate) fn has_seen(&self, is_wanted: impl Fn(&Frame) -> bool) -> bool {
        self.log.lock().unwrap().iter().any(is_wanted)
    }

    /// How many frames have arrived for which `is_wanted` holds.
    pub(crate) fn count(&self, is_wanted: impl Fn(&Frame) -> bool) -> usize {
        self.log.lock().unwrap().iter().filter(|frame| is_wanted(frame)).count()
    }
}
