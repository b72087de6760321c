//! The order of the layers of a connection: its listener says whether TLS comes before HTTP. A PROXY protocol
//! header, which stands in front of both, has been read by now. It reads no byte itself.

use super::arrival::TcpArrival;
use super::h1::connection::H1Connection;
use super::h1::serve as h1;
use super::h1::timer::ConnectionTimer;
use super::stream::{self, OpenedConnection};
use super::tls;
use net::env;
use net::listener::Application;

/// Serves a connection by the protocols of its listener, in a task of its own. Its peer's address is counted
/// by now.
pub(crate) fn serve_protocol_layers(arrival: TcpArrival, timer: ConnectionTimer) {
    let protocols = arrival.identity.listener.listener.wanted().protocols;
    match protocols.application {
        Application::Http1 if protocols.tls => {
            env::spawn(tls::serve_tls_connection(arrival, timer));
        }
        Application::Stream if protocols.tls => {
            env::spawn(tls::serve_tls_connection(arrival, timer));
        }
        Application::Stream => {
            let TcpArrival { stream, identity, counted } = arrival;
            env::spawn(stream::serve_stream_session(OpenedConnection::new(
                stream.into(),
                identity,
                counted,
                timer,
                None,
            )));
        }
        Application::Http1 => {
            let TcpArrival { stream, identity, counted } = arrival;
            let connection = H1Connection::new(stream.into(), identity, counted, None);
            env::spawn(h1::serve_h1_connection(connection, timer));
        }
    }
}
