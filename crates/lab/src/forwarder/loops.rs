//! The event loops: one thread each with a runtime of its own, and the choice of the loop for the next
//! upstream connection. It knows how loops reach each other and nothing about forwarding.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use super::layer7::UpstreamLink;
use super::link::{self, LinkReader, LinkWriter};
use super::{ForwarderSettings, Layer, Model, layer4, layer7};

/// Connections that wait to be accepted; the kernel takes no more than its own limit.
const BACKLOG: i32 = 4096;
/// How long a loop that is out of descriptors waits before it accepts again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Idle connections to the origin that one loop keeps; more than the widest scenario asks for at once.
const MOST_IDLE: usize = 1024;

/// A forwarder that runs; its threads never end.
#[derive(Debug)]
pub struct RunningForwarder {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its threads.
    pub threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

/// The loop of a connection, as seen from the asking loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LoopLocation {
    Here,
    There(usize),
}

type Halves = (LinkReader, LinkWriter);

/// State that all loops share.
#[derive(Debug)]
pub(super) struct Loops {
    pub(super) settings: ForwarderSettings,
    /// Sends each carrying loop the request for a connection.
    carriers: Vec<mpsc::UnboundedSender<oneshot::Sender<io::Result<Halves>>>>,
    /// Idle connections on the loop of this number, which only that loop uses.
    idle_here: Vec<Mutex<Vec<UpstreamLink>>>,
    /// Idle connections that the carrier of this number carries.
    idle_there: Vec<Mutex<Vec<UpstreamLink>>>,
    next: AtomicUsize,
}

impl Loops {
    /// The place of the next connection for a client on loop `me`.
    pub(super) fn place(&self, me: usize) -> LoopLocation {
        if self.settings.model == Model::SameLoop {
            return LoopLocation::Here;
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.settings.workers;
        if self.settings.model == Model::SharedPool && turn == me {
            LoopLocation::Here
        } else {
            LoopLocation::There(turn)
        }
    }

    /// A new connection to the origin.
    pub(super) async fn connect(&self, place: LoopLocation) -> io::Result<Halves> {
        let gone = || io::Error::other("an event loop has ended");
        match place {
            LoopLocation::Here => link::connect_upstream(self.settings.origin, self.settings.buffers).await,
            LoopLocation::There(carrier) => {
                let (reply, answer) = oneshot::channel();
                self.carriers[carrier].send(reply).map_err(|_| gone())?;
                answer.await.map_err(|_| gone())?
            }
        }
    }

    /// An idle connection of that place, if one is still open.
    pub(super) fn idle(&self, me: usize, place: LoopLocation) -> Option<UpstreamLink> {
        let mut idle = self.idle_of(me, place).lock().expect("nothing panics with the lock");
        while let Some(mut upstream) = idle.pop() {
            if upstream.source.is_quiet() {
                return Some(upstream);
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(&self, me: usize, upstream: UpstreamLink) {
        let mut idle = self.idle_of(me, upstream.place).lock().expect("nothing panics with the lock");
        if idle.len() < MOST_IDLE {
            idle.push(upstream);
        }
    }

    fn idle_of(&self, me: usize, place: LoopLocation) -> &Mutex<Vec<UpstreamLink>> {
        match place {
            LoopLocation::Here => &self.idle_here[me],
            LoopLocation::There(carrier) => &self.idle_there[carrier],
        }
    }
}

/// Starts all threads. Fails when the address cannot be listened on.
pub fn start_forwarder(settings: ForwarderSettings) -> anyhow::Result<RunningForwarder> {
    let count = settings.workers;
    let mut listeners = vec![listen(settings.listen).context("choose another address with --listen")?];
    let address = listeners[0].local_addr()?;
    for _ in 1..count {
        listeners.push(listen(address)?);
    }
    let carrying = if settings.model == Model::SameLoop { 0 } else { count };
    let (carriers, orders): (Vec<_>, Vec<_>) = (0..carrying).map(|_| mpsc::unbounded_channel()).unzip();
    let idle = || (0..count).map(|_| Mutex::default()).collect();
    let (idle_here, idle_there) = (idle(), idle());
    let loops = Arc::new(Loops { settings, carriers, idle_here, idle_there, next: AtomicUsize::new(0) });
    let mut orders: Vec<_> = orders.into_iter().map(Some).collect();
    let mut threads = Vec::new();
    for (number, listener) in listeners.into_iter().enumerate() {
        // With one pool, the accepting loops carry connections as well.
        let own = (settings.model == Model::SharedPool).then(|| orders[number].take()).flatten();
        let loops = Arc::clone(&loops);
        threads.push(thread(format!("loop-{number}"), async move {
            if let Some(own) = own {
                tokio::spawn(carry(own, settings));
            }
            accept(listener, number, loops).await
        })?);
    }
    for (number, orders) in orders.into_iter().flatten().enumerate() {
        threads.push(thread(format!("carrier-{number}"), async move {
            carry(orders, settings).await;
            Ok(())
        })?);
    }
    Ok(RunningForwarder { address, threads })
}

fn thread(
    name: String,
    work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    Ok(thread::Builder::new().name(name).spawn(move || runtime.block_on(work))?)
}

fn listen(address: SocketAddr) -> anyhow::Result<std::net::TcpListener> {
    let bound = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        io::Result::Ok(socket.into())
    };
    bound().with_context(|| format!("cannot listen on {address}"))
}

/// Opens connections for other loops and carries them.
async fn carry(
    mut orders: mpsc::UnboundedReceiver<oneshot::Sender<io::Result<Halves>>>,
    settings: ForwarderSettings,
) {
    while let Some(reply) = orders.recv().await {
        tokio::spawn(async move {
            let halves = link::connect_upstream(settings.origin, settings.buffers).await.map(link::lend);
            // The asking task may have ended meanwhile, which drops the connection.
            let _ = reply.send(halves);
        });
    }
}

/// Accepts for ever, each connection a task of this loop.
async fn accept(listener: std::net::TcpListener, me: usize, loops: Arc<Loops>) -> anyhow::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                tokio::spawn(serve(stream, address, me, Arc::clone(&loops)));
            }
            // No descriptor is left, or the client left before it was accepted.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, address: SocketAddr, me: usize, loops: Arc<Loops>) {
    let Ok(client) = link::here(stream, loops.settings.buffers) else { return };
    match loops.settings.layer {
        // The connection is over in either case, and a fault needs no report.
        Layer::Four => drop(layer4::serve_layer4(client, me, &loops).await),
        Layer::Seven => layer7::serve_layer7(client, address.ip(), me, &loops).await,
    }
}
