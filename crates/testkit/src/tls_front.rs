//! TLS in front of a plain server, usually a scripted origin: it ends TLS, notes the facts of each handshake,
//! and relays the bytes both ways with their ends. It has two threads per connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};

use crate::authority::Pair;
use crate::wait::wait_for;

/// See the module; it ends with the process of the test.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// How a front speaks TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsBehaviour {
    /// PEM of the authority of client certificates; every client has to show one then.
    pub client_authority: Option<String>,
    /// ALPN protocols; a client that offers none of them is refused, one that offers nothing is not.
    pub alpn: Vec<Vec<u8>>,
    /// Speak TLS 1.2 only.
    pub tls12_only: bool,
    /// Close without close_notify.
    pub cuts: bool,
    /// Accept connections, and never answer a handshake.
    pub stalls: bool,
}

/// The facts of one complete handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The name that the client sent (SNI).
    pub server_name: Option<String>,
    /// The client's certificate in PEM's payload form (DER).
    pub client_certificate: Option<Vec<u8>>,
    /// The protocol that was agreed by ALPN.
    pub alpn: Option<String>,
    /// An earlier session was resumed.
    pub is_resumed: bool,
}

struct Shared {
    target: SocketAddr,
    behaviour: TlsBehaviour,
    config: Mutex<Arc<ServerConfig>>,
    handshakes: Mutex<Vec<Handshake>>,
    failures: Mutex<Vec<String>>,
}

impl TlsFront {
    /// TLS with `identity` in front of `target`.
    pub fn to(target: SocketAddr, identity: &Pair) -> TlsFront {
        TlsFront::with(target, identity, TlsBehaviour::default())
    }

    /// As [`TlsFront::to`], with this behaviour.
    pub fn with(target: SocketAddr, identity: &Pair, behaviour: TlsBehaviour) -> TlsFront {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared {
            target,
            config: Mutex::new(config(identity, &behaviour)),
            behaviour,
            handshakes: Mutex::default(),
            failures: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                thread::spawn(move || serve(socket, &shared));
            }
        });
        TlsFront { address, shared }
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of the listener.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Shows another certificate from now on; sessions of before cannot be resumed.
    pub fn show(&self, identity: &Pair) {
        *lock(&self.shared.config) = config(identity, &self.shared.behaviour);
    }

    /// The complete handshakes so far.
    pub fn handshakes(&self) -> Vec<Handshake> {
        lock(&self.shared.handshakes).clone()
    }

    /// The names of all complete handshakes so far; an empty text where the client sent none.
    pub fn server_names(&self) -> Vec<String> {
        self.handshakes().into_iter().map(|one| one.server_name.unwrap_or_default()).collect()
    }

    /// Waits for a handshake that failed on this side, and returns all reasons.
    pub fn wait_for_failure(&self) -> Vec<String> {
        wait_for("a handshake failed", || {
            let failures = lock(&self.shared.failures).clone();
            (!failures.is_empty()).then_some(failures)
        })
    }
}

fn config(identity: &Pair, behaviour: &TlsBehaviour) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let versions: &[&rustls::SupportedProtocolVersion] =
        if behaviour.tls12_only { &[&rustls::version::TLS12] } else { rustls::ALL_VERSIONS };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("versions of the library");
    let builder = match &behaviour.client_authority {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate.expect("PEM")).expect("an authority");
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("an authority"))
        }
    };
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let chain: Vec<_> = chain.map(|certificate| certificate.expect("PEM")).collect();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
    let mut config = builder.with_single_cert(chain, key).expect("a certificate with its key");
    config.alpn_protocols.clone_from(&behaviour.alpn);
    Arc::new(config)
}

/// Serves one connection, from the handshake to the ends of both ways.
fn serve(mut socket: TcpStream, shared: &Arc<Shared>) {
    if shared.behaviour.stalls {
        let mut bytes = [0; 1024];
        while matches!(socket.read(&mut bytes), Ok(1..)) {}
        return;
    }
    let config = Arc::clone(&lock(&shared.config));
    let Ok(mut tls) = ServerConnection::new(config) else { return };
    while tls.is_handshaking() {
        if let Err(error) = tls.complete_io(&mut socket) {
            lock(&shared.failures).push(error.to_string());
            return;
        }
    }
    lock(&shared.handshakes).push(Handshake {
        server_name: tls.server_name().map(str::to_owned),
        client_certificate: tls.peer_certificates().map(|chain| chain[0].to_vec()),
        alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
    });
    let Ok(plain) = TcpStream::connect(shared.target) else { return };
    let tls = Arc::new(Mutex::new(tls));
    let (Ok(for_writing), Ok(from_plain)) = (socket.try_clone(), plain.try_clone()) else { return };
    let (behind, is_cut) = (Arc::clone(&tls), shared.behaviour.cuts);
    thread::spawn(move || seal(from_plain, for_writing, &behind, is_cut));
    open(socket, plain, &tls);
}

/// Passes decrypted bytes on, until the client has ended its side.
fn open(mut socket: TcpStream, mut plain: TcpStream, tls: &Mutex<ServerConnection>) {
    let mut ciphertext = vec![0; BUFFER_BYTES];
    let mut count = 0;
    loop {
        let mut input = &ciphertext[..count];
        loop {
            let mut plaintext = Vec::new();
            let mut tls = lock(tls);
            if !input.is_empty() && tls.read_tls(&mut input).is_err() {
                break;
            }
            let Ok(state) = tls.process_new_packets() else { return };
            plaintext.resize(state.plaintext_bytes_to_read(), 0);
            if !plaintext.is_empty() && tls.reader().read_exact(&mut plaintext).is_err() {
                return;
            }
            let has_closed = state.peer_has_closed();
            drop(tls);
            if plain.write_all(&plaintext).is_err() {
                return;
            }
            if has_closed {
                let _ = plain.shutdown(Shutdown::Write);
                return;
            }
            if input.is_empty() {
                break;
            }
        }
        count = match socket.read(&mut ciphertext) {
            Ok(count @ 1..) => count,
            _ => {
                let _ = plain.shutdown(Shutdown::Write);
                return;
            }
        };
    }
}

/// Encrypts what the plain server sends, until it has ended its side.
fn seal(mut plain: TcpStream, mut socket: TcpStream, tls: &Mutex<ServerConnection>, is_cut: bool) {
    let mut plaintext = vec![0; BUFFER_BYTES];
    loop {
        let read = plain.read(&mut plaintext);
        let mut tls = lock(tls);
        match read {
            Ok(count @ 1..) => {
                if tls.writer().write_all(&plaintext[..count]).is_err() {
                    return;
                }
            }
            _ if is_cut => {
                let _ = socket.shutdown(Shutdown::Both);
                return;
            }
            _ => tls.send_close_notify(),
        }
        let mut records = Vec::new();
        while tls.wants_write() {
            if tls.write_tls(&mut records).is_err() {
                return;
            }
        }
        drop(tls);
        if socket.write_all(&records).is_err() || !matches!(read, Ok(1..)) {
            // The end of a server that has closed both ways reaches the client with the end of `open`.
            let _ = socket.shutdown(Shutdown::Write);
            return;
        }
    }
}

/// Less than rustls buffers at most.
const BUFFER_BYTES: usize = 16 * 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("target", &self.target).finish_non_exhaustive()
    }
}
