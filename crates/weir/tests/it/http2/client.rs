//! A client of HTTP/2 made of the crate `h2`, with calls that block. It judges nothing.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// A call that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks at a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// One connection.
pub(crate) struct Client {
    runtime: Runtime,
    pub(crate) send: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    /// A field of the head, or nothing.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    /// Connects by prior knowledge, with the windows of the protocol's defaults.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::with(address, &Builder::new())
    }

    /// Connects with other settings.
    pub(crate) fn with(address: SocketAddr, builder: &Builder) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (send, driver) = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (send, connection) = builder.handshake(stream).await.unwrap();
            (send, tokio::spawn(connection))
        });
        Client { runtime, send, driver }
    }

    /// Runs `future` on the client's event loop.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("it takes too long") })
    }

    /// Runs the client's event loop until `condition` holds.
    pub(crate) fn run_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let poll = async {
            while !condition() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let limited = async { tokio::time::timeout(PATIENCE, poll).await };
        assert!(self.runtime.block_on(limited).is_ok(), "waited {PATIENCE:?} in vain until {what}");
    }

    /// Starts a request; the body follows unless `ends`.
    pub(crate) fn start(&mut self, request: Request<()>, ends: bool) -> (ResponseFuture, SendStream<Bytes>) {
        let send = self.send.clone();
        self.run(async {
            let mut send = send.ready().await.unwrap();
            send.send_request(request, ends).unwrap()
        })
    }

    /// Starts a request without a body; an error where the connection takes no more.
    pub(crate) fn try_start(&mut self, request: Request<()>) -> Result<ResponseFuture, h2::Error> {
        let send = self.send.clone();
        self.run(async { send.ready().await?.send_request(request, true).map(|(response, _)| response) })
    }

    /// Sends a request without a body and reads the response.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask(request("GET", path)).unwrap()
    }

    /// Sends `request` without a body and reads the response.
    pub(crate) fn ask(&mut self, request: Request<()>) -> Result<Answer, h2::Error> {
        let (response, _) = self.start(request, true);
        self.run(whole(response))
    }

    /// Sends `request` with a body and trailers, as the windows allow, and reads the response at the same
    /// time.
    pub(crate) fn send(
        &mut self,
        request: Request<()>,
        body: &[u8],
        trailers: Option<HeaderMap>,
    ) -> Result<Answer, h2::Error> {
        let (response, stream) = self.start(request, false);
        let body = body.to_vec();
        self.run(async {
            let upload = async {
                // A response may come before the whole body was sent.
                let _ = upload(stream, &body, trailers).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                answer = whole(response) => answer,
                () = upload => unreachable!("it waits"),
            }
        })
    }

    /// How the peer ended the connection, which this side keeps open.
    pub(crate) fn ended_by_peer(self) -> Result<(), h2::Error> {
        let Client { runtime, send, driver } = self;
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, driver).await });
        drop(send);
        ended.expect("it ends").unwrap()
    }
}

/// A request to `path` of any host.
pub(crate) fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://h{path}")).body(()).unwrap()
}

/// A request with further fields.
pub(crate) fn request_with(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut builder = Request::builder().method(method).uri(format!("http://h{path}"));
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap()
}

/// Sends a body as the windows allow.
pub(crate) async fn upload(
    mut stream: SendStream<Bytes>,
    body: &[u8],
    trailers: Option<HeaderMap>,
) -> Result<(), h2::Error> {
    let mut rest = Bytes::copy_from_slice(body);
    let has_trailers = trailers.is_some();
    if rest.is_empty() && !has_trailers {
        return stream.send_data(rest, true);
    }
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let count = match capacity {
            Some(count) => count?,
            None => return Ok(()),
        };
        let piece = rest.split_to(count.min(rest.len()));
        stream.send_data(piece, rest.is_empty() && !has_trailers)?;
    }
    match trailers {
        Some(trailers) => stream.send_trailers(trailers),
        None => Ok(()),
    }
}

/// Reads a response to its end.
pub(crate) async fn whole(response: ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, body) = response.await?.into_parts();
    let (body, trailers) = rest(body).await?;
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body, trailers })
}

/// Reads the rest of a body.
pub(crate) async fn rest(mut body: RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes, body.trailers().await?))
}
