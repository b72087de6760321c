//! The origin of layer 4: sends bytes and datagrams back, or sends a block without end. One thread per
//! transport, so that it is light beside a gateway that has two connections for each of its own. The first
//! bytes of a connection say what the client wants, see `language`; it knows no gateway and measures nothing.

pub(crate) mod language;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, UdpSocket};
use std::thread;

use anyhow::{Context, anyhow};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use language::{Wish, block, wish};

/// A running origin.
#[derive(Debug)]
pub struct EchoOrigin {
    /// Its address, for TCP and UDP alike.
    pub address: SocketAddr,
    /// Its threads; they end only with a failure.
    pub threads: Vec<thread::JoinHandle<anyhow::Result<()>>>,
}

/// Binds both sockets and starts the threads. Port 0 takes one that is free for TCP and UDP. Fails if the
/// address cannot be bound.
pub fn start_echo(address: SocketAddr) -> anyhow::Result<EchoOrigin> {
    let (listener, datagrams) = bound(address)
        .with_context(|| format!("cannot listen on {address}: choose another with --listen"))?;
    let address = listener.local_addr().context("the listener has no address")?;
    let streams = thread::Builder::new().name("echo-tcp".to_owned()).spawn(move || serve(listener))?;
    let packets = thread::Builder::new().name("echo-udp".to_owned()).spawn(move || send_back(&datagrams))?;
    Ok(EchoOrigin { address, threads: vec![streams, packets] })
}

impl EchoOrigin {
    /// Waits for the end of a thread, which is a failure.
    pub fn join(self) -> anyhow::Result<()> {
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a thread of the origin panicked"))??;
        }
        Ok(())
    }
}

/// Both sockets on one port. A free port of TCP may be taken for UDP, so that several are tried.
fn bound(address: SocketAddr) -> io::Result<(StdListener, UdpSocket)> {
    let mut left = PORTS_TRIED;
    loop {
        let listener = listening(address)?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            Err(error) if address.port() != 0 || left == 0 => return Err(error),
            Err(_) => left -= 1,
        }
    }
}

fn listening(address: SocketAddr) -> io::Result<StdListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Sends every datagram back to its source.
fn send_back(socket: &UdpSocket) -> anyhow::Result<()> {
    let mut datagram = vec![0; LONGEST_DATAGRAM_BYTES];
    loop {
        // An error is the refusal of an earlier datagram by its source, which has closed its socket.
        if let Ok((bytes, source)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(&datagram[..bytes], source);
        }
    }
}

/// Accepts without end; each connection is a task of this thread.
fn serve(listener: StdListener) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            // An error means no descriptors, or a connection reset in the queue. Either way accepting goes
            // on.
            if let Ok((stream, _)) = listener.accept().await {
                // Ignored, because an error means that the client has left, and the connection is over.
                tokio::spawn(async move { answer(stream).await.ok() });
            } else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    })
}

/// One connection to its end.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut had = 0;
    let wish = loop {
        if let Some(wish) = wish(&buffer[..had]) {
            break wish;
        }
        match stream.read(&mut buffer[had..]).await? {
            0 => break Wish::Echo,
            bytes => had += bytes,
        }
    };
    match wish {
        Wish::Echo => loop {
            stream.write_all(&buffer[..had]).await?;
            had = stream.read(&mut buffer).await?;
            if had == 0 {
                return stream.shutdown().await;
            }
        },
        Wish::Once(bytes) => {
            while had < bytes {
                match stream.read(&mut buffer[had..]).await? {
                    0 => return Ok(()),
                    more => had += more,
                }
            }
            stream.write_all(&buffer[..bytes]).await?;
            stream.shutdown().await?;
            // Read until the client closes too: a socket that is closed with unread bytes would reset the
            // connection.
            while stream.read(&mut buffer).await? > 0 {}
            Ok(())
        }
        Wish::Block => loop {
            stream.write_all(block()).await?;
        },
    }
}

/// The longest message that is sent back once, and bytes read at once.
pub(crate) const BUFFER_BYTES: usize = 32 * 1024;
/// A datagram of UDP has no more.
const LONGEST_DATAGRAM_BYTES: usize = 65_536;
/// More connections than a load generator opens at once; the kernel lowers it to `somaxconn`.
const BACKLOG: i32 = 4096;
/// Ports that are tried for one that is free for TCP and UDP: a taken one is rare, so that a few suffice.
const PORTS_TRIED: u32 = 16;
/// Pause of accepting when the process is out of descriptors.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use language::{REQUEST_BYTES, once, request};

    fn connected() -> std::net::TcpStream {
        let running = start_echo("127.0.0.1:0".parse().unwrap()).unwrap();
        let stream = std::net::TcpStream::connect(running.address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream
    }

    #[test]
    fn bytes_come_back_until_the_client_ends() {
        let mut stream = connected();
        let mut came = [0; 5];
        stream.write_all(b"hello").unwrap();
        stream.read_exact(&mut came).unwrap();
        assert_eq!(&came, b"hello");
        stream.write_all(&once(REQUEST_BYTES)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, once(REQUEST_BYTES), "only the first bytes are a wish");
    }

    #[test]
    fn message_in_pieces_comes_back_once() {
        let mut stream = connected();
        let message = once(100);
        for piece in message.chunks(7) {
            stream.write_all(piece).unwrap();
        }
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert_eq!(came, message);
    }

    #[test]
    fn block_is_repeated_without_end() {
        let mut stream = connected();
        stream.write_all(request()).unwrap();
        let mut came = vec![0; block().len() + 10];
        stream.read_exact(&mut came).unwrap();
        let (first, second) = came.split_at(block().len());
        assert!(first == block() && second == &block()[..10]);
    }

    #[test]
    fn datagram_comes_back_to_its_source() {
        let running = start_echo("127.0.0.1:0".parse().unwrap()).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        socket.connect(running.address).unwrap();
        socket.send(b"ping").unwrap();
        let mut came = [0; 10];
        assert_eq!(socket.recv(&mut came).unwrap(), 4);
        assert_eq!(&came[..4], b"ping");
    }
}
