//! Ports of 127.0.0.1 for contenders and the origin: free ones, or requested ones.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use anyhow::{Context, bail};

/// Hands ports out.
#[derive(Debug, Default)]
pub struct Ports {
    next: Option<u16>,
}

impl Ports {
    /// Ports from this one upwards, one after another; free ones if none is given.
    pub fn from(first: Option<u16>) -> Self {
        Self { next: first }
    }

    /// The next port. A requested port that is taken is an error with advice.
    pub fn take(&mut self) -> anyhow::Result<SocketAddr> {
        let port = self.next.unwrap_or(0);
        if port == 0 {
            return free();
        }
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => listener,
            Err(error) => bail!(
                "port {port} is taken ({error}): end what listens there, or give --port another number or none"
            ),
        };
        if self.next.is_some() {
            self.next = Some(port.checked_add(1).context("there is no port above 65535")?);
        }
        Ok(listener.local_addr()?)
    }
}

/// A port that is free for TCP and UDP.
fn free() -> anyhow::Result<SocketAddr> {
    let mut left = PORTS_TRIED;
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        match UdpSocket::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) if left == 0 => return Err(error).context("no port that is free for TCP and UDP"),
            Err(_) => left -= 1,
        }
    }
}

/// Ports that are tried for one that is free for UDP too: a taken one is rare, so that a few suffice.
const PORTS_TRIED: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ones_and_those_asked_for() {
        let free = Ports::from(None).take().unwrap();
        assert!(free.port() > 0);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let held = holder.local_addr().unwrap().port();
        let error = Ports::from(Some(held)).take().unwrap_err().to_string();
        assert!(error.contains(&format!("port {held} is taken")), "{error}");
        // Another process may take the port in between; then it is reported as taken.
        if let Ok(address) = Ports::from(Some(taken)).take() {
            assert_eq!(address.port(), taken);
        }
    }
}
