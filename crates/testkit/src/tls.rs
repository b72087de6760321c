//! A TLS client: single exchanges with the facts of their handshakes, and a door, which is a plain address
//! behind which every connection speaks TLS to the gateway, so that the other clients of this crate can be
//! used over TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SupportedProtocolVersion, version,
};

use crate::authority::Pair;
use crate::client::Client;
use crate::wait::WAIT_LIMIT;

/// A client with its cache of sessions.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: String,
}

/// The end of one exchange.
#[derive(Clone, Debug)]
pub struct TlsAnswer {
    /// `TLSv1_2` or `TLSv1_3`.
    pub version: String,
    /// The cipher suite, as rustls names it.
    pub cipher: String,
    /// The protocol agreed by ALPN.
    pub alpn: Option<String>,
    /// The session was resumed.
    pub is_resumed: bool,
    /// The server's certificate, DER.
    pub certificate: Vec<u8>,
    /// The response, until the server closed.
    pub text: String,
}

impl TlsAnswer {
    /// The status of the response; 0 if there is none.
    pub fn status(&self) -> u16 {
        self.text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// Whether the server showed this certificate.
    pub fn was_shown(&self, pair: &Pair) -> bool {
        CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("a certificate").as_ref()
            == self.certificate.as_slice()
    }
}

impl TlsClient {
    /// A client that trusts this authority (PEM) and asks for `name`.
    pub fn new(authority: &str, name: &str) -> TlsClient {
        TlsClient::with(authority, name, None, &[&version::TLS13, &version::TLS12], &["http/1.1"])
    }

    /// The same, which has a certificate of its own.
    pub fn with_certificate(authority: &str, name: &str, pair: &Pair) -> TlsClient {
        TlsClient::with(authority, name, Some(pair), &[&version::TLS13, &version::TLS12], &["http/1.1"])
    }

    /// The same, which offers these protocols by ALPN.
    pub fn offering(authority: &str, name: &str, alpn: &[&str]) -> TlsClient {
        TlsClient::with(authority, name, None, &[&version::TLS13, &version::TLS12], alpn)
    }

    /// The same, which speaks only TLS 1.2 or only 1.3.
    pub fn of_version(authority: &str, name: &str, is_13: bool) -> TlsClient {
        let one = if is_13 { &version::TLS13 } else { &version::TLS12 };
        TlsClient::with(authority, name, None, &[one], &[])
    }

    /// A client with all of these settings.
    pub fn with(
        authority: &str,
        name: &str,
        pair: Option<&Pair>,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
    ) -> TlsClient {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate.expect("a certificate")).expect("an authority");
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions that there are")
            .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain: Result<Vec<_>, _> =
                    CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(chain.expect("certificates"), key).expect("a pair")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.resumption = Resumption::in_memory_sessions(32);
        TlsClient { config: Arc::new(config), name: name.to_owned() }
    }

    /// The name that it asks for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its settings, for clients of QUIC.
    pub fn config(&self) -> ClientConfig {
        ClientConfig::clone(&self.config)
    }

    /// The same client, asking for another name, with the same sessions.
    #[must_use]
    pub fn named(&self, name: &str) -> TlsClient {
        TlsClient { name: name.to_owned(), ..self.clone() }
    }

    /// Sends `GET path` for `host` on a new connection and reads until the server closes.
    ///
    /// # Errors
    /// Those of the handshake, as an alert, and of the connection.
    pub fn get(&self, address: SocketAddr, host: &str, path: &str) -> io::Result<TlsAnswer> {
        self.exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }

    /// Sends these bytes on a new connection and reads until the server closes.
    ///
    /// # Errors
    /// As [`TlsClient::get`].
    pub fn exchange(&self, address: SocketAddr, request: &str) -> io::Result<TlsAnswer> {
        let mut socket = TcpStream::connect_timeout(&address, WAIT_LIMIT)?;
        socket.set_read_timeout(Some(WAIT_LIMIT))?;
        let mut tls = self.connection();
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        stream.write_all(request.as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        let certificates = tls.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
        Ok(TlsAnswer {
            version: format!("{:?}", tls.protocol_version().expect("a finished handshake")),
            cipher: format!("{:?}", tls.negotiated_cipher_suite().expect("a finished handshake").suite()),
            alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: certificates.first().map(|certificate| certificate.to_vec()).unwrap_or_default(),
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    /// The protocol that a new connection agrees on by ALPN, if any.
    ///
    /// # Errors
    /// As [`TlsClient::get`].
    pub fn agreed_protocol(&self, address: SocketAddr) -> io::Result<Option<String>> {
        let mut socket = TcpStream::connect_timeout(&address, WAIT_LIMIT)?;
        socket.set_read_timeout(Some(WAIT_LIMIT))?;
        let mut tls = self.connection();
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()))
    }

    /// A plain address behind which every connection speaks TLS to `address`, until the test ends.
    pub fn door(&self, address: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let door = listener.local_addr().expect("a bound socket");
        let client = self.clone();
        thread::spawn(move || {
            while let Ok((plain, _)) = listener.accept() {
                let tls = client.connection();
                thread::spawn(move || {
                    // A gateway that is gone shows as a close, as without the door.
                    if let Ok(socket) = TcpStream::connect_timeout(&address, WAIT_LIMIT) {
                        let _ = pass(&plain, &socket, tls);
                    }
                    let _ = plain.shutdown(Shutdown::Both);
                });
            }
        });
        door
    }

    /// A connection over TLS for a client of this crate.
    pub fn connect(&self, address: SocketAddr) -> Client {
        Client::connect(self.door(address))
    }

    fn connection(&self) -> ClientConnection {
        let name = ServerName::try_from(self.name.clone()).expect("a server name");
        ClientConnection::new(self.config.clone(), name).expect("settings that fit")
    }
}

/// Plaintext that a door holds for a gateway that takes none.
const HELD_MAX_BYTES: usize = 256 * 1024;

/// Passes bytes until both sides have closed, or one fails.
fn pass(plain: &TcpStream, socket: &TcpStream, mut tls: ClientConnection) -> io::Result<()> {
    for one in [plain, socket] {
        one.set_nonblocking(true)?;
        one.set_nodelay(true)?;
    }
    let (mut plain, mut socket) = (plain, socket);
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let (mut plain_ended, mut tls_ended, mut back_closed) = (false, false, false);
    let mut room = vec![0; 64 * 1024];
    loop {
        let mut moved = false;
        if !plain_ended && out.len() < HELD_MAX_BYTES {
            match ready(plain.read(&mut room))? {
                None => {}
                Some(0) => plain_ended = true,
                Some(count) => out.extend_from_slice(&room[..count]),
            }
            moved |= plain_ended || !out.is_empty();
        }
        if !tls.is_handshaking() && !tls.wants_write() {
            if !out.is_empty() {
                let count = tls.writer().write(&out)?;
                out.drain(..count);
                moved = true;
            } else if plain_ended {
                tls.send_close_notify();
            }
        }
        while tls.wants_write() && ready(tls.write_tls(&mut socket))?.is_some() {
            moved = true;
        }
        if !tls_ended && back.len() < HELD_MAX_BYTES {
            match ready(tls.read_tls(&mut socket))? {
                None => {}
                Some(0) => tls_ended = true,
                Some(_) => moved = true,
            }
            let state = tls.process_new_packets().map_err(|error| {
                let _ = tls.write_tls(&mut socket);
                io::Error::new(ErrorKind::InvalidData, error)
            })?;
            let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut plaintext)?;
            back.append(&mut plaintext);
            tls_ended |= state.peer_has_closed();
        }
        if !back.is_empty()
            && let Some(count) = ready(plain.write(&back))?
        {
            back.drain(..count);
            moved = true;
        }
        if tls_ended && back.is_empty() && !back_closed {
            back_closed = true;
            plain.shutdown(Shutdown::Write)?;
        }
        if back_closed && plain_ended && !tls.wants_write() {
            return Ok(());
        }
        let wanted = |reads: bool, writes: bool| {
            let read = if reads { PollFlags::IN } else { PollFlags::empty() };
            if writes { read | PollFlags::OUT } else { read }
        };
        let of_plain = wanted(!plain_ended && out.len() < HELD_MAX_BYTES, !back.is_empty());
        let of_socket = wanted(!tls_ended && back.len() < HELD_MAX_BYTES, tls.wants_write());
        // The gateway has closed: a client that keeps its side open does not keep the thread.
        let limit = back_closed.then_some(WAIT_LIMIT);
        if !moved && !wait_for_one(&[(plain, of_plain), (socket, of_socket)], limit)? {
            return Ok(());
        }
    }
}

/// Waits until one of the sockets is ready for what is wanted of it; false after `limit`. Sockets of which
/// nothing is wanted are left out, because the kernel reports the end of a connection unasked.
fn wait_for_one(sockets: &[(&TcpStream, PollFlags)], limit: Option<Duration>) -> io::Result<bool> {
    let mut wanted: Vec<PollFd<'_>> = sockets
        .iter()
        .filter(|(_, flags)| !flags.is_empty())
        .map(|(socket, flags)| PollFd::new(*socket, *flags))
        .collect();
    let limit = limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 });
    match rustix::event::poll(&mut wanted, limit.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
