//! The UDP sockets of a listener, one for each worker: at the address of the TLS listener where it serves
//! HTTP/3, else its only ones. It receives nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::Protocols;
use crate::env;
use crate::quic::{self, Steering};

/// See the module.
#[derive(Debug)]
pub struct Datagrams {
    /// Number of workers; 0 where the listener has no UDP sockets.
    workers: usize,
    /// Binds a socket; `true` shares the address.
    bind: fn(SocketAddr, bool) -> io::Result<UdpSocket>,
    /// Each serves the worker with the remainder of its index by the number of workers. Empty once it is
    /// closed.
    sockets: Mutex<Vec<UdpSocket>>,
    steering: OnceLock<Arc<Steering>>,
}

impl Datagrams {
    /// Binds once for each of `workers`, at the address that the TCP sockets have, if there are any. Port 0
    /// takes a free port, the same for all. Without UDP among the protocols nothing is bound.
    ///
    /// # Errors
    /// The kernel's, above all that the port is in use.
    pub(super) fn bind(
        protocols: Protocols,
        address: SocketAddr,
        workers: usize,
    ) -> io::Result<(Datagrams, SocketAddr)> {
        let datagrams = Datagrams::adopt(protocols, Vec::new(), workers);
        if datagrams.workers == 0 {
            return Ok((datagrams, address));
        }
        // A second process would otherwise share the address in silence.
        drop((datagrams.bind)(address, false)?);
        let first = (datagrams.bind)(address, true)?;
        let address = first.local_addr()?;
        datagrams.sockets.lock().push(first);
        datagrams.complete(address)?;
        Ok((datagrams, address))
    }

    /// Takes over bound sockets.
    pub(super) fn adopt(protocols: Protocols, sockets: Vec<UdpSocket>, workers: usize) -> Datagrams {
        let has_sockets = protocols.http3 || protocols.udp;
        Datagrams {
            workers: if has_sockets { workers } else { 0 },
            bind: if protocols.udp { env::bind_datagrams } else { quic::bind_quic_socket },
            sockets: Mutex::new(if has_sockets { sockets } else { Vec::new() }),
            steering: OnceLock::new(),
        }
    }

    /// Binds a socket for each worker that has none.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn complete(&self, address: SocketAddr) -> io::Result<()> {
        let mut sockets = self.sockets.lock();
        while sockets.len() < self.workers {
            sockets.push((self.bind)(address, true)?);
        }
        Ok(())
    }

    /// Further descriptors of one worker's sockets with their numbers; none once it is closed.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn of_worker(&self, worker: usize) -> io::Result<Vec<(usize, UdpSocket)>> {
        let sockets = self.sockets.lock();
        let own = sockets.iter().enumerate().filter(|(number, _)| number % self.workers == worker);
        own.map(|(number, socket)| Ok((number, socket.try_clone()?))).collect()
    }

    /// Further descriptors of all sockets, for a process that is to take them over; none once it is closed.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn descriptors(&self) -> io::Result<Vec<UdpSocket>> {
        self.sockets.lock().iter().map(UdpSocket::try_clone).collect()
    }

    /// The exchange of datagrams among the sockets; `make` makes it for so many sockets when it is first
    /// asked for.
    pub fn steering(&self, make: impl FnOnce(usize) -> Arc<Steering>) -> Arc<Steering> {
        self.steering.get_or_init(|| make(self.sockets.lock().len())).clone()
    }

    pub(super) fn close(&self) {
        self.sockets.lock().clear();
    }
}
