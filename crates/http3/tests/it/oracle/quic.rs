//! Two QUIC endpoints on 127.0.0.1 and a connection between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

/// Both sides of a connection, with their endpoints, which keep it alive.
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
    endpoints: [Endpoint; 2],
}

impl Pair {
    /// Closes both endpoints, so that tasks of either side end.
    pub(crate) fn close(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.close(0x100_u32.into(), b""));
    }
}

/// Connects a client to a server, with a certificate that is made for it.
pub(crate) async fn connect() -> Pair {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    server.alpn_protocols = vec![b"h3".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h3".to_vec()];

    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).unwrap()));
    let client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).unwrap()));
    let near = Endpoint::client(any_port).unwrap();
    let far = Endpoint::server(server, any_port).unwrap();
    let connecting = near.connect_with(client, far.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { far.accept().await.unwrap().await.unwrap() };
    let (client, server) = tokio::join!(async { connecting.await.unwrap() }, accepting);
    Pair { client, server, endpoints: [near, far] }
}
