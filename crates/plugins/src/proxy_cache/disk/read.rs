//! The body of an entry on disk while it is sent.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use exchange::plugin::ReplyStream;
use tokio::sync::oneshot;

use super::DiskFile;

/// Bytes that are read at once.
pub(in super::super) const PIECE_BYTES: usize = 64 * 1024;

/// See the module.
pub(in super::super) struct DiskBody {
    file: Arc<DiskFile>,
    open: Option<Arc<File>>,
    left: Range<u64>,
    /// A piece that a thread reads.
    awaited: Option<oneshot::Receiver<io::Result<Vec<u8>>>>,
}

impl DiskBody {
    /// The bytes `part` of the body.
    pub(in super::super) fn new(file: Arc<DiskFile>, open: Option<Arc<File>>, part: Range<u64>) -> DiskBody {
        DiskBody { file, open, left: part, awaited: None }
    }

    fn take(&mut self, read: io::Result<Vec<u8>>) -> Poll<Option<Result<Vec<u8>, String>>> {
        Poll::Ready(Some(match read {
            Ok(piece) if piece.is_empty() => {
                self.file.store.failed("read a file to its end", &"it was cut");
                Err("the stored body was cut".to_owned())
            }
            Ok(piece) => {
                self.left.start += piece.len() as u64;
                Ok(piece)
            }
            Err(error) => {
                self.file.store.failed("read a file", &error);
                Err("the stored body cannot be read".to_owned())
            }
        }))
    }
}

impl ReplyStream for DiskBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, String>>> {
        if let Some(awaited) = &mut self.awaited {
            let Poll::Ready(read) = Pin::new(awaited).poll(cx) else { return Poll::Pending };
            self.awaited = None;
            return self.take(read.unwrap_or_else(|_| Err(io::Error::other("its thread has ended"))));
        }
        let length = (self.left.end - self.left.start).min(PIECE_BYTES as u64) as usize;
        if length == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; length];
        if let Some(open) = &self.open
            && let Some(read) = self.file.read_cached(open, self.left.start, &mut piece)
        {
            return self.take(read.map(|count| {
                piece.truncate(count);
                piece
            }));
        }
        let (reply, awaited) = oneshot::channel();
        let (file, open) = (self.file.clone(), self.open.clone());
        let at = file.body_offset + self.left.start;
        self.file.store.read(move || {
            let open = open.map_or_else(|| file.open(), Ok);
            let read = open.and_then(|open| open.read_at(&mut piece, at)).map(|count| {
                piece.truncate(count);
                piece
            });
            // The client may have gone meanwhile.
            let _ = reply.send(read);
        });
        self.awaited = Some(awaited);
        self.poll_piece(cx)
    }
}

impl DiskFile {
    /// Opens the file on a thread that may wait for the disk.
    ///
    /// # Errors
    /// It is gone or damaged.
    pub(in super::super) async fn open_aside(self: &Arc<Self>) -> io::Result<Arc<File>> {
        let (reply, opened) = oneshot::channel();
        let file = self.clone();
        self.store.read(move || {
            let _ = reply.send(file.open());
        });
        let opened = opened.await.unwrap_or_else(|_| Err(io::Error::other("its thread has ended")));
        if let Err(error) = &opened {
            self.store.failed("open a file", error);
        }
        opened
    }
}
