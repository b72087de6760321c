//! A TCP connection to a host under the rule of outbound calls. It does not know the protocol or the purpose.

use std::net::SocketAddr;

use model::outbound::OutboundPolicy;
use tokio::net::TcpStream;

/// Connects to the first address that answers, if the policy allows all of them. Otherwise a name could lead
/// to a forbidden address at some lookups only.
///
/// # Errors
/// The reason of the failure, a sentence.
pub async fn connect_tcp(host: &str, port: u16, policy: &OutboundPolicy) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> = found
        .map_err(|error| format!("the name {host} cannot be looked up: {error}"))?
        .take(MAX_ADDRESSES)
        .collect();
    for address in &addresses {
        if let Some(what) = policy.refuses(address.ip()) {
            return Err(format!(
                "{} is {what}; the setting outbound_allow lists what may be reached all the same",
                address.ip()
            ));
        }
    }
    let mut failed = format!("the name {host} has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = format!("{address} cannot be reached: {error}"),
        }
    }
    Err(failed)
}

/// Limit of a name's addresses that are tried within the one deadline.
const MAX_ADDRESSES: usize = 8;
