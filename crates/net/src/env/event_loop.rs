//! The event loop of a thread as other threads see it, and the end of its connections from outside, for a
//! thread that no longer turns it. The kernel tells which descriptors a loop waits for (proc(5),
//! `/proc/PID/fdinfo`), so that nothing has to be noted while connections come and go. It knows neither
//! workers nor requests.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, Shutdown, SocketType};

/// Where other threads find the event loop of a thread.
#[derive(Debug)]
pub struct LoopPlace(AtomicI32);

/// No event loop has begun here.
const NOWHERE: RawFd = -1;

impl Default for LoopPlace {
    fn default() -> LoopPlace {
        LoopPlace(AtomicI32::new(NOWHERE))
    }
}

/// Marks an event loop as that of a place while this value lives. It is a socket without an address that the
/// loop waits for.
#[derive(Debug)]
pub struct LoopMark<'p> {
    place: &'p LoopPlace,
    _socket: tokio::net::UnixDatagram,
}

impl LoopPlace {
    /// Marks the event loop of the calling thread.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn mark(&self) -> io::Result<LoopMark<'_>> {
        let socket = tokio::net::UnixDatagram::unbound()?;
        self.0.store(socket.as_raw_fd(), Ordering::Release);
        Ok(LoopMark { place: self, _socket: socket })
    }

    /// Ends every connection over TCP that the event loop waits for, and tells how many. Peers see a reset,
    /// never an orderly end, because a response without a length would look whole. Sockets that connections
    /// are accepted on are left alone.
    ///
    /// The thread may go on at any moment. Each descriptor is therefore duplicated first, and ended only if
    /// the duplicate is the socket that the kernel has listed: a number that was closed and given out again
    /// is another socket.
    ///
    /// # Errors
    /// No loop is marked, or `/proc` cannot be read.
    pub fn end_connections(&self) -> io::Result<usize> {
        let mark = self.0.load(Ordering::Acquire);
        let entries = entries_with(mark)?;
        let mut ended = 0;
        for entry in entries.iter().filter(|entry| entry.descriptor != mark) {
            if let Some(socket) = entry.duplicate()
                && is_connection(socket.as_fd())
                && end(socket.as_fd()).is_ok()
            {
                ended += 1;
            }
        }
        Ok(ended)
    }
}

impl Drop for LoopMark<'_> {
    fn drop(&mut self) {
        self.place.0.store(NOWHERE, Ordering::Release);
    }
}

/// A descriptor that an event loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WatchedDescriptor {
    descriptor: RawFd,
    inode: u64,
}

impl WatchedDescriptor {
    /// Another descriptor of the same file; none if the number is another file by now.
    #[allow(unsafe_code)]
    fn duplicate(self) -> Option<OwnedFd> {
        // SAFETY: the number is borrowed for this call only. If it is closed meanwhile, the call fails or
        // duplicates another file, which the comparison below finds and closes again.
        let borrowed = unsafe { BorrowedFd::borrow_raw(self.descriptor) };
        let own = rustix::io::fcntl_dupfd_cloexec(borrowed, FIRST_DUPLICATE).ok()?;
        let is_same = rustix::fs::fstat(&own).is_ok_and(|found| found.st_ino == self.inode);
        is_same.then_some(own)
    }
}

/// The lowest number of a duplicate, behind the standard streams.
const FIRST_DUPLICATE: RawFd = 3;

/// The entries of the event loop that waits for the descriptor `mark`.
fn entries_with(mark: RawFd) -> io::Result<Vec<WatchedDescriptor>> {
    for file in fs::read_dir("/proc/self/fd")? {
        let Ok(file) = file else { continue };
        let is_loop =
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[eventpoll]");
        if !is_loop {
            continue;
        }
        let Ok(text) = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.file_name().display())) else {
            continue;
        };
        let entries: Vec<WatchedDescriptor> = text.lines().filter_map(entry).collect();
        let marked = entries.iter().find(|entry| entry.descriptor == mark);
        if marked.is_some_and(|marked| inode_of(mark) == Some(marked.inode)) {
            return Ok(entries);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "the event loop is not found in /proc/self/fdinfo"))
}

fn inode_of(descriptor: RawFd) -> Option<u64> {
    Some(fs::metadata(format!("/proc/self/fd/{descriptor}")).ok()?.ino())
}

/// Reads a line such as `tfd: 5 events: 1d data: 0 pos:0 ino:61af sdev:7`.
fn entry(line: &str) -> Option<WatchedDescriptor> {
    let descriptor = line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok()?;
    let inode = line.split_whitespace().find_map(|word| word.strip_prefix("ino:"))?;
    Some(WatchedDescriptor { descriptor, inode: u64::from_str_radix(inode, 16).ok()? })
}

/// Whether it is a connection over TCP. Sockets of Unix are left alone: the runtime waits for one that all of
/// its event loops in this process share.
fn is_connection(socket: BorrowedFd<'_>) -> bool {
    let is_of_ip = |domain| matches!(domain, AddressFamily::INET | AddressFamily::INET6);
    socket_domain(socket).is_ok_and(is_of_ip)
        && socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM)
        && socket_acceptconn(socket) == Ok(false)
}

/// Ends a connection by a reset, which dissolving the association sends (connect(2), AF_UNSPEC).
fn end(socket: BorrowedFd<'_>) -> io::Result<()> {
    if rustix::net::connect_unspec(socket).is_ok() {
        return Ok(());
    }
    Ok(rustix::net::shutdown(socket, Shutdown::Both)?)
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "tfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:61af sdev:7";
        assert_eq!(entry(line), Some(WatchedDescriptor { descriptor: 5, inode: 0x61af }));
        for other in ["pos:\t0", "flags:\t02000002", "tfd: x events: 1", "tfd: 5 events: 1 data: 0", ""] {
            assert_eq!(entry(other), None, "{other}");
        }
    }

    #[test]
    fn descriptor_of_another_file_is_not_ended() {
        let (one, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let inode = |socket: &TcpListener| inode_of(socket.as_raw_fd()).unwrap();
        let entry = |inode| WatchedDescriptor { descriptor: one.as_raw_fd(), inode };
        assert!(entry(inode(&one)).duplicate().is_some());
        assert!(entry(inode(&other)).duplicate().is_none());
    }

    #[test]
    fn connections_of_a_standing_loop_are_reset() {
        let place = Arc::new(LoopPlace::default());
        assert!(place.end_connections().is_err(), "no loop is marked");
        let (ready, is_ready) = channel();
        let (go_on, standing) = channel::<()>();
        let loops = place.clone();
        let thread = std::thread::spawn(move || {
            crate::env::block_on(async {
                let _mark = loops.mark().unwrap();
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let client = TcpStream::connect(address).unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                ready.send((address, client)).unwrap();
                // The loop stands.
                standing.recv().unwrap();
                drop((listener, stream));
            })
            .unwrap();
        });
        let (address, mut client) = is_ready.recv().unwrap();
        let (mut foreign, far_end) = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0)
        };
        assert_eq!(place.end_connections().unwrap(), 1);
        let end = client.read(&mut [0]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
        assert!(TcpStream::connect(address).is_ok(), "it still listens");
        foreign.write_all(b"x").unwrap();
        (&far_end).read_exact(&mut [0]).unwrap();
        go_on.send(()).unwrap();
        thread.join().unwrap();
        assert!(place.end_connections().is_err(), "the mark has gone");
    }
}
