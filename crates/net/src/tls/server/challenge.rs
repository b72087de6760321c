//! Handshakes that concern the ordering of certificates: an authority that checks a challenge of TLS-ALPN-01
//! (RFC 8737), and clients that ask for a name without a certificate. It does not know how certificates are
//! ordered.

use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::Arc;

use rustls::Connection;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{Accepted as Hello, ClientHello, ServerConfig};
use rustls::sign::CertifiedKey;

use super::settings::ServerTls;
use super::site::SiteKeys;
use super::{AcceptFault, refuse, send_alert};
use crate::env::Stream;
use crate::tls::stream::TlsStream;
use crate::tls::wall_clock;

/// The part of the program that orders certificates, as handshakes meet it. Calls never block.
pub trait Orders: Debug + Send + Sync {
    /// The certificate that answers the challenge of `name`, in lower case; none where no challenge is open.
    fn challenge(&self, name: &str) -> Option<ChallengeIdentity>;

    /// A client has asked for `name`, in lower case, and no site has it.
    fn missing(&self, name: &str);
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct ChallengeIdentity {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// Its private key, PKCS#8 DER.
    pub key: Vec<u8>,
}

/// Whether the client is an authority that checks a challenge: it offers that protocol and no other.
pub(super) fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.next() == Some(PROTOCOL) && offered.next().is_none())
}

/// Presents the certificate of the challenge and ends the connection.
pub(super) async fn answer(
    hello: Hello,
    name: Option<String>,
    tls: &ServerTls,
    mut stream: Stream,
    received: Vec<u8>,
) -> AcceptFault {
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let Some(identity) = tls.orders().and_then(|orders| orders.challenge(&name)) else {
        refuse(&mut stream, ALERT_NO_APPLICATION_PROTOCOL).await;
        return AcceptFault::Refused(format!("no challenge is open for the server name {name}"));
    };
    let config = match config(identity, tls) {
        Ok(config) => config,
        Err(error) => return AcceptFault::Refused(error.to_string()),
    };
    let connection = match hello.into_connection(Arc::new(config)) {
        Ok(connection) => connection,
        Err((error, mut alert)) => {
            send_alert(&mut stream, &mut alert).await;
            return AcceptFault::Refused(error.to_string());
        }
    };
    let mut stream = TlsStream::with_received(stream, Connection::Server(connection), received);
    match poll_fn(|cx| stream.poll_handshake(cx)).await {
        Ok(()) => {
            // The authority has seen the certificate; if the close is lost, it ends the connection itself.
            let _ = poll_fn(|cx| stream.poll_shutdown(cx)).await;
            AcceptFault::ChallengeAnswered
        }
        Err(error) => error.into(),
    }
}

fn config(identity: ChallengeIdentity, tls: &ServerTls) -> Result<ServerConfig, rustls::Error> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key));
    let key = tls.provider().key_provider.load_private_key(key)?;
    // Not as a single certificate: that would be parsed, and the proof is a critical extension that the
    // parser refuses.
    let key = CertifiedKey::new(vec![CertificateDer::from(identity.certificate)], key);
    let mut config = ServerConfig::builder_with_details(tls.provider().clone(), wall_clock::clock())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SiteKeys([Arc::new(key)].into())));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The protocol of challenges (RFC 8737 section 6.2).
const PROTOCOL: &[u8] = b"acme-tls/1";
/// The alert of RFC 7301 section 3.2.
const ALERT_NO_APPLICATION_PROTOCOL: u8 = 120;
