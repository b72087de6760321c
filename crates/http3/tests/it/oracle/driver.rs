//! Drives the engine over a QUIC connection, as the gateway does: the control stream, unidirectional streams
//! of the peer, and the faults that end streams and the connection.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use http3::{
    Connection, ConnectionError, ErrorCode, Fault, RequestEvent, RequestReader, UniState, UniStream,
};
use quinn::{RecvStream, SendStream, VarInt};

/// The engine and its transport, shared by the tasks of the streams.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) engine: Rc<RefCell<Connection>>,
    pub(crate) quic: quinn::Connection,
    control: Rc<tokio::sync::Mutex<SendStream>>,
}

/// An error code of the transport.
pub(crate) fn number(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap()
}

impl Link {
    /// Opens the control stream and reads those of the peer in tasks.
    pub(crate) async fn start(engine: Connection, quic: quinn::Connection) -> Self {
        let control = quic.open_uni().await.unwrap();
        let engine = Rc::new(RefCell::new(engine));
        let link = Self { engine, quic, control: Rc::new(tokio::sync::Mutex::new(control)) };
        link.flush_control().await;
        let accepting = link.clone();
        tokio::task::spawn_local(async move {
            while let Ok(stream) = accepting.quic.accept_uni().await {
                tokio::task::spawn_local(accepting.clone().read_uni(stream));
            }
        });
        link
    }

    /// Writes what waits for the control stream.
    pub(crate) async fn flush_control(&self) {
        let output = self.engine.borrow().control_output().to_vec();
        self.engine.borrow_mut().advance_control(output.len());
        self.control.lock().await.write_all(&output).await.unwrap();
    }

    /// Closes the connection as a fault asks.
    pub(crate) fn close(&self, error: ConnectionError) {
        self.quic.close(number(error.code), error.reason.as_bytes());
    }

    async fn read_uni(self, mut stream: RecvStream) {
        let mut uni = UniStream::new();
        loop {
            let chunk = stream.read_chunk(usize::MAX, true).await;
            let result = match &chunk {
                Ok(Some(chunk)) => self.engine.borrow_mut().receive_uni(&mut uni, &chunk.bytes),
                _ if self.quic.close_reason().is_some() => return,
                _ => self.engine.borrow_mut().end_uni(&uni).map(|()| UniState::Unwanted),
            };
            match result {
                Ok(UniState::Open) => {}
                Ok(UniState::Unwanted) => {
                    let _ = stream.stop(number(ErrorCode::STREAM_CREATION_ERROR));
                    return;
                }
                Err(error) => return self.close(error),
            }
        }
    }
}

/// A part of a message, or its end.
#[derive(Debug)]
pub(crate) enum Part {
    Head,
    HeadTooLarge,
    Data(Bytes),
    End,
    Fault(Fault),
    /// The peer reset the stream with this code.
    Reset(u64),
    /// The connection is gone.
    Lost,
}

/// A request stream in the direction from the peer.
pub(crate) struct Incoming {
    pub(crate) link: Link,
    pub(crate) reader: RequestReader,
    stream: RecvStream,
    /// Received bytes that were not read.
    chunk: Bytes,
}

impl Incoming {
    pub(crate) fn new(link: Link, reader: RequestReader, stream: RecvStream) -> Self {
        Self { link, reader, stream, chunk: Bytes::new() }
    }

    /// The next part of the message. Content shares the memory of the transport's chunk.
    pub(crate) async fn next(&mut self) -> Part {
        loop {
            if self.chunk.is_empty() {
                match self.stream.read_chunk(16 * 1024, true).await {
                    Ok(Some(chunk)) => self.chunk = chunk.bytes,
                    Ok(None) => {
                        let end = self.reader.finish(&mut self.link.engine.borrow_mut());
                        return end.map_or_else(Part::Fault, |()| Part::End);
                    }
                    Err(quinn::ReadError::Reset(code)) => return Part::Reset(code.into_inner()),
                    Err(_) => return Part::Lost,
                }
            }
            let step = match self.reader.read(&mut self.link.engine.borrow_mut(), &self.chunk) {
                Ok(step) => step,
                Err(fault) => return Part::Fault(fault),
            };
            let read = self.chunk.split_to(step.consumed);
            match step.event {
                Some(RequestEvent::Head) => return Part::Head,
                Some(RequestEvent::HeadTooLarge) => return Part::HeadTooLarge,
                Some(RequestEvent::Data(range)) => return Part::Data(read.slice(range)),
                None => {}
            }
        }
    }

    /// Stops the peer's sending.
    pub(crate) fn stop(&mut self, code: ErrorCode) {
        let _ = self.stream.stop(number(code));
    }
}
