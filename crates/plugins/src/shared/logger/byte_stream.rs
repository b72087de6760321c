//! A log server that takes bytes over TCP or TLS: a connection for each batch, or connections that are kept.
//! It knows no form of entries.

use std::io;

use exchange::plugin::outbound::{
    OutboundCause, OutboundError, OutboundStream, OutboundTls, StreamDestination, check_place,
};
use exchange::plugin::services::Services;
use net::env;
use parking_lot::Mutex;

use crate::shared::config;
use crate::shared::redis::settings::format_host_port;

/// The longest wait for a TLS server to close its side, in milliseconds. Closing earlier would reset the
/// connection if the server has sent anything, session tickets for example, and a reset can discard what it
/// has not read yet.
const CLOSE_WAIT_MS: u64 = 1_000;

/// How a log server is reached.
pub(crate) struct Reaching<'h> {
    pub(crate) host: &'h str,
    pub(crate) port: u16,
    /// None: in cleartext.
    pub(crate) tls: Option<OutboundTls>,
    /// Milliseconds for a connection to open, and for a batch to be written.
    pub(crate) timeout_ms: u64,
    /// The most connections kept; with 0 each batch has a connection of its own, of which the end is the end
    /// of the batch.
    pub(crate) kept_max: usize,
    /// Milliseconds a connection is kept without use.
    pub(crate) idle_ms: u64,
}

/// See the module.
pub(crate) struct ByteStream {
    destination: StreamDestination,
    host: Box<str>,
    port: u16,
    is_tls: bool,
    timeout_ms: u64,
    kept_max: usize,
    idle_ms: u64,
    /// Connections without a batch, the last used one at the end, each with the time of its last use.
    kept: Mutex<Vec<(OutboundStream, u64)>>,
}

/// Checks that a log server can be reached at `host` and `port`, unless the host is a reference to a secret.
///
/// # Errors
/// The misfit, a sentence with the name of the field.
pub(crate) fn check(host: &str, port: u16) -> Result<(), String> {
    if config::is_reference(host) {
        return Ok(());
    }
    check_place(&format_host_port(host, port)).map_err(|reason| format!("host, port: {reason}"))
}

impl ByteStream {
    /// A log server; it is connected to with the first batch.
    ///
    /// # Errors
    /// Why it cannot be reached, a sentence.
    pub(crate) fn new(services: &Services, reaching: Reaching<'_>) -> Result<ByteStream, String> {
        let Reaching { host, port, tls, timeout_ms, kept_max, idle_ms } = reaching;
        Ok(ByteStream {
            destination: services.stream_destination(&format_host_port(host, port), tls.as_ref())?,
            host: host.into(),
            port,
            is_tls: tls.is_some(),
            timeout_ms,
            kept_max,
            idle_ms,
            kept: Mutex::default(),
        })
    }

    /// Writes `data`. A connection that was kept and turns out to be closed is replaced once.
    ///
    /// # Errors
    /// The failed step with its place, a sentence of the contract.
    pub(crate) async fn send(&self, data: &[u8]) -> Result<(), String> {
        if let Some(mut stream) = self.take_kept()
            && stream.write_all(data, self.timeout_ms).await.is_ok()
        {
            self.keep(stream);
            return Ok(());
        }
        // The first batch of a new name would be lost otherwise, because batches are not repeated by default.
        let waited_ms = self.destination.looked_up(self.timeout_ms).await;
        let left_ms = self.timeout_ms - waited_ms;
        let mut stream =
            self.destination.connect(left_ms).await.map_err(|error| self.not_connected(&error))?;
        let written = stream.write_all(data, self.timeout_ms).await;
        written.map_err(|error| self.not_sent(&error))?;
        if self.kept_max > 0 {
            self.keep(stream);
        } else {
            self.close(stream).await;
        }
        Ok(())
    }

    fn take_kept(&self) -> Option<OutboundStream> {
        let now_ms = now_ms();
        let mut kept = self.kept.lock();
        kept.retain(|(_, used_ms)| now_ms.saturating_sub(*used_ms) < self.idle_ms);
        while let Some((mut stream, _)) = kept.pop() {
            // Log servers send nothing: bytes or an end mean that this connection is over.
            if stream.is_quiet() {
                return Some(stream);
            }
        }
        None
    }

    fn keep(&self, stream: OutboundStream) {
        let mut kept = self.kept.lock();
        if kept.len() < self.kept_max {
            kept.push((stream, now_ms()));
        }
    }

    /// Ends a connection within the timeout. The batch is written: an error of the close does not concern it,
    /// and sending the batch again would double its entries.
    async fn close(&self, mut stream: OutboundStream) {
        let is_closed = stream.shutdown(self.timeout_ms).await.is_ok();
        if is_closed && self.is_tls {
            let deadline_ms = now_ms() + CLOSE_WAIT_MS;
            let mut room = [0; 1_024];
            while let Ok(1..) = stream.read(&mut room, deadline_ms.saturating_sub(now_ms())).await {}
        }
    }

    fn not_connected(&self, error: &OutboundError) -> String {
        let step = match error.cause {
            OutboundCause::Tls | OutboundCause::Certificate => "perform TLS handshake to",
            _ => "connect to",
        };
        self.failed(step, &error.to_string())
    }

    fn not_sent(&self, error: &io::Error) -> String {
        self.failed("send data to", &error.to_string())
    }

    fn failed(&self, step: &str, error: &str) -> String {
        format!("failed to {step} TCP server: host[{}] port[{}] err: {error}", self.host, self.port)
    }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn stream(listener: &TcpListener, kept_max: usize) -> ByteStream {
        let port = listener.local_addr().unwrap().port();
        let reaching =
            Reaching { host: "127.0.0.1", port, tls: None, timeout_ms: 10_000, kept_max, idle_ms: 60_000 };
        ByteStream::new(&exchange::testing::services(), reaching).unwrap()
    }

    fn read_to_end(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn batch_ends_with_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = stream(&listener, 0);
        let sent = async {
            server.send(b"one").await.unwrap();
            server.send(b"two").await.unwrap();
        };
        env::block_on(sent).unwrap();
        let texts = [(); 2].map(|()| read_to_end(listener.accept().unwrap().0));
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn kept_connection_is_replaced_once_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = stream(&listener, 1);
        let sent = async {
            server.send(b"one ").await.unwrap();
            server.send(b"two").await.unwrap();
            let (mut first, _) = listener.accept().unwrap();
            let mut room = [0; 7];
            first.read_exact(&mut room).unwrap();
            assert_eq!(&room, b"one two", "both came over one connection");
            drop(first);
            // The end has to reach the event loop before the connection is used again.
            while server.kept.lock()[0].0.is_quiet() {
                env::sleep_ms(1).await;
            }
            server.send(b"three").await.unwrap();
        };
        env::block_on(sent).unwrap();
        let (second, _) = listener.accept().unwrap();
        drop(server);
        assert_eq!(read_to_end(second), "three");
    }

    #[test]
    fn unreachable_server_is_reported_with_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = stream(&listener, 1);
        let port = server.port;
        drop(listener);
        let message = env::block_on(server.send(b"x")).unwrap().unwrap_err();
        let expected = format!("failed to connect to TCP server: host[127.0.0.1] port[{port}] err: ");
        assert!(message.starts_with(&expected), "{message}");
    }
}
