//! A TCP relay that can be interrupted: it then passes no byte on and closes no connection, as in a network
//! failure.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A relay to one address; it ends with the process of the test.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Relay {
    /// Listens on a free port and relays every connection to `target`.
    pub fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let is_cut = Arc::new(AtomicBool::new(false));
        let line = Arc::clone(&is_cut);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let line = Arc::clone(&line);
                thread::spawn(move || carry(client, target, &line));
            }
        });
        Relay { address, is_cut }
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Interrupts all connections.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Ends the interruption; delayed bytes are passed on first.
    pub fn restore(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }
}

fn carry(client: TcpStream, target: SocketAddr, is_cut: &Arc<AtomicBool>) {
    wait_while_cut(is_cut);
    let Ok(server) = TcpStream::connect(target) else { return };
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let line = Arc::clone(is_cut);
    thread::spawn(move || pump(from_client, to_server, &line));
    pump(server, client, is_cut);
}

fn pump(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait_while_cut(is_cut);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    wait_while_cut(is_cut);
    // The error of a peer that has closed already does not matter.
    let _ = to.shutdown(Shutdown::Write);
}

fn wait_while_cut(is_cut: &AtomicBool) {
    while is_cut.load(Ordering::Relaxed) {
        thread::sleep(POLL);
    }
}

const BUFFER_BYTES: usize = 64 * 1024;
/// Interval of checking whether the interruption has ended.
const POLL: Duration = Duration::from_millis(5);
