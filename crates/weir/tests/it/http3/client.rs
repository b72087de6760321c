//! A client of HTTP/3 made of the crates `h3` and `quinn`, with calls that block. It judges nothing.

use std::future::{Future, poll_fn};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use h3_quinn::{BidiStream, OpenStreams};
use http::{HeaderMap, Request};
use quinn::crypto::rustls::QuicClientConfig;
use testkit::{TlsClient, wait_until};
use tokio::runtime::Runtime;

/// A call that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Turns of the client's event loop between two looks at a condition.
const TURNS: usize = 20;

/// One connection.
pub(super) struct H3Client {
    runtime: Runtime,
    endpoint: quinn::Endpoint,
    pub(super) quic: quinn::Connection,
    pub(super) send: SendRequest<OpenStreams, Bytes>,
}

/// A request with a response that has not been read.
pub(super) type Asked = RequestStream<BidiStream<Bytes>, Bytes>;

/// A whole response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<HeaderMap>,
}

impl Answer {
    /// A field of the head, or nothing.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The settings of QUIC of a client with these of TLS.
pub(super) fn quic_config(tls: &TlsClient) -> quinn::ClientConfig {
    let mut tls = tls.config();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut transport = quinn::TransportConfig::default();
    transport.max_idle_timeout(Some(PATIENCE.try_into().unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

/// Any port of this machine.
pub(super) fn any_port() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

impl H3Client {
    /// Connects to `address` under the name and the authorities of `tls`; the reason if the handshake fails.
    pub(super) fn connect(address: SocketAddr, tls: &TlsClient) -> Result<H3Client, String> {
        H3Client::connect_to(address, tls.name(), quic_config(tls))
    }

    /// The same with other settings.
    pub(super) fn connect_to(
        address: SocketAddr,
        name: &str,
        config: quinn::ClientConfig,
    ) -> Result<H3Client, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connected = runtime.block_on(async {
            let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let connecting =
                endpoint.connect_with(config, address, name).map_err(|error| error.to_string())?;
            let quic = tokio::time::timeout(PATIENCE, connecting)
                .await
                .map_err(|_| "no answer in time".to_owned())?;
            let quic = quic.map_err(|error| error.to_string())?;
            let (mut driver, send) = h3::client::new(h3_quinn::Connection::new(quic.clone()))
                .await
                .map_err(|error| error.to_string())?;
            tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
            Ok::<_, String>((endpoint, quic, send))
        });
        let (endpoint, quic, send) = connected?;
        Ok(H3Client { runtime, endpoint, quic, send })
    }

    /// Runs `future` on the client's event loop.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("it takes too long") })
    }

    /// Lets the client's tasks run until `condition` holds.
    pub(super) fn runs_until(&self, what: &str, condition: impl Fn() -> bool) {
        wait_until(what, || {
            self.run(async {
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            });
            condition()
        });
    }

    /// Sends from another port from now on.
    pub(super) fn migrate(&self) -> u16 {
        let socket = any_port();
        let port = socket.local_addr().unwrap().port();
        self.run(async { self.endpoint.rebind(socket).unwrap() });
        port
    }

    /// Starts a request; its body follows.
    pub(super) fn start(&mut self, request: Request<()>) -> Asked {
        let mut send = self.send.clone();
        self.run(async { send.send_request(request).await.unwrap() })
    }

    /// Sends a GET and reads the response.
    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.ask(request("GET", path, &[]), b"", None).unwrap()
    }

    /// Sends a request and reads the response at the same time.
    pub(super) fn ask(
        &mut self,
        request: Request<()>,
        body: &[u8],
        trailers: Option<HeaderMap>,
    ) -> Result<Answer, StreamError> {
        let mut send = self.send.clone();
        let body = Bytes::copy_from_slice(body);
        self.run(async move {
            let (mut sending, mut receiving) = send.send_request(request).await?.split();
            let upload = async {
                // A response may come before the whole body was sent.
                if !body.is_empty() {
                    let _ = sending.send_data(body).await;
                }
                if let Some(trailers) = trailers {
                    let _ = sending.send_trailers(trailers).await;
                }
                let _ = sending.finish().await;
                std::future::pending::<()>().await;
            };
            let download = async {
                let head = receiving.recv_response().await?;
                let mut body = Vec::new();
                while let Some(mut piece) = receiving.recv_data().await? {
                    while piece.has_remaining() {
                        let chunk = piece.chunk().to_vec();
                        piece.advance(chunk.len());
                        body.extend_from_slice(&chunk);
                    }
                }
                let trailers = receiving.recv_trailers().await?;
                Ok(Answer { status: head.status().as_u16(), headers: head.headers().clone(), body, trailers })
            };
            tokio::select! {
                answer = download => answer,
                () = upload => unreachable!("it waits"),
            }
        })
    }

    /// Ends the upload of a request and reads the response.
    pub(super) fn finish(&self, mut asked: Asked) -> Result<Answer, StreamError> {
        self.run(async {
            asked.finish().await?;
            let head = asked.recv_response().await?;
            let mut body = Vec::new();
            while let Some(mut piece) = asked.recv_data().await? {
                while piece.has_remaining() {
                    let chunk = piece.chunk().to_vec();
                    piece.advance(chunk.len());
                    body.extend_from_slice(&chunk);
                }
            }
            let trailers = asked.recv_trailers().await?;
            Ok(Answer { status: head.status().as_u16(), headers: head.headers().clone(), body, trailers })
        })
    }
}

impl Drop for H3Client {
    /// Ends the connection in order, so that the gateway does not have to wait for a client that has
    /// vanished.
    fn drop(&mut self) {
        self.quic.close(0x100_u32.into(), b"");
        let idle = async { tokio::time::timeout(Duration::from_secs(5), self.endpoint.wait_idle()).await };
        // The close is on its way in any case.
        let _ = self.runtime.block_on(idle);
    }
}

/// A request to `path` of `a.example`.
pub(super) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut builder = Request::builder().method(method).uri(format!("https://a.example{path}"));
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap()
}
