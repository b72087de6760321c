//! A server that sends each body back with its trailers, or does what the path says.

use std::cell::Cell;
use std::rc::Rc;

use http3::{Connection, ErrorCode, Fault, FieldSink, writer};
use message::{FieldId, FieldSet, Headers, RequestHead};
use quinn::SendStream;

use super::driver::{Incoming, Link, Part, number};

/// Numbers of requests that the server has seen.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) requests: Cell<usize>,
    pub(crate) resets: Cell<usize>,
    pub(crate) rejected: Cell<usize>,
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

/// Serves a connection until it is closed. With `shutdown_at` the first step of a graceful shutdown comes
/// with that request, and the second behind its head.
pub(crate) async fn serve(
    engine: Connection,
    quic: quinn::Connection,
    counts: Rc<Counts>,
    shutdown_at: Option<usize>,
) {
    let link = Link::start(engine, quic).await;
    while let Ok((mut out, mut stream)) = link.quic.accept_bi().await {
        let reader = link.engine.borrow_mut().open_request(stream.id().into());
        let reader = match reader {
            Ok(reader) => reader,
            Err(error) => {
                count(&counts.rejected);
                let _ = (out.reset(number(error.code)), stream.stop(number(error.code)));
                continue;
            }
        };
        count(&counts.requests);
        if shutdown_at == Some(counts.requests.get()) {
            link.engine.borrow_mut().shutdown();
            link.engine.borrow_mut().finish_shutdown();
            link.flush_control().await;
        }
        let incoming = Incoming::new(link.clone(), reader, stream);
        tokio::task::spawn_local(exchange(incoming, out, counts.clone()));
    }
}

async fn exchange(mut incoming: Incoming, mut out: SendStream, counts: Rc<Counts>) {
    let mut buffer = Vec::new();
    loop {
        match incoming.next().await {
            Part::Head => {
                if head(&mut incoming, &mut out, &mut buffer) {
                    return;
                }
            }
            Part::HeadTooLarge => {
                writer::response(&mut buffer, 431).finish();
                out.write_all(&buffer).await.unwrap();
                out.finish().unwrap();
                return incoming.stop(ErrorCode::NO_ERROR);
            }
            Part::Data(bytes) => {
                buffer.extend_from_slice(writer::DataHeader::new(bytes.len()).as_bytes());
                let header = std::mem::take(&mut buffer);
                let written = out.write_all_chunks(&mut [header.into(), bytes]).await;
                if written.is_err() {
                    return count(&counts.resets);
                }
            }
            Part::End => {
                let mut trailers = Headers::new();
                if incoming.reader.take_trailers(&mut trailers) {
                    writer::trailers(&mut buffer, &trailers);
                }
                out.write_all(&buffer).await.unwrap();
                out.finish().unwrap();
                return incoming.link.engine.borrow_mut().request_completed();
            }
            Part::Reset(_) => {
                count(&counts.resets);
                let _ = out.reset(number(ErrorCode::REQUEST_CANCELLED));
                return;
            }
            Part::Fault(Fault::Stream(error)) => {
                incoming.stop(error.code);
                let _ = out.reset(number(error.code));
                return;
            }
            Part::Fault(Fault::Connection(error)) => return incoming.link.close(error),
            Part::Lost => return,
        }
    }
}

/// Answers a head; true if the exchange is over.
fn head(incoming: &mut Incoming, out: &mut SendStream, buffer: &mut Vec<u8>) -> bool {
    let mut head = RequestHead::new();
    incoming.reader.take_request(&mut head).unwrap();
    if head.path() == b"/reset" {
        incoming.stop(ErrorCode::VERSION_FALLBACK);
        out.reset(number(ErrorCode::VERSION_FALLBACK)).unwrap();
        return true;
    }
    let mut writer = writer::response(buffer, 200);
    writer.fields_except(&head.headers, FieldSet::of(&[FieldId::Host, FieldId::ContentLength]));
    writer.field("X-Target", head.target_text());
    writer.finish();
    false
}
