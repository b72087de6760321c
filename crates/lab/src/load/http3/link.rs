//! One QUIC connection with its engine: the handshake, the control stream, the streams of the server. It
//! knows no requests.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http3::{Config, Connection, ConnectionError, ErrorCode, RequestReader, StartError, UniState, UniStream};
use quinn::{ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use super::Http3ThreadState;

/// A connection, shared by the tasks of its requests.
#[derive(Clone)]
pub(super) struct Http3Link {
    pub(super) quic: quinn::Connection,
    pub(super) engine: Rc<RefCell<Connection>>,
    endpoint: Endpoint,
    /// Kept open, because the end of a control stream is a fault (RFC 9114 section 6.2.1).
    _control: Rc<SendStream>,
}

impl Http3Link {
    /// Connects from a socket of its own, as another client would. Fails with the reason.
    pub(super) async fn connect(shared: &Http3ThreadState) -> Result<Self, String> {
        let address = shared.job.target.address;
        let endpoint = endpoint(address).map_err(|error| format!("no UDP socket to be had: {error}"))?;
        let connecting = endpoint
            .connect_with(shared.quic.clone(), address, &shared.server)
            .map_err(|error| format!("QUIC cannot begin: {error}"))?;
        let quic = match tokio::time::timeout(shared.share.timeout, connecting).await {
            Ok(connected) => connected.map_err(|error| format!("no QUIC connection was made: {error}"))?,
            Err(_) => return Err("no QUIC connection was made in time".to_owned()),
        };
        let mut engine = Connection::client(Config::default());
        let lost = |error: &dyn std::fmt::Display| format!("no control stream could be opened: {error}");
        let mut control = quic.open_uni().await.map_err(|error| lost(&error))?;
        let output = engine.control_output().to_vec();
        engine.advance_control(output.len());
        control.write_all(&output).await.map_err(|error| lost(&error))?;
        let engine = Rc::new(RefCell::new(engine));
        let link = Self { quic, engine, endpoint, _control: Rc::new(control) };
        tokio::task::spawn_local(accept(link.quic.clone(), Rc::clone(&link.engine)));
        Ok(link)
    }

    /// Makes the reader of a response. `now_ms` is the time since the beginning of the run.
    pub(super) fn start(
        &self,
        stream: &RecvStream,
        shared: &Http3ThreadState,
        now_ms: u64,
    ) -> Result<RequestReader, StartError> {
        let mut engine = self.engine.borrow_mut();
        if let Err(error) = engine.tick(now_ms) {
            close(&self.quic, error);
            return Err(StartError::Closed);
        }
        // Settings and GOAWAY are in force without a look at their events, which would only grow otherwise.
        while engine.next_event().is_some() {}
        engine.start_request(stream.id().into(), &shared.target())
    }

    /// Closes the connection without a fault.
    pub(super) fn end(&self) {
        self.quic.close(number(ErrorCode::NO_ERROR), b"");
        self.endpoint.close(number(ErrorCode::NO_ERROR), b"");
    }
}

/// Reads the unidirectional streams of the server, until the connection ends.
async fn accept(quic: quinn::Connection, engine: Rc<RefCell<Connection>>) {
    while let Ok(stream) = quic.accept_uni().await {
        tokio::task::spawn_local(read(quic.clone(), Rc::clone(&engine), stream));
    }
}

async fn read(quic: quinn::Connection, engine: Rc<RefCell<Connection>>, mut stream: RecvStream) {
    let mut uni = UniStream::new();
    loop {
        let chunk = stream.read_chunk(usize::MAX, true).await;
        let result = match &chunk {
            Ok(Some(chunk)) => engine.borrow_mut().receive_uni(&mut uni, &chunk.bytes),
            _ if quic.close_reason().is_some() => return,
            _ => engine.borrow_mut().end_uni(&uni).map(|()| UniState::Unwanted),
        };
        match result {
            Ok(UniState::Open) => {}
            Ok(UniState::Unwanted) => {
                // The stream may have ended, which is as good as stopping it.
                let _ = stream.stop(number(ErrorCode::STREAM_CREATION_ERROR));
                return;
            }
            Err(error) => return close(&quic, error),
        }
    }
}

/// Closes a connection after a fault of the server.
pub(super) fn close(quic: &quinn::Connection, error: ConnectionError) {
    quic.close(number(error.code), error.reason.as_bytes());
}

/// An error code of the transport. All codes of HTTP/3 fit.
fn number(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

fn endpoint(server: SocketAddr) -> std::io::Result<Endpoint> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = Socket::new(Domain::for_address(any), Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel lowers it to its limit; too small a buffer loses datagrams of large responses.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    socket.bind(&any.into())?;
    Endpoint::new(EndpointConfig::default(), None, socket.into(), Arc::new(TokioRuntime))
}

/// The settings of QUIC on top of these of TLS. Fails if TLS has no cipher suite for the first packets.
pub(super) fn build_quic_config(tls: rustls::ClientConfig, idle: Duration) -> anyhow::Result<ClientConfig> {
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
    let mut settings = ClientConfig::new(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.max_idle_timeout(Some(idle.try_into()?));
    settings.transport_config(Arc::new(transport));
    Ok(settings)
}

/// As much as four responses of 1 MB in flight.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
