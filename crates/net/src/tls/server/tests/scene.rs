//! Helpers of the tests: an authority, a server with some sites, and handshakes of both sides.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::env;
use crate::tls::TlsStream;
use crate::tls::client::{ClientSettings, ClientTls, Roots, connect_tls};
use crate::tls::server::client_policy::ClientPolicyParts;
use crate::tls::server::site::{PairParts, Site, SiteParts};
use crate::tls::server::{AcceptFault, Accepted, Alpn, ServerSettings, ServerTls, SiteTable, accept_tls};
use crate::transport::Transport;

/// An authority, and what it signs.
pub(super) struct Authority {
    pub(super) issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    pub(super) fn signs(&self, names: &[&str], key: &KeyPair) -> (String, String) {
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        (params.unwrap().signed_by(key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(super) fn pair(&self, names: &[&str]) -> (String, String) {
        self.signs(names, &KeyPair::generate().unwrap())
    }
}

/// A site with these pairs, and nothing else of its own.
pub(super) fn parts<'a>(id: &'a str, names: &[&'a str], pairs: Vec<PairParts<'a>>) -> SiteParts<'a> {
    let names = names.to_vec();
    SiteParts { id, names, pairs, versions: None, client: None, exemption: None, staples: None }
}

/// A server with some sites, and its clients.
pub(super) struct Scene {
    pub(super) authority: Authority,
    pub(super) tls: ServerTls,
    pub(super) table: SiteTable,
}

impl Scene {
    pub(super) fn new(settings: ServerSettings) -> Scene {
        let tls = ServerTls::new(&settings).unwrap();
        Scene { authority: Authority::new("known"), tls, table: SiteTable::default() }
    }

    pub(super) fn site(
        &mut self,
        id: &str,
        names: &[&str],
        client: Option<ClientPolicyParts<'_>>,
    ) -> Arc<Site> {
        let (chain, key) = self.authority.pair(names);
        let pairs = vec![PairParts { chain: &chain, key: &key, is_checked: true }];
        let parts = SiteParts { client, ..parts(id, names, pairs) };
        let site = Arc::new(Site::new(parts, &self.tls).unwrap());
        self.table.insert(&site);
        site
    }

    pub(super) fn client(&self, certificate: Option<(&str, &str)>) -> ClientTls {
        let roots = Roots::Pem(&self.authority.pem);
        ClientTls::new(ClientSettings { roots, certificate, alpn: &[b"http/1.1"] }).unwrap()
    }

    /// A handshake of both sides.
    pub(super) async fn handshake(
        &self,
        name: &str,
        client: &ClientTls,
    ) -> (Result<Accepted, AcceptFault>, io::Result<TlsStream>) {
        let listener = env::bind("127.0.0.1:0".parse::<SocketAddr>().unwrap(), false).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = env::Listener::attach(listener).unwrap();
        let server = async {
            let (stream, _) = listener.accept().await.unwrap();
            accept_tls(stream, &self.tls, || Arc::new(self.table.clone()), Alpn::Http1).await
        };
        let client = async { connect_tls(env::connect(address).await.unwrap(), name, client).await };
        tokio::join!(server, client)
    }
}

pub(super) async fn write_all(stream: &mut Transport, mut data: &[u8]) {
    while !data.is_empty() {
        let count = poll_fn(|cx| stream.poll_write(cx, data)).await.unwrap();
        data = &data[count..];
    }
}

pub(super) async fn read(stream: &mut Transport, room: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_read(cx, room)).await
}
