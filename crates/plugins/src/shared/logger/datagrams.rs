//! A log server that takes datagrams over UDP. Whether one arrives is not known; a closed port may be.

use exchange::plugin::outbound::{DATAGRAM_MAX_BYTES, DatagramDestination};
use exchange::plugin::services::Services;
use net::env;

use crate::shared::redis::settings::format_host_port;

/// How often the address of a name is looked for, in milliseconds, up to the timeout of the instance.
const LOOKUP_POLL_MS: u64 = 20;

/// See the module.
pub(crate) struct Datagrams {
    destination: DatagramDestination,
    host: Box<str>,
    port: u16,
    timeout_ms: u64,
}

impl Datagrams {
    /// A log server; its name is looked up from now on.
    ///
    /// # Errors
    /// Why it cannot be reached, a sentence.
    pub(crate) fn new(
        services: &Services,
        host: &str,
        port: u16,
        timeout_ms: u64,
    ) -> Result<Datagrams, String> {
        let destination = services.datagram_destination(&format_host_port(host, port))?;
        Ok(Datagrams { destination, host: host.into(), port, timeout_ms })
    }

    /// Sends a datagram. The address of a name that is new is waited for.
    ///
    /// # Errors
    /// The failed step with its place, a sentence of the contract.
    pub(crate) async fn send(&self, datagram: &[u8]) -> Result<(), String> {
        if datagram.len() > DATAGRAM_MAX_BYTES {
            let bytes = datagram.len();
            return Err(self.failed("send data to", &format!("{bytes} bytes do not fit into a datagram")));
        }
        let mut waited_ms = 0;
        loop {
            use exchange::plugin::outbound::OutboundCause::{Broken, NoAddress};
            match self.destination.send(datagram) {
                Ok(()) => return Ok(()),
                Err(error) if error.cause == NoAddress && waited_ms < self.timeout_ms => {
                    env::sleep_ms(LOOKUP_POLL_MS).await;
                    waited_ms += LOOKUP_POLL_MS;
                }
                Err(error) if error.cause == Broken => {
                    return Err(self.failed("send data to", &error.to_string()));
                }
                Err(error) => return Err(self.failed("connect to", &error.to_string())),
            }
        }
    }

    fn failed(&self, step: &str, error: &str) -> String {
        format!("failed to {step} UDP server: host[{}] port[{}] err: {error}", self.host, self.port)
    }
}
