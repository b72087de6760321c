//! One connection, as used by an event loop: its socket is on this loop, or on another one that exchanges the
//! bytes over channels. It knows neither which of the two was chosen nor the meaning of the bytes.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::buffers::{Buffer, Buffers};

/// Pieces in flight between two loops, each way: 256 KiB, as much as a socket holds. A full channel makes its
/// sender wait.
const PIECES_UNDER_WAY: usize = 16;

/// Where bytes come from.
#[derive(Debug)]
pub(super) enum LinkReader {
    Here(OwnedReadHalf, Buffers),
    There(mpsc::Receiver<io::Result<Buffer>>),
}

/// Where bytes go.
#[derive(Debug)]
pub(super) enum LinkWriter {
    Here(OwnedWriteHalf),
    There(mpsc::Sender<Buffer>),
}

impl LinkReader {
    /// The next bytes; `None` at the end.
    pub(super) async fn read(&mut self) -> io::Result<Option<Buffer>> {
        match self {
            Self::Here(socket, buffers) => buffers.read(socket).await,
            Self::There(pieces) => pieces.recv().await.transpose(),
        }
    }

    /// Whether nothing has arrived, not even the end: only such a connection can be used again.
    pub(super) fn is_quiet(&mut self) -> bool {
        match self {
            Self::Here(socket, _) => {
                matches!(socket.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            Self::There(pieces) => matches!(pieces.try_recv(), Err(mpsc::error::TryRecvError::Empty)),
        }
    }
}

impl LinkWriter {
    /// Writes all of it, or hands it to the other loop to be written.
    pub(super) async fn write(&mut self, buffer: Buffer) -> io::Result<()> {
        match self {
            Self::Here(socket) => socket.write_all(&buffer).await,
            Self::There(pieces) => {
                pieces.send(buffer).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
            }
        }
    }

    /// Announces the end of this direction; the other direction stays open.
    pub(super) async fn finish(self) -> io::Result<()> {
        match self {
            Self::Here(mut socket) => socket.shutdown().await,
            Self::There(pieces) => {
                // The loop with the socket ends its direction when the last piece was written.
                drop(pieces);
                Ok(())
            }
        }
    }
}

/// The halves of a connection with its socket on this loop.
pub(super) fn here(stream: TcpStream, buffers: Buffers) -> io::Result<(LinkReader, LinkWriter)> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok((LinkReader::Here(reader, buffers), LinkWriter::Here(writer)))
}

/// Connects to the origin from this loop.
pub(super) async fn connect_upstream(
    origin: SocketAddr,
    buffers: Buffers,
) -> io::Result<(LinkReader, LinkWriter)> {
    here(TcpStream::connect(origin).await?, buffers)
}

/// Keeps the connection on this loop; the returned halves may be used on any other.
pub(super) fn lend((reader, writer): (LinkReader, LinkWriter)) -> (LinkReader, LinkWriter) {
    let (to_other, from_here) = mpsc::channel(PIECES_UNDER_WAY);
    let (to_here, from_other) = mpsc::channel(PIECES_UNDER_WAY);
    tokio::spawn(carry_out(reader, to_other));
    tokio::spawn(carry_in(from_other, writer));
    (LinkReader::There(from_here), LinkWriter::There(to_here))
}

/// Sends the bytes of the socket to the other loop, until the end, a fault, or until that loop drops its
/// receiver.
async fn carry_out(mut reader: LinkReader, pieces: mpsc::Sender<io::Result<Buffer>>) {
    loop {
        let read = tokio::select! {
            read = reader.read() => read,
            () = pieces.closed() => return,
        };
        let Some(read) = read.transpose() else { return };
        let is_fault = read.is_err();
        if pieces.send(read).await.is_err() || is_fault {
            return;
        }
    }
}

/// Writes the bytes of the other loop to the socket. If a write fails, the end of the channel tells the other
/// loop.
async fn carry_in(mut pieces: mpsc::Receiver<Buffer>, mut writer: LinkWriter) {
    while let Some(piece) = pieces.recv().await {
        if writer.write(piece).await.is_err() {
            return;
        }
    }
    // The origin may be gone already; a failure needs no report.
    let _ = writer.finish().await;
}
