//! The endpoints behind a gateway under test: origins in this process. Their conditions are switched while
//! they serve. One thread serves all of them. They record every request; they do not judge the traffic.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use peer::head;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;

use super::arrivals::Arrivals;
use crate::process::cores;

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum EndpointCondition {
    /// It answers after [`SERVICE`].
    #[default]
    Healthy,
    /// Its port is closed and its connections were reset.
    Dead,
    /// It takes connections and requests and answers none until its condition changes.
    Hung,
    /// It answers everything with 500.
    Failing,
    /// It answers after [`SLOWNESS`] times [`SERVICE`].
    Slow,
    /// Its port is closed; requests in flight are answered and their connections then closed.
    Stopped,
}

impl EndpointCondition {
    fn listens(self) -> bool {
        !matches!(self, EndpointCondition::Dead | EndpointCondition::Stopped)
    }
}

/// Running endpoints; they end when this is dropped.
#[derive(Debug)]
pub(super) struct EndpointSet {
    endpoints: Vec<TestEndpoint>,
    /// Ends the thread when it is dropped.
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct TestEndpoint {
    address: SocketAddr,
    condition: watch::Sender<EndpointCondition>,
    arrivals: Arc<Arrivals>,
}

/// The part of an endpoint that its tasks need.
#[derive(Clone, Debug)]
struct EndpointService {
    condition: watch::Receiver<EndpointCondition>,
    arrivals: Arc<Arrivals>,
}

impl EndpointSet {
    /// Starts this many healthy endpoints, with room to record `length` from now on. They run on these cores,
    /// on all if none is named. Fails if an address cannot be bound.
    pub(super) fn start(count: u8, length: Duration, on: &[usize]) -> anyhow::Result<EndpointSet> {
        let began = Instant::now();
        let (mut endpoints, mut services) = (Vec::new(), Vec::new());
        for number in 1..=count {
            // An address of their own, because a port of 127.0.0.1 that is closed for a while may become the
            // local port of a connection.
            let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), 0));
            let listener =
                listen(address).with_context(|| format!("no port for an endpoint at {address}"))?;
            let address = listener.local_addr()?;
            let (condition, seen) = watch::channel(EndpointCondition::Healthy);
            let arrivals = Arc::new(Arrivals::new(began, length));
            let service = EndpointService { condition: seen, arrivals: Arc::clone(&arrivals) };
            services.push((service, address, listener));
            endpoints.push(TestEndpoint { address, condition, arrivals });
        }
        let (stop, stopped) = watch::channel(());
        let on = on.to_vec();
        let thread = thread::Builder::new()
            .name("endpoints".to_owned())
            .spawn(move || serve_all(services, stopped, &on))
            .context("the endpoints have no thread")?;
        Ok(EndpointSet { endpoints, stop: Some(stop), thread: Some(thread) })
    }

    /// Their addresses.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.endpoints.iter().map(|endpoint| endpoint.address).collect()
    }

    /// Switches an endpoint's condition.
    pub(super) fn switch(&self, number: usize, condition: EndpointCondition) {
        self.endpoints[number].condition.send_replace(condition);
    }

    /// The requests that each endpoint received, health checks excluded.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = &Arrivals> {
        self.endpoints.iter().map(|endpoint| &*endpoint.arrivals)
    }
}

impl Drop for EndpointSet {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported on standard error, and has shown as failed requests.
            let _ = thread.join();
        }
    }
}

/// The thread of all endpoints.
fn serve_all(
    services: Vec<(EndpointService, SocketAddr, std::net::TcpListener)>,
    mut stopped: watch::Receiver<()>,
    on: &[usize],
) {
    if !on.is_empty() {
        // Ignored, because endpoints that are not pinned serve as well.
        let _ = cores::pin(on);
    }
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default());
    // Without an event loop no endpoint answers, which the check of the gateway's start reports.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        for (service, address, listener) in services {
            spawn_local(serve(service, address, listener));
        }
        // An error means that the sender was dropped, which is the end.
        while stopped.changed().await.is_ok() {}
    });
}

/// One endpoint: listens as long as its condition says so.
async fn serve(mut service: EndpointService, address: SocketAddr, first: std::net::TcpListener) {
    let mut bound = Some(first);
    loop {
        let listener = match bound.take().map_or_else(|| listen(address), Ok).and_then(TcpListener::from_std)
        {
            Ok(listener) => listener,
            // Another program took the port meanwhile; it is tried again until it is free.
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while service.condition.borrow_and_update().listens() {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => drop(spawn_local(connection(service.clone(), stream))),
                    // No descriptors, or a connection that was reset in the queue.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                changed = service.condition.changed() => if changed.is_err() { return },
            }
        }
        drop(listener);
        if service.condition.wait_for(|condition| condition.listens()).await.is_err() {
            return;
        }
    }
}

/// One connection: a request after another until the client or the endpoint's condition ends it.
async fn connection(mut service: EndpointService, mut stream: TcpStream) {
    // Without TCP_NODELAY a response may wait for an acknowledgement. A failure only costs time.
    let _ = stream.set_nodelay(true);
    let (mut input, mut filled) = (vec![0; INPUT_BYTES], 0);
    loop {
        let read = tokio::select! {
            read = stream.read(&mut input[filled..]) => read,
            () = closed(&mut service.condition, filled == 0) => return leave(&service, &stream),
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(bytes) => filled += bytes,
        }
        while let Ok(Some(head)) = head::parse(&input[..filled], head::request_line) {
            let (used, keeps) = (head.bytes, head.facts.keeps_alive(head.line.is_1_1));
            if !head.line.target.starts_with(CHECK_PATH) {
                service.arrivals.count(Instant::now());
            }
            let status = tokio::select! {
                status = work(service.condition.clone()) => status,
                () = died(&mut service.condition) => return leave(&service, &stream),
            };
            let is_last = !keeps || !service.condition.borrow().listens();
            if stream.write_all(response(status, is_last)).await.is_err() || is_last {
                return;
            }
            input.copy_within(used..filled, 0);
            filled -= used;
        }
        if filled == input.len() {
            return;
        }
    }
}

/// Takes the time of a request; returns the status of its response.
async fn work(mut condition: watch::Receiver<EndpointCondition>) -> u16 {
    // The sender ends with the endpoints, so that an error needs no answer.
    let _ = condition.wait_for(|condition| *condition != EndpointCondition::Hung).await;
    let now = *condition.borrow();
    tokio::time::sleep(if now == EndpointCondition::Slow { SERVICE * SLOWNESS } else { SERVICE }).await;
    if now == EndpointCondition::Failing { 500 } else { 200 }
}

/// Returns when the endpoint died.
async fn died(condition: &mut watch::Receiver<EndpointCondition>) {
    let _ = condition.wait_for(|condition| *condition == EndpointCondition::Dead).await;
}

/// Returns when a connection ends by its endpoint's condition; one without a request in flight ends with its
/// listener.
async fn closed(condition: &mut watch::Receiver<EndpointCondition>, is_idle: bool) {
    let is_closed = |condition: &EndpointCondition| {
        *condition == EndpointCondition::Dead || (is_idle && *condition == EndpointCondition::Stopped)
    };
    let _ = condition.wait_for(is_closed).await;
}

/// Closes a connection of an endpoint that ends: with a reset if it died.
fn leave(service: &EndpointService, stream: &TcpStream) {
    if *service.condition.borrow() == EndpointCondition::Dead {
        // A failure closes it in order, which a gateway sees as an error as well.
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // The connections of a closed port are still in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn response(status: u16, is_last: bool) -> &'static [u8] {
    match (status, is_last) {
        (200, false) => b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\nchecked-out response.",
        (200, true) => {
            b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\nConnection: close\r\n\r\nchecked-out response."
        }
        (_, false) => b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 7\r\n\r\nfailed.",
        (_, true) => {
            b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 7\r\nConnection: close\r\n\r\nfailed."
        }
    }
}

/// Time of a healthy endpoint for a request. The timer rounds it up by a millisecond at most.
pub(super) const SERVICE: Duration = Duration::from_millis(2);
/// A slow endpoint takes this many times [`SERVICE`].
pub(super) const SLOWNESS: u32 = 10;
/// The path of health checks, which are not counted as traffic.
pub(super) const CHECK_PATH: &[u8] = b"/health";
/// Largest head of a request; a connection with a larger one is closed.
const INPUT_BYTES: usize = 8 * 1024;
/// As many connections as a gateway may open at once; the kernel lowers it to `somaxconn`.
const BACKLOG: i32 = 4096;
/// Pause between two attempts at a port or at accepting.
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
