//! Transport parameters that are damaged in a client's hello: the handshake fails, and the endpoint serves
//! on.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use quinn::{ConnectError, ConnectionId, Side};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;
use testkit::{Origin, TlsClient};

use super::scene;

/// The number of the extension (RFC 9001 section 8.2).
const EXTENSION: usize = 0x39;
/// Ways of damage, each from a seed of its own.
const ROUNDS: u64 = 96;
/// A handshake that is neither refused nor completed by then was dropped in silence.
const PATIENCE: Duration = Duration::from_millis(500);

/// A client's TLS that damages its hello.
struct Damaging {
    inner: Arc<QuicClientConfig>,
    seed: u64,
}

impl crypto::ClientConfig for Damaging {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.clone().start_session(version, name, parameters)?;
        Ok(Box::new(Damaged { inner, seed: self.seed, is_done: false }))
    }
}

struct Damaged {
    inner: Box<dyn Session>,
    seed: u64,
    is_done: bool,
}

/// The place of the transport parameters in a hello (RFC 8446 section 4.1.2). A search for the number alone
/// would also find it among the random bytes of a key share.
fn parameters_in(hello: &[u8]) -> Option<Range<usize>> {
    let number = |at: usize| hello.get(at..at + 2).map(|two| usize::from(two[0]) << 8 | usize::from(two[1]));
    let octet = |at: usize| hello.get(at).copied().map(usize::from);
    // Type, length, version and random bytes; then the session id, the cipher suites and the compression
    // methods.
    let mut at = 4 + 2 + 32;
    at += 1 + octet(at)?;
    at += 2 + number(at)?;
    at += 1 + octet(at)?;
    // The length of all extensions.
    at += 2;
    loop {
        let (found, content) = (number(at)?, at + 4..at + 4 + number(at + 2)?);
        if found == EXTENSION {
            return Some(content);
        }
        at = content.end;
    }
}

/// Damages the transport parameters in a hello; false if there are none.
fn damage(hello: &mut [u8], mut seed: u64) -> bool {
    let kind = seed % 4;
    let Some(place) = parameters_in(hello) else { return false };
    let length = place.len();
    let Some(content) = hello.get_mut(place) else { return false };
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    match kind {
        0 => content.fill(0xff),
        1 => content.iter_mut().for_each(|byte| *byte = random() as u8),
        2 => content[random() % length] ^= 1 << (random() % 8),
        _ => (0..4).for_each(|_| content[random() % length] = [0, 0x3f, 0x7f, 0xff][random() % 4]),
    }
    true
}

impl Session for Damaged {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(bytes)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let before = out.len();
        let keys = self.inner.write_handshake(out);
        if out.len() > before && !std::mem::replace(&mut self.is_done, true) {
            assert!(damage(&mut out[before..], self.seed), "the hello has transport parameters");
        }
        keys
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

#[test]
fn damaged_parameters_leave_the_worker_alive() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &[]);
    let mut tls = TlsClient::new(scene.authority.pem(), "a.example").config();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let inner = Arc::new(QuicClientConfig::try_from(tls).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connected = runtime.block_on(async {
        let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut connected = 0;
        for seed in 0..ROUNDS {
            let config = quinn::ClientConfig::new(Arc::new(Damaging { inner: inner.clone(), seed }));
            let connecting = endpoint.connect_with(config, scene.address(), "a.example").unwrap();
            connected +=
                u64::from(tokio::time::timeout(PATIENCE, connecting).await.is_ok_and(|done| done.is_ok()));
        }
        connected
    });
    assert_eq!(connected, 0, "a damaged hello was accepted");
    assert_eq!(scene.client().get("/").status, 200);
    assert_eq!(scene.metric("weir_http3_restarts_total"), 0);
}
