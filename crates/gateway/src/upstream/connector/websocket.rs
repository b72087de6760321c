//! The stream of a WebSocket to an endpoint of HTTP/2: an extended CONNECT (RFC 8441) where the SETTINGS of
//! the endpoint allow it. It knows no request, and leaves a connection of HTTP/1 to its caller.

use std::cell::Cell;
use std::rc::Rc;

use stdx::pooled::PooledBox;

use super::UpstreamConnector;
use crate::upstream::h2::pool::TunnelLend;
use crate::upstream::opening::WantedConnection;
use crate::upstream::stream::PooledStream;
use exchange::failure::{Cause, ExchangeFailure};

/// Most connections that are opened for one WebSocket, so that an endpoint which closes each of them is given
/// up.
const OPENS_MAX: usize = 3;

impl UpstreamConnector {
    /// A stream that can become a tunnel, on a connection that is opened if there is none; none if the
    /// endpoint takes no extended CONNECT.
    ///
    /// # Errors
    /// No connection could be opened.
    pub(super) async fn connect_tunnel(
        self: &Rc<UpstreamConnector>,
        opening: &WantedConnection,
        timeout_ms: u64,
        in_handshake: &Cell<bool>,
    ) -> Result<Option<PooledStream>, ExchangeFailure> {
        let wanted = opening.wanted();
        let endpoint_id = wanted.endpoint.id;
        let mut opens = 0;
        loop {
            let lent = self.shared.borrow_mut().lend_tunnel(wanted, self.local.now_ms());
            match lent {
                TunnelLend::Stream(stream) => {
                    return Ok(Some(PooledStream::Http2(PooledBox::new(stream))));
                }
                TunnelLend::Refused => return Ok(None),
                TunnelLend::Unsettled(link) => {
                    if link.wait_for_settings().await.is_none() {
                        // It speaks HTTP/1, or closes connections of HTTP/2.
                        self.shared.borrow_mut().note_no_tunnels(endpoint_id, self.local.now_ms());
                    }
                }
                TunnelLend::Unknown if opens == OPENS_MAX => {
                    let detail = "its connections of HTTP/2 take no stream for a WebSocket";
                    return Err(ExchangeFailure::new(Cause::ConnectFailed, detail));
                }
                TunnelLend::Unknown => {
                    opens += 1;
                    self.join_shared(wanted, timeout_ms).wait(in_handshake).await?;
                }
            }
        }
    }
}
