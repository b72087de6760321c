//! One small HTTP/1.1 server for all listeners of the control side. Each listener passes a [`Handler`], which
//! makes the answers.
//!
//! Everything that a peer can use up is limited: connections, time for the head and the body, bytes of the
//! body. Silent connections cannot keep others out: they are closed first when the seats run out
//! (`serve/seats.rs`).

pub(crate) mod list_query;
mod notice;
pub(crate) mod query;
pub mod respond;
pub mod role;
mod seats;
mod secure;
mod stream;
pub(crate) mod streamed;
pub mod tls;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use outbound::tls::Io;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use notice::Notice;
pub(crate) use seats::SeatStage;
use seats::{HeldSeat, SeatLimits, Seats};
use streamed::AnswerBody;

use crate::serve::tls::ServerTls;

/// An answer that is not complete yet.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response<Bytes>> + Send>>;

/// An answer that ends a request early; boxed, because it is rare.
pub type RefusalResponse = Box<Response<Bytes>>;

/// The address of the peer; every request that is answered carries it.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// The handling of requests by a listener.
pub trait Handler: Send + Sync + 'static {
    /// Whether connections from that address are served. Other connections are closed when they are accepted,
    /// before they take a seat.
    fn allows(&self, _peer: SocketAddr) -> bool {
        true
    }

    /// The queue in which a request with that head waits for its turn before its body is read; none if it
    /// need not wait.
    fn queue(&self, _head: &Parts) -> Option<Arc<Semaphore>> {
        None
    }

    /// The answer to a request that waited too long for its turn.
    fn busy(&self) -> Response<Bytes> {
        plain(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// Checks the head before a byte of the body is read. An `Err` is the answer; the body is then not read.
    /// The extensions of the head carry results of the check to the other methods.
    ///
    /// # Errors
    /// The answer to a client that may not send this request.
    fn admit(&self, head: &mut Parts, peer: SocketAddr) -> Result<(), RefusalResponse>;

    /// The answer for a body over `limit`, [`Handler::max_body_bytes`]. `size` is the declared length, if
    /// there is one.
    fn too_large(&self, size: Option<u64>, limit: usize) -> Response<Bytes>;

    /// The longest body that is read for such a request, in bytes.
    fn max_body_bytes(&self, head: &Parts) -> usize;

    /// The answer to an admitted request with its whole body.
    fn answer(&self, request: Request<Bytes>) -> ResponseFuture;
}

/// The count of requests of a listener that are expected or being answered.
#[derive(Debug, Clone, Default)]
pub struct Busy(Arc<AtomicUsize>);

impl Busy {
    /// New connections that have not been answered yet, plus requests on older connections.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn begin(&self) -> BusyGuard {
        self.0.fetch_add(1, Ordering::AcqRel);
        BusyGuard(self.clone())
    }
}

/// One counted request or connection; it is no longer counted when this is dropped.
#[derive(Debug)]
struct BusyGuard(Busy);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves `listener` until `stop` is true; connections then finish the request they are at. While `paused` is
/// true, new connections wait in the kernel's queue. With `tls` it speaks HTTPS and answers plain HTTP with
/// 400.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    handler: Arc<dyn Handler>,
    mut paused: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
    busy: Busy,
) {
    let seats = Arc::new(Mutex::new(Seats::new(SEATS)));
    let open = Arc::new(Semaphore::new(SEATS.total + MAX_CLOSING));
    let (mut refused, mut failed) = (Notice::default(), Notice::default());
    loop {
        let next = async {
            let open = Arc::clone(&open).acquire_owned().await.expect("the semaphore is never closed");
            (open, accept(&listener, &mut paused).await)
        };
        let (open, accepted) = tokio::select! {
            next = next => next,
            () = stopped(&mut stop) => return,
        };
        match accepted {
            Ok((_, peer)) if !handler.allows(peer) => {
                if let Some(more) = refused.due() {
                    tracing::warn!(%peer, more, "closed a connection: the address is not on the allow list");
                }
            }
            Ok((stream, peer)) => {
                // Without a free seat every connection is being answered; the client may try again.
                let Some(seat) = HeldSeat::take(&seats, peer.ip()) else { continue };
                let (handler, tls) = (Arc::clone(&handler), tls.clone());
                let mut stop = stop.clone();
                let (busy, first) = (busy.clone(), busy.begin());
                tokio::spawn(async move {
                    let seat = Arc::new(seat);
                    // Answers are written in one piece; waiting for more would only delay them.
                    let _ = stream.set_nodelay(true);
                    let secured =
                        secure::open_connection(stream, peer, &seat, tls.as_deref(), &mut stop).await;
                    if let Some(stream) = secured {
                        connection(stream, peer, seat, handler, stop, (busy, first)).await;
                    }
                    drop(open);
                });
            }
            Err(fault) if fault.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(fault) => {
                // The usual cause is that the process has no free descriptor (EMFILE).
                if let Some(more) = failed.due() {
                    tracing::warn!(%fault, more, "cannot accept a connection");
                }
                let pause = if seats.lock().make_room() { ACCEPT_PAUSE_WITH_ROOM } else { ACCEPT_PAUSE };
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// The next connection that is accepted outside a pause.
async fn accept(
    listener: &TcpListener,
    paused: &mut watch::Receiver<bool>,
) -> std::io::Result<(TcpStream, SocketAddr)> {
    loop {
        // Without a sender that could pause, there are no pauses.
        let _ = paused.wait_for(|paused| !*paused).await;
        tokio::select! {
            // The pause comes first, because a connection that is accepted after its begin would be answered
            // too late.
            biased;
            Ok(_) = paused.wait_for(|paused| *paused) => {}
            accepted = listener.accept() => return accepted,
        }
    }
}

/// Turns one request into its answer: admission, body, handler. Reports the progress to `note`. Needs no
/// socket, so that tests can call it.
pub(crate) async fn respond_to_request<B>(
    handler: &dyn Handler,
    request: Request<B>,
    peer: SocketAddr,
    note: &(dyn Fn(SeatStage) + Send + Sync),
) -> Response<Bytes>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    note(SeatStage::Reading);
    let (mut head, body) = request.into_parts();
    let mut body = Box::pin(body);
    head.extensions.insert(Peer(peer));
    if let Err(refusal) = handler.admit(&mut head, peer) {
        discard(&head, body);
        return closing(*refusal);
    }
    let limit = handler.max_body_bytes(&head);
    let declared = body.size_hint().exact();
    if declared.is_some_and(|size| size > limit as u64) {
        discard(&head, body);
        return closing(handler.too_large(declared, limit));
    }
    // The permit is held until the answer is made, because the parsed body is larger than the body.
    let _turn = match turn(handler.queue(&head)).await {
        Ok(turn) => turn,
        Err(()) => {
            discard(&head, body);
            return closing(handler.busy());
        }
    };
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body.as_mut(), limit).collect()).await;
    match collected {
        Ok(Ok(body)) => {
            note(SeatStage::Answering);
            handler.answer(Request::from_parts(head, body.to_bytes())).await
        }
        Ok(Err(fault)) if fault.is::<LengthLimitError>() => {
            discard(&head, body);
            closing(handler.too_large(None, limit))
        }
        Ok(Err(_)) => closing(plain(StatusCode::BAD_REQUEST)),
        Err(_) => closing(plain(StatusCode::REQUEST_TIMEOUT)),
    }
}

/// The permit of that queue; an error when it is not free in time.
async fn turn(queue: Option<Arc<Semaphore>>) -> Result<Option<OwnedSemaphorePermit>, ()> {
    let Some(queue) = queue else { return Ok(None) };
    match tokio::time::timeout(TURN_TIMEOUT, queue.acquire_owned()).await {
        Ok(Ok(turn)) => Ok(Some(turn)),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}

/// Reads and drops the remaining body of a refused request, for a limited time. Closing a socket with unread
/// bytes resets the connection, and the client would see the reset instead of the answer.
fn discard<B>(head: &Parts, mut body: Pin<Box<B>>)
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    // A client that waits for 100 (Continue) has sent no body yet, and reading would send the permission.
    if body.is_end_stream() || head.headers.contains_key(header::EXPECT) {
        return;
    }
    let reading = async move {
        let mut left = DISCARDED_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    tokio::spawn(tokio::time::timeout(DISCARD_TIMEOUT, reading));
}

async fn connection(
    stream: Box<dyn Io>,
    peer: SocketAddr,
    seat: Arc<HeldSeat>,
    handler: Arc<dyn Handler>,
    mut stop: watch::Receiver<bool>,
    (busy, first): (Busy, BusyGuard),
) {
    let first = Arc::new(Mutex::new(Some(first)));
    let noted = Arc::clone(&seat);
    let ending = stop.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (handler, seat, ending) = (Arc::clone(&handler), Arc::clone(&noted), ending.clone());
        let first = first.lock().take();
        let guard = first.unwrap_or_else(|| busy.begin());
        async move {
            let response = respond_to_request(&*handler, request, peer, &|stage| seat.note(stage)).await;
            let response = AnswerBody::of(response, &ending);
            // A stream is being answered until its connection ends; it does not keep a listener that stops
            // waiting.
            if !response.body().is_streamed() {
                seat.note(SeatStage::Idle);
            }
            drop(guard);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .title_case_headers(true)
        // The seat's deadlines limit the time for heads and silence.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut is_stopping = false;
    // Dropping the connection closes its socket.
    while let Some(look_again_at) = seat.look_again_at() {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(fault) = ended {
                    tracing::debug!(%peer, %fault, "a control connection broke off");
                }
                return;
            }
            () = seat.given_away() => return,
            () = tokio::time::sleep_until(look_again_at.into()) => {}
            () = stopped(&mut stop), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Waits until the sender says so or is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Adds `Connection: close`, because the body was not read and the connection cannot carry another request.
fn closing(mut response: Response<Bytes>) -> Response<Bytes> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn plain(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

/// Seats of each listener. Admin clients are few; the total keeps a flood from taking all descriptors of the
/// process, and the share of one address leaves seats to other addresses. All clients of a reverse proxy or
/// NAT in front are within one share.
const SEATS: SeatLimits = SeatLimits { total: 512, per_address: 128 };
/// Connections without a seat that wait to be closed; closing takes microseconds.
const MAX_CLOSING: usize = 64;
/// Longest time that a request waits for its turn, with its body unread.
#[cfg(not(test))]
pub(crate) const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// Tests wait it out: tokio's clock for tests is a feature that compiles the whole program a second time.
#[cfg(test)]
pub(crate) const TURN_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest time for a body: enough for the largest one at 50 KB/s.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a refused body that are read and dropped: several times the largest accepted body, so that a
/// client with a slightly too large body gets its answer.
const DISCARDED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest time for reading a refused body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of a head. Hyper's smallest buffer is 8 KiB; a head with a long query fits 64 KiB.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, so that other connections can close before the next accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pause after a failed accept where a connection has just been closed.
const ACCEPT_PAUSE_WITH_ROOM: Duration = Duration::from_millis(1);
