//! Connections for pushes, over TCP without TLS, to addresses that the outbound policy allows only.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use model::outbound::OutboundPolicy;
use outbound::connect::connect_tcp;
use tokio::net::TcpStream;

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct NacosConnector {
    host: Arc<str>,
    port: u16,
    policy: OutboundPolicy,
}

impl NacosConnector {
    /// Connections to `HOST:PORT`.
    ///
    /// # Errors
    /// The text has another form.
    pub(super) fn new(server: &str, policy: OutboundPolicy) -> Result<NacosConnector, String> {
        let (host, port) = server.rsplit_once(':').ok_or_else(|| format!("`{server}` has no port"))?;
        let port = port.parse().map_err(|_| format!("`{server}` has no port"))?;
        Ok(NacosConnector { host: host.trim_matches(['[', ']']).into(), port, policy })
    }
}

impl tower_service::Service<Uri> for NacosConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let NacosConnector { host, port, policy } = self.clone();
        Box::pin(async move {
            let stream = connect_tcp(&host, port, &policy).await.map_err(io::Error::other)?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}
