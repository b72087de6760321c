//! The addresses the proxy listens on: what is spoken there, and one socket per worker, sharing the address
//! by `SO_REUSEPORT`; for datagrams of layer 4 these are UDP sockets alone. An address is probed without that
//! option first, for a second process would otherwise share it in silence; sockets that another process
//! handed over need no probe. It accepts nothing itself.

mod datagrams;
mod interception;
mod protocols;
mod set;

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::env::{self, BoundSocket};
use protocols::Changeable;

pub use datagrams::Datagrams;
pub use interception::Interception;
pub use protocols::{Application, Protocols};
pub use set::plan;
pub use set::{ListenFault, ListenerChanges, ListenerSet};

/// Numbers for listeners, unique in this process.
static NEXT_LISTENER: AtomicU64 = AtomicU64::new(1);

/// How often another port is tried for TCP and UDP together.
const PORT_ATTEMPTS: usize = 16;

/// A listener as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedListener {
    /// Its address; port 0 is any free one.
    pub address: SocketAddr,
    /// The protocols of its connections.
    pub protocols: Protocols,
}

/// A bound address with its sockets. Workers accept on descriptors of their own; these ones keep the address
/// while a worker is started again, and are what is handed to a successor.
#[derive(Debug)]
pub struct Listener {
    id: u64,
    wanted: WantedListener,
    /// Facts of `wanted` as they are now.
    changeable: Changeable,
    address: SocketAddr,
    /// For each worker, the sockets it accepts on.
    sockets: Mutex<Vec<Vec<BoundSocket>>>,
    /// Its UDP sockets, where it serves HTTP/3 or datagrams of layer 4.
    datagrams: Datagrams,
}

impl Listener {
    /// Binds once for each of `workers`. Port 0 takes a free port, the same for all.
    ///
    /// # Errors
    /// The kernel's, above all that the address is in use, by whomever.
    pub fn bind(wanted: WantedListener, workers: usize) -> io::Result<Listener> {
        let mut attempts = 1;
        loop {
            let bound = Listener::bind_once(wanted, workers);
            let is_taken = bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
            // A port that is free for TCP may be taken for UDP; only a port that the kernel chose can be
            // another one.
            if !is_taken || wanted.address.port() != 0 || !wanted.protocols.http3 || attempts == PORT_ATTEMPTS
            {
                return bound;
            }
            attempts += 1;
        }
    }

    fn bind_once(wanted: WantedListener, workers: usize) -> io::Result<Listener> {
        if wanted.protocols.udp {
            let (datagrams, address) = Datagrams::bind(wanted.protocols, wanted.address, workers)?;
            return Ok(Listener::new(wanted, address, no_sockets(workers), datagrams));
        }
        drop(env::bind(wanted.address, false)?);
        let first = shared_socket(wanted.protocols, wanted.address)?;
        let address = first.local_addr()?;
        let mut sockets = vec![vec![first]];
        for _ in 1..workers {
            sockets.push(vec![shared_socket(wanted.protocols, address)?]);
        }
        let (datagrams, address) = Datagrams::bind(wanted.protocols, address, workers)?;
        Ok(Listener::new(wanted, address, sockets, datagrams))
    }

    /// Takes over sockets that listen already. Each is accepted on by one of `workers`, for the kernel queues
    /// connections on every one of them; a worker beyond their number gets one from [`Listener::complete`].
    ///
    /// # Errors
    /// There are none, or they have no address, or more than one.
    pub fn adopt(
        wanted: WantedListener,
        sockets: Vec<BoundSocket>,
        datagrams: Vec<UdpSocket>,
        workers: usize,
    ) -> io::Result<Listener> {
        let mut of_workers = no_sockets(workers);
        let mut address = None;
        if wanted.protocols.udp {
            for socket in &datagrams {
                one_address(&mut address, socket.local_addr()?)?;
            }
        }
        for (index, socket) in sockets.into_iter().enumerate() {
            one_address(&mut address, socket.local_addr()?)?;
            wanted.protocols.interception.prepare(&socket)?;
            of_workers[index % workers].push(socket);
        }
        let address = address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no sockets"))?;
        Ok(Listener::new(wanted, address, of_workers, Datagrams::adopt(wanted.protocols, datagrams, workers)))
    }

    /// Binds a socket for each worker that has none.
    ///
    /// # Errors
    /// The kernel's; the workers that have sockets serve the address nevertheless.
    pub fn complete(&self) -> io::Result<()> {
        let is_tcp = !self.wanted.protocols.udp;
        for sockets in self.sockets().iter_mut().filter(|sockets| is_tcp && sockets.is_empty()) {
            sockets.push(shared_socket(self.wanted.protocols, self.address)?);
        }
        self.datagrams.complete(self.address)
    }

    fn new(
        wanted: WantedListener,
        address: SocketAddr,
        sockets: Vec<Vec<BoundSocket>>,
        datagrams: Datagrams,
    ) -> Listener {
        let id = NEXT_LISTENER.fetch_add(1, Ordering::Relaxed);
        let changeable = Changeable::of(wanted.protocols);
        Listener { id, wanted, changeable, address, sockets: Mutex::new(sockets), datagrams }
    }

    /// A number no other listener of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The listener as it was asked for, by the settings that are in force now.
    #[inline]
    pub fn wanted(&self) -> WantedListener {
        WantedListener { protocols: self.changeable.within(self.wanted.protocols), ..self.wanted }
    }

    /// Takes over the facts of `protocols` that change while the sockets stay bound; whether any differs.
    /// Connections that begin afterwards see them.
    pub fn change(&self, protocols: Protocols) -> bool {
        self.changeable.replace(protocols)
    }

    /// The address, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Further descriptors of all its sockets, for a process that is to take them over; none once it is
    /// closed.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn descriptors(&self) -> io::Result<Vec<BoundSocket>> {
        self.sockets().iter().flatten().map(BoundSocket::try_clone).collect()
    }

    /// Further descriptors of one worker's sockets; none once it is closed.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn of_worker(&self, worker: usize) -> io::Result<Vec<BoundSocket>> {
        self.sockets().get(worker).into_iter().flatten().map(BoundSocket::try_clone).collect()
    }

    /// Its UDP sockets.
    pub fn datagrams(&self) -> &Datagrams {
        &self.datagrams
    }

    /// Lets go of the sockets: the kernel accepts for as long as the workers hold theirs.
    pub fn close(&self) {
        self.sockets().clear();
        self.datagrams.close();
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Vec<BoundSocket>>> {
        self.sockets.lock()
    }
}

/// A listening socket at an address that the workers share.
fn shared_socket(protocols: Protocols, address: SocketAddr) -> io::Result<BoundSocket> {
    let socket = env::bind(address, true)?;
    if protocols.interception != Interception::None {
        protocols.interception.prepare(&socket)?;
    }
    Ok(socket)
}

/// A list without sockets for each of `workers`.
fn no_sockets(workers: usize) -> Vec<Vec<BoundSocket>> {
    (0..workers).map(|_| Vec::new()).collect()
}

/// Refuses an address that differs from the one of the sockets before.
fn one_address(address: &mut Option<SocketAddr>, other: SocketAddr) -> io::Result<()> {
    if *address.get_or_insert(other) == other {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "sockets of different addresses"))
}

/// All that are `wanted`: those of `inherited` that are the same, the others bound for all of `workers`.
///
/// # Errors
/// The first that cannot be bound; none is then.
pub fn bind_all(
    inherited: &[Arc<Listener>],
    wanted: &[WantedListener],
    workers: usize,
) -> Result<ListenerSet, ListenFault> {
    plan(inherited, wanted, workers).map(|plan| plan.set)
}
