//! Opening a connection to one address of a destination, with its TLS handshake, within a time. It keeps
//! none.

use std::future::Future;

use super::error::OutboundCause;
use net::endpoint::Endpoint;
use net::tls::failure::{TlsFault, of_handshake};
use net::transport::Transport;
use net::{env, tls};

/// A failed try, before it is known at which URI.
pub(super) type OpenFailure = (OutboundCause, String);

/// Opens a connection to `endpoint` within `timeout_ms`; over TLS, to the server that is called `host`.
pub(super) async fn open(endpoint: &Endpoint, host: &str, timeout_ms: u64) -> Result<Transport, OpenFailure> {
    let address = endpoint.address;
    let opening = async {
        let stream = env::connect(address)
            .await
            .map_err(|error| (OutboundCause::Connect, format!("cannot connect to {address}: {error}")))?;
        let Some(identity) = &endpoint.tls else { return Ok(Transport::from(stream)) };
        let handshake = tls::client::run_client_handshake(stream, address, host, identity).await;
        handshake.map(Transport::from).map_err(|error| {
            let (fault, detail) = of_handshake(&error);
            let cause = match fault {
                TlsFault::Certificate => OutboundCause::Certificate,
                TlsFault::Handshake | TlsFault::Closed => OutboundCause::Tls,
            };
            (cause, format!("{address}: {detail}"))
        })
    };
    match within(timeout_ms, Box::pin(opening)).await {
        Some(opened) => opened,
        None => {
            let detail = format!("no connection to {address} within {timeout_ms} ms");
            Err((OutboundCause::ConnectTimeout, detail))
        }
    }
}

/// The value of `future`, or nothing after `timeout_ms`.
pub(super) async fn within<T>(timeout_ms: u64, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = env::sleep_ms(timeout_ms) => None,
    }
}
