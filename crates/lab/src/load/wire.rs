//! The bytes of one connection of the load generator: a socket, with TLS over it if the URL says so. It knows
//! no HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustls::{ClientConnection, HandshakeKind};

use super::socket;
use super::tls::LoadTlsClient;

/// An open connection.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

/// Why bytes could not be moved.
#[derive(Debug)]
pub(super) enum WireError {
    /// The kernel's reason.
    Socket(Errno),
    /// A fault of TLS, or an alert of the server.
    Tls(String),
}

impl Wire {
    /// Begins to connect, and registers the socket with `epoll` under `number`.
    pub(super) fn connect(
        address: SocketAddr,
        client: Option<&LoadTlsClient>,
        epoll: &OwnedFd,
        number: u64,
    ) -> Result<Wire, String> {
        let tls = client.map(LoadTlsClient::connection).transpose()?.map(Box::new);
        let socket = socket::start_connect(address, epoll, number).map_err(socket::cannot_connect)?;
        Ok(Wire { socket, tls })
    }

    /// The result of a connection that was begun.
    pub(super) fn connected(&self) -> Result<(), Errno> {
        socket::connected(&self.socket)
    }

    /// Whether TLS is spoken, so that a handshake comes first.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Goes on with the handshake; returns its kind once it is complete, `None` while the server has to
    /// answer.
    pub(super) fn secure(&mut self) -> Result<Option<HandshakeKind>, WireError> {
        let Wire { socket, tls } = self;
        let Some(tls) = tls else { return Ok(None) };
        loop {
            flush(socket, tls)?;
            if !tls.is_handshaking() {
                return Ok(tls.handshake_kind());
            }
            match fill(socket, tls)? {
                Filled::Some => {}
                Filled::Nothing => return Ok(None),
                Filled::End => {
                    return Err(WireError::Tls("the server closed in the TLS handshake".to_owned()));
                }
            }
        }
    }

    /// Sends as many bytes as are taken, which may be none; returns the number. With TLS, bytes that were
    /// taken may still wait for [`Self::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        let Wire { socket, tls } = self;
        let Some(tls) = tls else { return socket::send_bytes(socket, bytes).map_err(WireError::Socket) };
        let mut taken = 0;
        loop {
            let more =
                tls.writer().write(&bytes[taken..]).map_err(|fault| WireError::Tls(fault.to_string()))?;
            taken += more;
            let is_flushed = flush(socket, tls)?;
            if more == 0 || taken == bytes.len() || !is_flushed {
                return Ok(taken);
            }
        }
    }

    /// Sends encrypted bytes that the kernel did not take before.
    pub(super) fn flush(&mut self) -> Result<(), WireError> {
        let Wire { socket, tls } = self;
        tls.as_mut().map_or(Ok(()), |tls| flush(socket, tls).map(drop))
    }

    /// Whether encrypted bytes wait for the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads the available bytes: `None` if there are none, 0 if the peer closed.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, WireError> {
        let Wire { socket, tls } = self;
        let Some(tls) = tls else { return socket::receive(socket, buffer).map_err(WireError::Socket) };
        loop {
            match tls.reader().read(buffer) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A server that closes without `close_notify` has closed; lengths tell whether an answer was
                // cut.
                Err(_) => return Ok(Some(0)),
            }
            if let Filled::Nothing = fill(socket, tls)? {
                return Ok(None);
            }
        }
    }

    /// Whether a read of so many bytes into a buffer of this length has emptied the socket. With TLS the
    /// number of bytes does not tell.
    pub(super) fn is_empty_after(&self, bytes: usize, length: usize) -> bool {
        self.tls.is_none() && bytes < length
    }
}

/// The result of reading encrypted bytes.
enum Filled {
    Some,
    Nothing,
    End,
}

/// Reads encrypted bytes once and decrypts them.
fn fill(socket: &OwnedFd, tls: &mut ClientConnection) -> Result<Filled, WireError> {
    match tls.read_tls(&mut TlsSocket(socket)) {
        Ok(0) => Ok(Filled::End),
        Ok(_) => {
            let processed = tls.process_new_packets();
            // Also after a fault, because the alert tells the server about it.
            let flushed = flush(socket, tls);
            processed.map_err(|fault| WireError::Tls(format!("TLS: {fault}")))?;
            flushed?;
            Ok(Filled::Some)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Filled::Nothing),
        Err(error) => Err(of_socket(&error)),
    }
}

/// Sends encrypted bytes; false if the kernel takes no more now.
fn flush(socket: &OwnedFd, tls: &mut ClientConnection) -> Result<bool, WireError> {
    while tls.wants_write() {
        match tls.write_tls(&mut TlsSocket(socket)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(of_socket(&error)),
        }
    }
    Ok(true)
}

fn of_socket(error: &io::Error) -> WireError {
    match Errno::from_io_error(error) {
        Some(errno) => WireError::Socket(errno),
        None => WireError::Tls(format!("TLS: {error}")),
    }
}

/// A socket as rustls wants it.
struct TlsSocket<'a>(&'a OwnedFd);

impl Read for TlsSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(self.0, buffer)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }
}

impl Write for TlsSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match socket::send_bytes(self.0, bytes)? {
            0 if !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            sent => Ok(sent),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
