//! The beginning of a connection: TLS where the listener has it, within the deadline of a silent connection.
//! Plain HTTP on such a listener gets an answer that names the fault. It does not know requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use outbound::tls::Io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::seats::HeldSeat;
use super::stopped;
use super::stream::Watched;
use crate::serve::tls::ServerTls;

/// The connection, ready for requests; none when it ended before: its handshake failed or took too long, its
/// seat was given away, or the listener stops.
pub(super) async fn open_connection(
    stream: TcpStream,
    peer: SocketAddr,
    seat: &Arc<HeldSeat>,
    tls: Option<&ServerTls>,
    stop: &mut watch::Receiver<bool>,
) -> Option<Box<dyn Io>> {
    let Some(tls) = tls else { return Some(Box::new(Watched::new(stream, Arc::clone(seat)))) };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(stream, seat, tls));
    tokio::select! {
        done = handshake => match done {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(fault)) => {
                tracing::debug!(%peer, %fault, "no TLS connection came about");
                None
            }
            Err(_) => None,
        },
        () = seat.given_away() => None,
        () = stopped(stop) => None,
    }
}

async fn handshake(
    stream: TcpStream,
    seat: &Arc<HeldSeat>,
    tls: &ServerTls,
) -> Result<Box<dyn Io>, std::io::Error> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        refuse_plain(stream).await?;
        return Err(std::io::Error::other("it sent plain HTTP"));
    }
    let stream = tls.acceptor().accept(Watched::new(stream, Arc::clone(seat))).await?;
    Ok(Box::new(stream))
}

/// Answers a client that speaks HTTP without TLS, and reads what it sends for a moment: closing a socket with
/// unread bytes resets the connection, and the reset would overtake the answer.
async fn refuse_plain(mut stream: TcpStream) -> std::io::Result<()> {
    let body = "{\"error_msg\":\"this listener speaks HTTPS; ask https:// instead of http://\"}\n";
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n";
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = vec![0; REFUSED_READ_BYTES];
    let mut left = REFUSED_READ_BYTES;
    while left > 0 {
        match stream.read(&mut rest).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

/// From accept to the end of the handshake: as long as a connection may be silent before its first request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Of a plain request; a larger one is reset.
const REFUSED_READ_BYTES: usize = 64 * 1024;
