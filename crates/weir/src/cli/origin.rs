//! `weir origin`: an echo origin to try the gateway with, light enough for measurements of gateways in front
//! of it.
//!
//! One thread per worker with a listener of its own, and per request at most one read and one write, so that
//! a proxy in front of it saturates first. Its HTTP/1 shares no code with the data plane, so that neither
//! hides the other's mistakes; a connection that begins with the preface of HTTP/2 is served by
//! `origin/http2.rs`. It is not a web server: it has no files, no limits per client and no log.

mod answer;
mod frames;
mod http2;
mod request;

use std::io;
use std::net::SocketAddr;
use std::thread;

use anyhow::{Context, anyhow};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};

use answer::OriginResponse;
use frames::Frames;
use peer::body::{Body, Part};
use request::parse_head;

/// The arguments of `weir origin`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OriginArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:1980")]
    listen: SocketAddr,
    /// Threads, each with a listener of its own on the same port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
}

/// Serves until the process is stopped. Fails if the address cannot be bound.
pub(crate) fn execute_origin(arguments: OriginArguments) -> anyhow::Result<()> {
    let first = listen(arguments.listen, arguments.workers > 1)
        .with_context(|| format!("cannot listen on {}: choose another with --listen", arguments.listen))?;
    let address = first.local_addr().context("the listener has no address")?;
    let mut listeners = vec![first];
    for _ in 1..arguments.workers {
        listeners.push(listen(address, true).with_context(|| format!("cannot listen on {address} again"))?);
    }
    announce(address);
    let workers: Vec<_> =
        listeners.into_iter().map(|listener| thread::spawn(move || work(listener))).collect();
    for worker in workers {
        worker.join().map_err(|_| anyhow!("a worker of the origin panicked"))??;
    }
    Ok(())
}

#[allow(
    clippy::print_stdout,
    reason = "the announced address is this command's output, which scripts wait for"
)]
fn announce(address: SocketAddr) {
    println!("listening origin {address}\nready");
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// One worker: accepts without end; each connection is a task on this thread.
fn work(listener: std::net::TcpListener) -> anyhow::Result<()> {
    // Local, because a connection of HTTP/2 keeps memory that belongs to its thread.
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            // An error means no descriptors, or a connection reset in the queue. Either way accepting goes
            // on.
            if let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(async move {
                    // Ignored, because an error means that the client left or sent no HTTP, and the
                    // connection is over.
                    let _ = OriginConnection::new(stream).serve().await;
                });
            } else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    })
}

/// One client: bytes that were read and not yet used, and responses that were not yet written.
struct OriginConnection {
    stream: TcpStream,
    input: Vec<u8>,
    /// The bytes of `input` that are filled and unused.
    start: usize,
    end: usize,
    output: Vec<u8>,
}

impl OriginConnection {
    fn new(stream: TcpStream) -> OriginConnection {
        // Without TCP_NODELAY, a response in two writes waits for the client's acknowledgement. A failure is
        // ignored, because it only costs time.
        let _ = stream.set_nodelay(true);
        let input = vec![0; INPUT_BYTES];
        OriginConnection { stream, input, start: 0, end: 0, output: Vec::new() }
    }

    async fn serve(&mut self) -> io::Result<()> {
        loop {
            if self.input[self.start..self.end].starts_with(http2::START) {
                let begun = self.input[self.start..self.end].to_vec();
                return http2::serve(&mut self.stream, &begun).await;
            }
            let head = match parse_head(&self.input[self.start..self.end]) {
                Ok(Some(head)) => head,
                Ok(None) => {
                    // All requests read so far are answered with one write before the next read.
                    self.flush().await?;
                    if !self.fill().await? {
                        return Ok(());
                    }
                    continue;
                }
                Err(status) => {
                    answer::refuse(status, &mut self.output);
                    return self.flush().await;
                }
            };
            // A head is copied only if a body, which is read into the same buffer, follows it.
            let (head_bytes, keep_alive) = (head.bytes, head.keep_alive);
            let answer = if head.body.is_whole() {
                let answer = answer::choose_response(&head, 0, &mut self.output);
                self.start += head_bytes;
                answer
            } else {
                let text = self.input[self.start..self.start + head_bytes].to_vec();
                let body_bytes = self.read_body(head_bytes, head.body, head.expects_continue).await?;
                let Ok(Some(head)) = parse_head(&text) else { return Ok(()) };
                answer::choose_response(&head, body_bytes, &mut self.output)
            };
            if answer == OriginResponse::Frames {
                return self.echo_frames().await;
            }
            self.finish(answer).await?;
            if !keep_alive {
                self.flush().await?;
                return self.stream.shutdown().await;
            }
        }
    }

    /// Reads and drops a body, after its head; gives its length without framing.
    async fn read_body(&mut self, head_bytes: usize, mut body: Body, continues: bool) -> io::Result<u64> {
        self.start += head_bytes;
        if continues && self.start == self.end {
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.flush().await?;
        }
        let mut length = 0;
        loop {
            let count = |part: Part<'_>| {
                if let Part::Data(data) = part {
                    length += data.len() as u64;
                }
            };
            let used = body.take(&self.input[self.start..self.end], count);
            self.start += used.map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault.0))?;
            if body.is_whole() {
                return Ok(length);
            }
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Echoes WebSocket frames until the client closes or sends an invalid frame.
    async fn echo_frames(&mut self) -> io::Result<()> {
        let mut frames = Frames::default();
        while frames.take(&self.input[self.start..self.end], &mut self.output) {
            self.start = self.end;
            self.flush().await?;
            if !self.fill().await? {
                return Ok(());
            }
        }
        self.flush().await?;
        self.stream.shutdown().await
    }

    /// Sends the rest of a response that does not fit into the output buffer.
    async fn finish(&mut self, answer: OriginResponse) -> io::Result<()> {
        match answer {
            OriginResponse::Written | OriginResponse::Frames => Ok(()),
            OriginResponse::Static(bytes) => {
                self.flush().await?;
                self.stream.write_all(bytes).await
            }
            OriginResponse::After(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            OriginResponse::Repeat { block, times, end } => {
                for _ in 0..times {
                    self.output.extend_from_slice(&block);
                    if self.output.len() >= INPUT_BYTES {
                        self.flush().await?;
                    }
                }
                self.output.extend_from_slice(&end);
                Ok(())
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Reads once, after the unused bytes; false if the client closed.
    async fn fill(&mut self) -> io::Result<bool> {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let length = self.stream.read(&mut self.input[self.end..]).await?;
        self.end += length;
        Ok(length > 0)
    }
}

/// The longest head, the largest read, and the output collected for one write.
const INPUT_BYTES: usize = 16 * 1024;
/// More connections than a load generator opens at once; the kernel lowers it to `somaxconn`.
const BACKLOG: i32 = 4096;
/// Pause of accepting when the process is out of descriptors.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
