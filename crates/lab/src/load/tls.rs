//! TLS as clients of the load generator speak it: which versions, which handshakes, and that nothing is
//! verified, because certificates of the laboratory are signed by themselves. It moves no bytes.

use std::sync::Arc;

use anyhow::Context;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion,
};

use crate::scenario::TlsVersion;

/// The choices of a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tls {
    /// Whether every connection after the first of its client resumes the session before it. Otherwise all
    /// handshakes are full.
    pub resume: bool,
    /// The only version that is offered; 1.2 and 1.3 if absent.
    pub version: Option<TlsVersion>,
}

/// The TLS of one client: its settings, and its sessions if it resumes them. A client has one connection at a
/// time.
#[derive(Clone, Debug)]
pub(super) struct LoadTlsClient {
    settings: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl LoadTlsClient {
    /// A client for a server with this value of `Host`.
    pub(super) fn new(tls: Tls, host: &str) -> anyhow::Result<LoadTlsClient> {
        let name = server_name(host);
        let server =
            ServerName::try_from(name.to_owned()).with_context(|| format!("{name} is no server's name"))?;
        let versions: &[&'static SupportedProtocolVersion] = match tls.version {
            None => rustls::ALL_VERSIONS,
            Some(TlsVersion::V1_2) => &[&rustls::version::TLS12],
            Some(TlsVersion::V1_3) => &[&rustls::version::TLS13],
        };
        let mut settings = settings(versions)?;
        settings.resumption =
            if tls.resume { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
        Ok(LoadTlsClient { settings: Arc::new(settings), server })
    }

    /// Another client with the same settings and sessions of its own.
    pub(super) fn another(&self, tls: Tls) -> LoadTlsClient {
        if !tls.resume {
            return self.clone();
        }
        let mut settings = ClientConfig::clone(&self.settings);
        settings.resumption = Resumption::in_memory_sessions(SESSIONS);
        LoadTlsClient { settings: Arc::new(settings), server: self.server.clone() }
    }

    /// A connection before its handshake.
    pub(super) fn connection(&self) -> Result<ClientConnection, String> {
        ClientConnection::new(Arc::clone(&self.settings), self.server.clone())
            .map_err(|fault| format!("TLS cannot begin: {fault}"))
    }
}

/// The record with the ClientHello of a client that names this server. Its random bytes are the same in each
/// copy.
pub(crate) fn client_hello(host: &str) -> anyhow::Result<Vec<u8>> {
    let client = LoadTlsClient::new(Tls::default(), host)?;
    let mut connection = client.connection().map_err(anyhow::Error::msg)?;
    let mut record = Vec::new();
    connection.write_tls(&mut record).context("no ClientHello")?;
    Ok(record)
}

/// The server's name and the settings of TLS for HTTP/3. All handshakes are full.
pub(super) fn for_quic(host: &str) -> anyhow::Result<(String, ClientConfig)> {
    let mut settings = settings(&[&rustls::version::TLS13])?;
    settings.resumption = Resumption::disabled();
    settings.alpn_protocols = vec![b"h3".to_vec()];
    Ok((server_name(host).to_owned(), settings))
}

/// The value of `Host` without the port, and without the brackets of an IPv6 address.
fn server_name(host: &str) -> &str {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.unwrap_or_default()
}

fn settings(versions: &[&'static SupportedProtocolVersion]) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(provider());
    Ok(ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .context("TLS cannot be set up")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth())
}

/// The key exchanges are those that h2load offers first: every server of the last decade has them, so that no
/// contender computes another one than the others.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    provider
}

/// Accepts every certificate. Signatures are not computed either, because a load generator should cost
/// little.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A client has one server. rustls keeps up to eight tickets of it.
const SESSIONS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_name_is_without_port() {
        let check = |host: &str, wanted: Option<&str>| {
            let client = LoadTlsClient::new(Tls::default(), host);
            assert_eq!(
                client.ok().map(|client| client.server.to_str().into_owned()).as_deref(),
                wanted,
                "{host}"
            );
        };
        check("127.0.0.1:8443", Some("127.0.0.1"));
        check("[::1]:8443", Some("::1"));
        check("shop.example", Some("shop.example"));
        check("", None);
    }

    #[test]
    fn clients_share_no_sessions() {
        let tls = Tls { resume: true, version: None };
        let first = LoadTlsClient::new(tls, "localhost").unwrap();
        assert!(!Arc::ptr_eq(&first.settings, &first.another(tls).settings));
        let full = Tls::default();
        assert!(Arc::ptr_eq(&first.settings, &first.another(full).settings), "nothing to keep apart");
    }
}
