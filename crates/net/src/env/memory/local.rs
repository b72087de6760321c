//! Streams over Unix sockets: the simulated world has no processes, so that a connection is always refused.

use std::io;
use std::path::Path;
use std::task::{Context, Poll};

/// A stream that cannot exist.
#[derive(Debug)]
pub enum LocalStream {}

/// Fails as where there is no such socket.
///
/// # Errors
/// [`io::ErrorKind::NotFound`], always.
pub async fn connect_local(_path: &Path) -> io::Result<LocalStream> {
    Err(io::ErrorKind::NotFound.into())
}

impl LocalStream {
    /// Never called.
    pub fn peer_process(&self) -> Option<u32> {
        match *self {}
    }

    /// Never called.
    pub fn poll_read(&mut self, _cx: &mut Context<'_>, _room: &mut [u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    /// Never called.
    pub fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }
}
