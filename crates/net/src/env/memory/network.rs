//! The network in memory: the listeners, how each place is reached, how connections come about and which
//! faults happen to them. It carries bytes and understands none.

use parking_lot::{Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::connection::{LinkBehavior, MemoryConnection};
use super::executor::WORLD;
use super::random::Random;
use super::stream::{SharedConnection, Stream, lock, schedule};
use super::world::{world, world_left};
use super::{monotonic_ns, sleep_ns};

/// The first port for binds that ask for none.
const FIRST_FREE_PORT: u16 = 30_000;

/// A fault that the network caused, for tests that judge its effect.
#[derive(Clone, Debug)]
pub struct Harm {
    /// When it was over, in nanoseconds of the world's clock.
    pub until_ns: u64,
    /// The place that was to be reached.
    pub address: SocketAddr,
}

/// See the module.
pub(super) struct Network {
    random: RefCell<Random>,
    places: RefCell<BTreeMap<SocketAddr, Vec<Arc<Mutex<AcceptQueue>>>>>,
    links: RefCell<BTreeMap<SocketAddr, LinkBehavior>>,
    harms: RefCell<Vec<Harm>>,
    next_port: RefCell<u16>,
}

/// The connections that wait at one listening socket.
struct AcceptQueue {
    shared: bool,
    waiting: VecDeque<(Stream, SocketAddr)>,
    wakers: Vec<Waker>,
    holders: usize,
}

fn lock_queue(queue: &Mutex<AcceptQueue>) -> MutexGuard<'_, AcceptQueue> {
    queue.lock()
}

impl Network {
    pub(super) fn new(random: Random) -> Network {
        Network {
            random: RefCell::new(random),
            places: RefCell::default(),
            links: RefCell::default(),
            harms: RefCell::default(),
            next_port: RefCell::new(FIRST_FREE_PORT),
        }
    }

    pub(super) fn set_link(&self, address: SocketAddr, link: LinkBehavior) {
        self.links.borrow_mut().insert(address, link);
    }

    pub(super) fn harms(&self) -> Vec<Harm> {
        self.harms.borrow().clone()
    }

    /// Closes ends that no task holds any more.
    pub(super) fn clear(&self) {
        let places = std::mem::take(&mut *self.places.borrow_mut());
        for queue in places.into_values().flatten() {
            let waiting = std::mem::take(&mut lock_queue(&queue).waiting);
            drop(waiting);
        }
    }

    fn harm(&self, address: SocketAddr, until_ns: u64) {
        world().note(|| format!("network: harm to {address} until {} ms", until_ns / 1_000_000));
        self.harms.borrow_mut().push(Harm { until_ns, address });
    }

    fn free_port(&self) -> u16 {
        let mut next = self.next_port.borrow_mut();
        *next += 1;
        *next
    }

    fn queue_at(&self, address: SocketAddr) -> Option<Arc<Mutex<AcceptQueue>>> {
        let places = self.places.borrow();
        let queues = places.get(&address).filter(|queues| !queues.is_empty())?;
        Some(self.random.borrow_mut().pick(queues).clone())
    }
}

/// A bound, listening socket.
pub struct BoundSocket {
    queue: Arc<Mutex<AcceptQueue>>,
    address: SocketAddr,
}

/// Opens a listening socket; `shared` ones share their address with each other.
///
/// # Errors
/// When the address is in use.
pub fn bind(address: SocketAddr, shared: bool) -> io::Result<BoundSocket> {
    let world = world();
    let mut address = address;
    if address.port() == 0 {
        address.set_port(world.network.free_port());
    }
    let mut places = world.network.places.borrow_mut();
    let others = places.entry(address).or_default();
    if others.iter().any(|other| !shared || !lock_queue(other).shared) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let queue = AcceptQueue { shared, waiting: VecDeque::new(), wakers: Vec::new(), holders: 1 };
    let queue = Arc::new(Mutex::new(queue));
    others.push(queue.clone());
    Ok(BoundSocket { queue, address })
}

impl BoundSocket {
    /// Another hold on the same socket.
    pub fn try_clone(&self) -> io::Result<BoundSocket> {
        lock_queue(&self.queue).holders += 1;
        Ok(BoundSocket { queue: self.queue.clone(), address: self.address })
    }

    /// Its address, with the real port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        let mut queue = lock_queue(&self.queue);
        queue.holders -= 1;
        if queue.holders > 0 {
            return;
        }
        let abandoned = std::mem::take(&mut queue.waiting);
        drop(queue);
        let Some(world) = world_left() else { return };
        if let Some(others) = world.network.places.borrow_mut().get_mut(&self.address) {
            others.retain(|other| !Arc::ptr_eq(other, &self.queue));
        }
        // A connection that was not accepted is reset.
        abandoned.iter().for_each(|(stream, _)| stream.reset_on_close());
        drop(abandoned);
    }
}

impl std::fmt::Debug for BoundSocket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "listening on {}", self.address)
    }
}

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener(BoundSocket);

impl Listener {
    /// Takes over a bound, listening socket.
    pub fn attach(socket: BoundSocket) -> io::Result<Listener> {
        Ok(Listener(socket))
    }

    /// A connection that waits, whichever, and its peer's address.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        poll_fn(|cx| match self.accept_arrived() {
            Some(accepted) => Poll::Ready(Ok(accepted)),
            None => {
                lock_queue(&self.0.queue).wakers.push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Nothing: a connection that comes while a socket of the simulation closes is not lost.
    pub fn ignore_new(&self) {}

    /// A connection that waits, if there is one.
    pub fn accept_arrived(&self) -> Option<(Stream, SocketAddr)> {
        let mut queue = lock_queue(&self.0.queue);
        let index = world().executor().random().below(queue.waiting.len() as u64) as usize;
        let (stream, peer) = queue.waiting.swap_remove_back(index)?;
        drop(queue);
        Some((Stream::attach(stream).ok()?, peer))
    }
}

/// Opens a connection from an arbitrary address.
pub async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let port = world().network.free_port();
    connect_from(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), port), address).await
}

/// Opens a connection from `local`.
pub async fn connect_from(local: SocketAddr, address: SocketAddr) -> io::Result<Stream> {
    let (link, mut random) = {
        let world = world();
        let link = world.network.links.borrow().get(&address).cloned().unwrap_or_default();
        (link, world.network.random.borrow_mut().fork())
    };
    if random.chance(link.hang_percent) {
        world().network.harm(address, monotonic_ns());
        std::future::pending::<()>().await;
    }
    sleep_ns(random.between(link.latency_ns.0, link.latency_ns.1)).await;
    if random.chance(link.refuse_percent) {
        world().network.harm(address, monotonic_ns());
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let world = world();
    let Some(queue) = world.network.queue_at(address) else {
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    let id = world.executor().next_id();
    let doom = Doom::draw(&link, &mut random);
    let owners = [world.group(), WORLD];
    let connection = MemoryConnection::new(id, random, link, [local, address], owners);
    let shared: SharedConnection = Arc::new(Mutex::new(connection));
    if let Some(doom) = doom {
        doom.befall(id, address, &shared);
    }
    let mut queue = lock_queue(&queue);
    queue.waiting.push_back((Stream::new(shared.clone(), 1), local));
    queue.wakers.drain(..).for_each(Waker::wake);
    Ok(Stream::new(shared, 0))
}

/// The treatment of a connection by the network.
enum Doom {
    Reset { after_ns: u64 },
    Stall { after_ns: u64, for_ns: u64 },
}

impl Doom {
    fn draw(link: &LinkBehavior, random: &mut Random) -> Option<Doom> {
        let after_ns = random.below(link.harm_within_ns);
        let for_ns = random.between(link.stall_ns.0, link.stall_ns.1);
        if random.chance(link.reset_percent) {
            Some(Doom::Reset { after_ns })
        } else if random.chance(link.stall_percent) {
            Some(Doom::Stall { after_ns, for_ns })
        } else {
            None
        }
    }

    fn befall(self, id: u64, address: SocketAddr, shared: &SharedConnection) {
        let now_ns = monotonic_ns();
        let shared = shared.clone();
        match self {
            Doom::Reset { after_ns } => {
                world().at((now_ns + after_ns, id * 4), move || reset(&shared, address))
            }
            Doom::Stall { after_ns, for_ns } => {
                world().at((now_ns + after_ns, id * 4), move || stall(&shared, address, for_ns));
            }
        }
    }
}

fn reset(shared: &SharedConnection, address: SocketAddr) {
    let mut connection = lock(shared);
    if connection.is_over() {
        return;
    }
    let mut wakers = Vec::new();
    world().note(|| format!("network: connection {} is reset", connection.id));
    connection.break_now(&mut wakers);
    schedule(shared, &mut connection);
    drop(connection);
    let now_ns = monotonic_ns();
    world().network.harm(address, now_ns);
    wakers.into_iter().for_each(Waker::wake);
}

fn stall(shared: &SharedConnection, address: SocketAddr, for_ns: u64) {
    let mut connection = lock(shared);
    if connection.is_over() {
        return;
    }
    world().note(|| format!("network: connection {} stalls", connection.id));
    let now_ns = monotonic_ns();
    connection.stall(now_ns, now_ns + for_ns);
    drop(connection);
    world().network.harm(address, now_ns + for_ns);
}
