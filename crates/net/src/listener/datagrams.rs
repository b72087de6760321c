//! The UDP sockets of a listener that serves HTTP/3: one for each worker, at the address of the TLS listener. It receives
//! nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::quic::{self, Steering};

/// See the module.
#[derive(Debug, Default)]
pub struct Datagrams {
    /// Number of workers; 0 where HTTP/3 is not served.
    workers: usize,
    /// Each serves the worker with the remainder of its index by the number of workers. Empty once it is closed.
    sockets: Mutex<Vec<UdpSocket>>,
    steering: OnceLock<Arc<Steering>>,
}

impl Datagrams {
    /// Binds once for each of `workers`, at the address that the TCP sockets have.
    ///
    /// # Errors
    /// The kernel's, above all that the port is in use.
    pub(super) fn bind(address: SocketAddr, workers: usize) -> io::Result<Datagrams> {
        // A second process would otherwise share the address in silence.
        drop(quic::bind(address, false)?);
        let sockets = (0..workers).map(|_| quic::bind(address, true)).collect::<io::Result<_>>()?;
        Ok(Datagrams { workers, sockets: Mutex::new(sockets), steering: OnceLock::new() })
    }

    /// Takes over bound sockets.
    pub(super) fn adopt(sockets: Vec<UdpSocket>, workers: usize) -> Datagrams {
        Datagrams { workers, sockets: Mutex::new(sockets), steering: OnceLock::new() }
    }

    /// Binds a socket for each worker that has none.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn complete(&self, address: SocketAddr) -> io::Result<()> {
        let mut sockets = self.sockets.lock();
        while sockets.len() < self.workers {
            sockets.push(quic::bind(address, true)?);
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

    /// The exchange of datagrams among the sockets; `make` makes it for so many sockets when it is first asked for.
    pub fn steering(&self, make: impl FnOnce(usize) -> Arc<Steering>) -> Arc<Steering> {
        self.steering.get_or_init(|| make(self.sockets.lock().len())).clone()
    }

    pub(super) fn close(&self) {
        self.sockets.lock().clear();
    }
}
