//! Connections to one endpoint of etcd, with TLS for https. It does not know the protocol inside.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use model::outbound::OutboundPolicy;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connect::connect_tcp;
use crate::etcd::{EtcdConfig, EtcdError, EtcdTls};
use crate::tls::{self, Io};

/// Opens connections to one endpoint.
#[derive(Clone)]
pub(crate) struct EtcdConnector {
    /// `HOST:PORT`; the name is looked up for every connection.
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    policy: Option<OutboundPolicy>,
}

impl EtcdConnector {
    /// Connections to `endpoint`, which is `http://HOST:PORT` or `https://HOST:PORT`.
    ///
    /// # Errors
    /// The host is no name that a certificate can have.
    pub(crate) fn new(
        endpoint: &str,
        settings: &EtcdConfig,
        config: Option<&Arc<ClientConfig>>,
    ) -> Result<EtcdConnector, EtcdError> {
        let (scheme, authority) = endpoint.split_once("://").unwrap_or(("http", endpoint));
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let tls = match (scheme, config) {
            ("https", Some(config)) => {
                let name = settings.tls.server_name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| EtcdError::Tls(format!("`{name}` is no name a certificate can have")))?;
                Some((TlsConnector::from(Arc::clone(config)), name))
            }
            _ => None,
        };
        Ok(EtcdConnector { authority: authority.to_owned(), tls, policy: settings.policy.clone() })
    }
}

impl tower_service::Service<Uri> for EtcdConnector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let EtcdConnector { authority, tls, policy } = self.clone();
        Box::pin(async move {
            let stream = match policy {
                None => TcpStream::connect(&authority).await?,
                Some(policy) => {
                    let (host, port) = split(&authority).ok_or_else(|| io::Error::other("it has no port"))?;
                    connect_tcp(host, port, &policy).await.map_err(io::Error::other)?
                }
            };
            stream.set_nodelay(true)?;
            let stream: Box<dyn Io> = match tls {
                Some((connector, name)) => Box::new(connector.connect(name, stream).await?),
                None => Box::new(stream),
            };
            Ok(TokioIo::new(stream))
        })
    }
}

/// Host, without brackets, and port of `HOST:PORT`.
fn split(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = authority.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']), port.parse().ok()?))
}

/// The TLS settings for all endpoints.
///
/// # Errors
/// A file cannot be read or used; the error names it.
pub(crate) fn etcd_tls_config(settings: &EtcdTls) -> Result<Arc<ClientConfig>, EtcdError> {
    let builder = if settings.verify {
        tls::trusting_authorities(settings.ca.as_deref(), "etcd_ca").map_err(EtcdError::Tls)?
    } else {
        tls::verifying_by(tls::Trust::Anything).map_err(EtcdError::Tls)?
    };
    let mut config = tls::presenting_identity(builder, settings.identity.as_ref()).map_err(EtcdError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
