//! One session with a server of ZooKeeper: the connection, its greeting, frames in and out, and pings. It
//! does not know the meaning of replies.

use std::time::Duration;

use model::outbound::OutboundPolicy;
use outbound::connect::connect_tcp;
use outbound::tls::Io;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, timeout, timeout_at};

use super::ZooKeeperServer;
use super::wire::{self, HEAD_BYTES, MAX_DROPPED_BYTES, MAX_FRAME_BYTES, ZooKeeperFrame, ZooKeeperRequest};
use crate::http::TlsSettings;

/// The connection below a session: TCP, or TLS over it.
type ZooKeeperStream = Box<dyn Io>;

/// How sessions are opened.
pub(super) struct ZooKeeperSessionOptions<'a> {
    pub(super) policy: &'a OutboundPolicy,
    /// None: plain TCP.
    pub(super) tls: Option<&'a TlsSettings>,
    /// The scheme and the credentials.
    pub(super) credentials: Option<&'a (String, String)>,
    /// For the connection and its session.
    pub(super) connect_timeout: Duration,
    /// The timeout of the session that the server is asked for.
    pub(super) session_timeout: Duration,
}

/// An open session. It ends with the connection.
pub(super) struct ZooKeeperSession {
    reader: FrameReader,
    writer: WriteHalf<ZooKeeperStream>,
    /// The interval of pings, and the longest silence of the server.
    ping_interval: Duration,
    silence_limit: Duration,
    next_ping: Instant,
    last_frame: Instant,
}

/// Reads frames; a read that is dropped in the middle of a frame is continued by the next one.
struct FrameReader {
    stream: BufReader<ReadHalf<ZooKeeperStream>>,
    /// The length of the current frame and its bytes, or its head where the frame is too long to be kept.
    bytes: Vec<u8>,
    /// Bytes of the current frame behind its head that were dropped.
    dropped: usize,
    /// The longest frame that is accepted.
    length_max: usize,
}

/// The bytes of a frame, or those of its head where the rest was dropped.
struct FrameBytes {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl ZooKeeperSession {
    /// Connects to the server and opens a session, with credentials if there are some.
    ///
    /// # Errors
    /// The reason, a sentence without the credentials.
    pub(super) async fn open(
        server: &ZooKeeperServer,
        opening: &ZooKeeperSessionOptions<'_>,
    ) -> Result<ZooKeeperSession, String> {
        let (credentials, connect_timeout) = (opening.credentials, opening.connect_timeout);
        let open = async {
            let (reader, mut writer) = split(stream(server, opening).await?);
            let mut reader = FrameReader::new(reader);
            let session_ms = i32::try_from(opening.session_timeout.as_millis()).unwrap_or(i32::MAX);
            write(&mut writer, &wire::encode_connect(session_ms)).await?;
            let granted = wire::connected(&reader.next().await?.bytes)?;
            reader.length_max = MAX_DROPPED_BYTES;
            if let Some((scheme, credentials)) = credentials {
                write(&mut writer, &wire::auth(scheme, credentials)).await?;
            }
            Ok((reader, writer, Duration::from_millis(u64::from(granted))))
        };
        let opened: Result<_, String> = timeout(connect_timeout, open)
            .await
            .map_err(|_| format!("no session within {} ms", connect_timeout.as_millis()))?;
        let (reader, writer, granted) = opened?;
        let now = Instant::now();
        let ping_interval = granted / 3;
        let silence_limit = granted * 2 / 3;
        Ok(ZooKeeperSession {
            reader,
            writer,
            ping_interval,
            silence_limit,
            next_ping: now + ping_interval,
            last_frame: now,
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn send(&mut self, xid: i32, request: &ZooKeeperRequest) -> Result<(), String> {
        self.write(&wire::encode_request(xid, request)).await
    }

    /// The next frame; none when a ping is due. It may be dropped and called again.
    ///
    /// # Errors
    /// The connection is lost, or the server is silent for too long.
    pub(super) async fn next(&mut self) -> Result<Option<ZooKeeperFrame>, String> {
        let silent_at = self.last_frame + self.silence_limit;
        match timeout_at(self.next_ping.min(silent_at), self.reader.next()).await {
            Ok(bytes) => {
                self.last_frame = Instant::now();
                let FrameBytes { bytes, is_cut } = bytes?;
                Ok(Some(match wire::frame(&bytes)? {
                    ZooKeeperFrame::Reply { xid, code: 0, body } if is_cut => {
                        ZooKeeperFrame::Reply { xid, code: wire::TOO_LONG, body }
                    }
                    frame => frame,
                }))
            }
            Err(_) if Instant::now() >= silent_at => {
                Err(format!("the server is silent for {} ms", self.silence_limit.as_millis()))
            }
            Err(_) => Ok(None),
        }
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn ping(&mut self) -> Result<(), String> {
        self.next_ping = Instant::now() + self.ping_interval;
        self.write(&wire::ping()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        timeout(self.silence_limit, write(&mut self.writer, bytes))
            .await
            .map_err(|_| "the server takes no requests".to_owned())?
    }
}

impl FrameReader {
    /// A reader that accepts frames of at most [`MAX_FRAME_BYTES`], for the greeting.
    fn new(stream: ReadHalf<ZooKeeperStream>) -> FrameReader {
        let stream = BufReader::new(stream);
        FrameReader { stream, bytes: Vec::new(), dropped: 0, length_max: MAX_FRAME_BYTES }
    }

    async fn next(&mut self) -> Result<FrameBytes, String> {
        loop {
            let (missing, to_drop) = self.missing()?;
            let read = if missing > 0 {
                let mut part = (&mut self.stream).take(missing as u64);
                part.read_buf(&mut self.bytes).await
            } else if to_drop > 0 {
                let read = self.stream.fill_buf().await.map(|buffered| buffered.len().min(to_drop));
                let dropped = *read.as_ref().unwrap_or(&0);
                self.stream.consume(dropped);
                self.dropped += dropped;
                read
            } else {
                let bytes = std::mem::take(&mut self.bytes).split_off(4);
                return Ok(FrameBytes { bytes, is_cut: std::mem::take(&mut self.dropped) > 0 });
            };
            match read {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(format!("the connection is lost: {error}")),
            }
        }
    }

    /// The bytes that the current frame lacks, its length first, and those behind its head that are to be
    /// dropped.
    fn missing(&self) -> Result<(usize, usize), String> {
        let Some((length, kept)) = self.bytes.split_first_chunk::<4>() else {
            return Ok((4 - self.bytes.len(), 0));
        };
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > self.length_max {
            return Err(format!("a frame of the server has more than {} bytes, or is none", self.length_max));
        }
        Ok(match length > MAX_FRAME_BYTES {
            true => (HEAD_BYTES - kept.len(), length - HEAD_BYTES - self.dropped),
            false => (length - kept.len(), 0),
        })
    }
}

/// A connection to the server, with TLS where it is asked for.
async fn stream(
    server: &ZooKeeperServer,
    opening: &ZooKeeperSessionOptions<'_>,
) -> Result<ZooKeeperStream, String> {
    let stream = connect_tcp(&server.host, server.port, opening.policy).await?;
    // Small requests wait for nothing; a socket without the option is slower only.
    let _ = stream.set_nodelay(true);
    let Some(tls) = opening.tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(server.host.clone())
        .map_err(|_| "its host is a name that no certificate can have".to_owned())?;
    let secured = tls.connector()?.connect(name, stream).await;
    Ok(Box::new(secured.map_err(|error| format!("no TLS with it: {error}"))?))
}

async fn write(writer: &mut WriteHalf<ZooKeeperStream>, bytes: &[u8]) -> Result<(), String> {
    let written = async {
        writer.write_all(bytes).await?;
        // TLS keeps bytes back until it is flushed.
        writer.flush().await
    };
    written.await.map_err(|error: std::io::Error| format!("the connection is lost: {error}"))
}
