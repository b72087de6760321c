//! One session with a server of ZooKeeper: the connection, its greeting, frames in and out, and signs of life. It does not
//! know what is read.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use super::wire::{self, Frame, MAX_FRAME_BYTES, Request};

/// An open session. It ends with the connection.
pub(super) struct Session {
    reader: FrameReader,
    writer: OwnedWriteHalf,
    /// The interval of pings, and the longest silence of the server.
    ping_interval: Duration,
    silence_limit: Duration,
    next_ping: Instant,
    last_frame: Instant,
}

/// Reads frames; a read that is dropped in the middle of a frame is continued by the next one.
struct FrameReader {
    stream: BufReader<OwnedReadHalf>,
    bytes: Vec<u8>,
}

impl Session {
    /// Connects to `HOST:PORT` and opens a session, with credentials if there are some.
    ///
    /// # Errors
    /// The reason, a sentence without the credentials.
    pub(super) async fn open(
        server: &str,
        credentials: Option<&(String, String)>,
        connect_timeout: Duration,
        session_timeout: Duration,
    ) -> Result<Session, String> {
        let open = async {
            let stream = TcpStream::connect(server)
                .await
                .map_err(|error| format!("{server} cannot be reached: {error}"))?;
            // Small requests wait for nothing; a socket without the option is slower only.
            let _ = stream.set_nodelay(true);
            let (reader, mut writer) = stream.into_split();
            let mut reader = FrameReader { stream: BufReader::new(reader), bytes: Vec::new() };
            let session_ms = i32::try_from(session_timeout.as_millis()).unwrap_or(i32::MAX);
            write(&mut writer, &wire::connect(session_ms)).await?;
            let granted = wire::connected(&reader.next().await?)?;
            if let Some((scheme, credentials)) = credentials {
                write(&mut writer, &wire::auth(scheme, credentials)).await?;
            }
            Ok((reader, writer, Duration::from_millis(u64::from(granted))))
        };
        let opened: Result<_, String> = timeout(connect_timeout, open)
            .await
            .map_err(|_| format!("{server} opened no session within {} ms", connect_timeout.as_millis()))?;
        let (reader, writer, granted) = opened?;
        let now = Instant::now();
        let ping_interval = granted / 3;
        let silence_limit = granted * 2 / 3;
        Ok(Session {
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
    pub(super) async fn send(&mut self, xid: i32, request: &Request) -> Result<(), String> {
        self.write(&wire::request(xid, request)).await
    }

    /// The next frame; none when a ping is due. It may be dropped and called again.
    ///
    /// # Errors
    /// The connection is lost, or the server is silent for too long.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, String> {
        let silent_at = self.last_frame + self.silence_limit;
        match timeout_at(self.next_ping.min(silent_at), self.reader.next()).await {
            Ok(bytes) => {
                self.last_frame = Instant::now();
                wire::frame(&bytes?).map(Some)
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
    async fn next(&mut self) -> Result<Vec<u8>, String> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                return Ok(std::mem::take(&mut self.bytes).split_off(4));
            }
            let mut part = (&mut self.stream).take(missing as u64);
            let read = part.read_buf(&mut self.bytes).await;
            match read {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(format!("the connection is lost: {error}")),
            }
        }
    }

    /// The bytes that the current frame lacks, its length first.
    fn missing(&self) -> Result<usize, String> {
        let Some((length, body)) = self.bytes.split_first_chunk::<4>() else {
            return Ok(4 - self.bytes.len());
        };
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(format!("a frame of the server has more than {MAX_FRAME_BYTES} bytes, or is none"));
        }
        Ok(length - body.len())
    }
}

async fn write(writer: &mut OwnedWriteHalf, bytes: &[u8]) -> Result<(), String> {
    writer.write_all(bytes).await.map_err(|error| format!("the connection is lost: {error}"))
}
