//! Layer 7: serves the requests of a client's connection in turn, each with an upstream connection that is
//! kept afterwards. `exchange` forwards one request; this module chooses the connections.

use std::io;
use std::net::IpAddr;

use super::buffers::{Buffer, Buffers};
use super::exchange::{ConnectionReuse, Exchange, ForwardFault};
use super::link::{LinkReader, LinkWriter};
use super::loops::{LoopLocation, Loops};

/// Bytes of a connection; some may have been read before they were needed.
#[derive(Debug)]
pub(super) struct BufferedSource {
    reader: LinkReader,
    rest: Option<Buffer>,
}

impl BufferedSource {
    pub(super) fn new(reader: LinkReader) -> Self {
        Self { reader, rest: None }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Buffer>> {
        match self.rest.take() {
            Some(rest) => Ok(Some(rest)),
            None => self.reader.read().await,
        }
    }

    /// The bytes that were read already, if there are any.
    pub(super) fn waiting(&mut self) -> Option<Buffer> {
        self.rest.take()
    }

    /// Bytes from the connection itself; only if no read bytes are left.
    pub(super) async fn more(&mut self) -> io::Result<Option<Buffer>> {
        debug_assert!(self.rest.is_none(), "there are older bytes");
        self.reader.read().await
    }

    /// Returns bytes that are not needed yet.
    pub(super) fn put_back(&mut self, rest: Buffer) {
        if !rest.is_empty() {
            self.rest = Some(rest);
        }
    }

    /// Whether no unrequested bytes have arrived.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.rest.is_none() && self.reader.is_quiet()
    }
}

/// A connection to the origin.
#[derive(Debug)]
pub(super) struct UpstreamLink {
    pub(super) source: BufferedSource,
    pub(super) writer: LinkWriter,
    pub(super) place: LoopLocation,
}

/// Serves one client until it or a fault ends its connection.
pub(super) async fn serve_layer7(
    (reader, mut writer): (LinkReader, LinkWriter),
    client: IpAddr,
    me: usize,
    loops: &Loops,
) {
    let mut source = BufferedSource::new(reader);
    let mut exchange = Exchange::new(client, loops.settings.buffers);
    loop {
        match exchange.read_request(&mut source).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(fault) => return refuse(writer, fault, loops.settings.buffers).await,
        }
        let Some(mut upstream) = upstream(me, loops).await else {
            return refuse(writer, ForwardFault::Origin, loops.settings.buffers).await;
        };
        match exchange.run(&mut source, &mut writer, &mut upstream).await {
            Ok(ConnectionReuse { keep_client, keep_upstream }) => {
                if keep_upstream {
                    loops.keep(me, upstream);
                }
                if !keep_client {
                    return drop(writer.finish().await);
                }
            }
            // A response that has begun cannot be taken back, so the broken connection shows the fault.
            Err(_) if exchange.answer_has_begun => return,
            Err(fault) => return refuse(writer, fault, loops.settings.buffers).await,
        }
    }
}

async fn upstream(me: usize, loops: &Loops) -> Option<UpstreamLink> {
    let place = loops.place(me);
    if let Some(idle) = loops.idle(me, place) {
        return Some(idle);
    }
    let (reader, writer) = loops.connect(place).await.ok()?;
    Some(UpstreamLink { source: BufferedSource::new(reader), writer, place })
}

/// Answers in the origin's place, and ends the connection.
async fn refuse(mut writer: LinkWriter, fault: ForwardFault, buffers: Buffers) {
    let (status, reason) = match fault {
        ForwardFault::Client => return,
        ForwardFault::Request(error) => (error.status(), "Refused"),
        ForwardFault::Origin => (502, "Bad Gateway"),
    };
    let mut answer = buffers.take();
    let text = format!("HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    answer.bytes_mut().extend_from_slice(text.as_bytes());
    // The client may be gone; a failed write needs no report.
    if writer.write(answer).await.is_ok() {
        let _ = writer.finish().await;
    }
}
