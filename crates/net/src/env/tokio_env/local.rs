//! Streams over Unix sockets, to processes of this machine.

use std::io;
use std::path::Path;
use std::task::{Context, Poll, ready};

use tokio::net::UnixStream;

/// A connected stream over a Unix socket.
#[derive(Debug)]
pub struct LocalStream(UnixStream);

/// Opens a connection to the socket at `path`.
///
/// # Errors
/// The kernel's: there is no socket, no process listens, or its queue is full
/// ([`io::ErrorKind::WouldBlock`]).
pub async fn connect_local(path: &Path) -> io::Result<LocalStream> {
    UnixStream::connect(path).await.map(LocalStream)
}

impl LocalStream {
    /// The id of the process that listens at the socket; none if this process cannot see it.
    pub fn peer_process(&self) -> Option<u32> {
        let id = self.0.peer_cred().ok()?.pid()?;
        u32::try_from(id).ok().filter(|id| *id > 0)
    }

    /// Reads into `room`; 0 bytes mean that the peer has closed its side.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.0.try_read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.0.poll_read_ready(cx))?;
        }
    }

    /// Writes from `data`.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.0.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.0.poll_write_ready(cx))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::env::block_on;

    #[test]
    fn stream_knows_its_peer_and_ends() {
        let folder = std::env::temp_dir().join(format!("weir-local-{}", std::process::id()));
        let listener = UnixListener::bind(&folder).unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = [0; 4];
            stream.read_exact(&mut read).unwrap();
            stream.write_all(&read).unwrap();
        });
        block_on(async {
            let mut stream = connect_local(&folder).await.unwrap();
            assert_eq!(stream.peer_process(), Some(std::process::id()));
            assert_eq!(poll_fn(|cx| stream.poll_write(cx, b"ping")).await.unwrap(), 4);
            let mut room = [0; 8];
            assert_eq!(poll_fn(|cx| stream.poll_read(cx, &mut room)).await.unwrap(), 4);
            assert_eq!(&room[..4], b"ping");
            assert_eq!(poll_fn(|cx| stream.poll_read(cx, &mut room)).await.unwrap(), 0, "closed");
        })
        .unwrap();
        peer.join().unwrap();
        std::fs::remove_file(&folder).unwrap();
        let gone = block_on(connect_local(&folder)).unwrap();
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
