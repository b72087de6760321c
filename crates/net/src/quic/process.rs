//! The common state of a process's QUIC endpoints, and the part that an upgrade hands to the next process:
//! the keys, the generation, and a line by which the successor passes datagrams of older connections back.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::line::{UpgradeLine, receive_all};
use super::secret::QuicSecret;
use super::steering::Steering;

/// See the module.
#[derive(Clone, Debug)]
pub struct QuicProcess {
    /// The keys.
    pub secret: QuicSecret,
    /// The number of the process among its predecessors and successors.
    pub generation: u16,
    predecessor: Option<Arc<UpgradeLine>>,
    listeners: Arc<QuicListeners>,
}

/// The listeners of a process by their addresses.
#[derive(Debug, Default)]
pub(super) struct QuicListeners(Mutex<Vec<(SocketAddr, Weak<Steering>)>>);

impl QuicListeners {
    pub(super) fn find(&self, address: SocketAddr) -> Option<Arc<Steering>> {
        let listeners = self.0.lock();
        listeners.iter().filter(|(known, _)| *known == address).find_map(|(_, steering)| steering.upgrade())
    }
}

impl QuicProcess {
    /// Of a process without a predecessor.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn first() -> Result<QuicProcess, String> {
        Ok(QuicProcess {
            secret: QuicSecret::random()?,
            generation: 0,
            predecessor: None,
            listeners: Arc::default(),
        })
    }

    /// Of the successor of a process with this secret and generation, and its line back.
    pub fn successor_of(secret: QuicSecret, generation: u16, line: Option<OwnedFd>) -> QuicProcess {
        QuicProcess {
            secret,
            generation: generation.wrapping_add(1),
            predecessor: line.map(|line| Arc::new(UpgradeLine::new(line))),
            listeners: Arc::default(),
        }
    }

    /// The exchange of datagrams among so many sockets of the listener at `address`.
    pub fn steering(&self, address: SocketAddr, sockets: usize) -> Arc<Steering> {
        let steering =
            Steering::new(&self.secret, self.generation, sockets, address, self.predecessor.clone());
        let mut listeners = self.listeners.0.lock();
        listeners.retain(|(_, steering)| steering.strong_count() > 0);
        listeners.push((address, Arc::downgrade(&steering)));
        steering
    }

    /// A line for a successor; a thread takes what comes by it until the successor has ended or closed it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn line_for_successor(&self) -> io::Result<OwnedFd> {
        let (here, there) = UpgradeLine::pair()?;
        let listeners = self.listeners.clone();
        std::thread::Builder::new()
            .name("quic-line".to_owned())
            .spawn(move || receive_all(&here, &listeners))?;
        Ok(there)
    }
}
