//! The channel between an instance and its successor: whole messages, some with descriptors. Knows no order
//! of messages.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};

/// Version of the messages. A binary with another meaning of them sends another number, and is refused.
pub(super) const PROTOCOL: u32 = 2;
/// Most descriptors in one message; the kernel allows 253.
pub(super) const DESCRIPTORS_MAX: usize = 64;
/// Room for as many named sockets, and for any reason of a failure.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// How often a wait checks whether it was abandoned.
const LOOK_EVERY_NS: i64 = 50_000_000;

/// A message of either side.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UpgradeMessage {
    /// Listening sockets, one descriptor for each; `more` will follow.
    Sockets { protocol: u32, sockets: Vec<NamedSocket>, more: bool },
    /// The settings are good and what else they ask for is bound.
    Prepared,
    /// The data folder is free; the message carries its lock if it was held.
    Data {
        directory: PathBuf,
        /// The keys of session tickets. A version that does not know them makes its own.
        #[serde(default)]
        tickets: Vec<TicketKey>,
        /// The state of QUIC. A version that does not know it drops the connections of its predecessor.
        #[serde(default)]
        quic: Option<QuicState>,
    },
    /// The new process has loaded everything.
    Ready { version: String, process: u32 },
    /// The new process may serve.
    Commit,
    /// The new process serves.
    Serving,
    /// A write waits until the old process begins no further request. An old process of a version without
    /// this message has closed its end by then, so that the protocol number stays the same.
    Hurry,
    /// The sender cannot go on.
    Failed { reason: String },
}

/// A key of session tickets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TicketKey {
    /// Its name.
    pub(super) name: Vec<u8>,
    /// Its bytes.
    pub(super) secret: Vec<u8>,
    /// Seconds since the Unix epoch at which it was made.
    pub(super) made_s: u64,
}

/// The state of QUIC that a successor takes over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuicState {
    /// The secret that identifiers, resets and tokens are made with.
    pub(super) secret: Vec<u8>,
    /// The number of the process.
    pub(super) generation: u16,
}

impl fmt::Debug for QuicState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "(generation {})", self.generation)
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(a key)")
    }
}

/// A listening socket as the settings know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamedSocket {
    /// Its setting: `proxy`, `admin`.
    pub(super) name: String,
    /// The address as the setting has it, perhaps with port 0.
    pub(super) asked: SocketAddr,
}

/// Why a message was not sent or received.
#[derive(Debug)]
pub(super) enum ChannelFault {
    /// The other end is closed.
    Ended,
    /// The deadline passed.
    TimedOut,
    /// The upgrade was abandoned.
    Abandoned,
    /// An error of the system.
    Failed(Errno),
    /// The bytes received are no message.
    Nonsense(String),
}

impl fmt::Display for ChannelFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => out.write_str("the other process has closed the line"),
            Self::TimedOut => out.write_str("the other process said nothing in time"),
            Self::Abandoned => out.write_str("it was abandoned"),
            Self::Failed(errno) => write!(out, "the line to the other process failed: {errno}"),
            Self::Nonsense(what) => write!(out, "the other process speaks another language: {what}"),
        }
    }
}

impl std::error::Error for ChannelFault {}

/// How long to wait for a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience<'a> {
    /// End of the wait; without it, the wait lasts as long as the other process lives.
    pub(super) deadline: Option<Instant>,
    /// Ends the wait when it becomes true.
    pub(super) abandoned: Option<&'a AtomicBool>,
}

/// One end of the channel.
#[derive(Debug)]
pub(in crate::boot) struct Channel(OwnedFd);

impl Channel {
    /// Both ends.
    pub(super) fn pair() -> Result<(Channel, Channel), Errno> {
        // SEQPACKET keeps messages apart and reports the closed end of the other process.
        let kind = SocketType::SEQPACKET;
        let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(one), Channel(other)))
    }

    /// The end that this process inherited.
    pub(super) fn from_descriptor(descriptor: OwnedFd) -> Channel {
        Channel(descriptor)
    }

    /// The end for another process.
    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Sends a message with at most [`DESCRIPTORS_MAX`] descriptors.
    pub(super) fn send(
        &self,
        message: &UpgradeMessage,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelFault> {
        let text = serde_json::to_vec(message).map_err(|fault| ChannelFault::Nonsense(fault.to_string()))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "no more than {DESCRIPTORS_MAX} descriptors in a message");
        }
        match sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(ChannelFault::Ended),
            Err(errno) => Err(ChannelFault::Failed(errno)),
        }
    }

    /// The next message and its descriptors.
    pub(super) fn receive(
        &self,
        patience: Patience<'_>,
    ) -> Result<(UpgradeMessage, Vec<OwnedFd>), ChannelFault> {
        self.wait(patience)?;
        let mut text = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut text)], &mut control, flags) {
            Ok(received) => received.bytes,
            Err(Errno::CONNRESET) => 0,
            Err(errno) => return Err(ChannelFault::Failed(errno)),
        };
        if received == 0 {
            return Err(ChannelFault::Ended);
        }
        let descriptors = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors: Vec<OwnedFd> = descriptors.collect();
        let message = serde_json::from_slice(&text[..received])
            .map_err(|fault| ChannelFault::Nonsense(fault.to_string()))?;
        Ok((message, descriptors))
    }

    fn wait(&self, patience: Patience<'_>) -> Result<(), ChannelFault> {
        let look_every = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_NS };
        loop {
            let descriptor = self.0.as_fd();
            let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
            match poll(&mut watched, Some(&look_every)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(ChannelFault::Failed(errno)),
            }
            if patience.abandoned.is_some_and(|abandoned| abandoned.load(Ordering::Relaxed)) {
                return Err(ChannelFault::Abandoned);
            }
            if patience.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(ChannelFault::TimedOut);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const FOR_EVER: Patience<'static> = Patience { deadline: None, abandoned: None };

    #[test]
    fn messages_arrive_in_order_with_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = "127.0.0.1:0".parse().unwrap();
        let sockets = vec![NamedSocket { name: "proxy".to_owned(), asked }; DESCRIPTORS_MAX];
        let message = UpgradeMessage::Sockets { protocol: PROTOCOL, sockets: sockets.clone(), more: false };
        one.send(&message, &[listener.as_fd(); DESCRIPTORS_MAX]).unwrap();
        one.send(&UpgradeMessage::Commit, &[]).unwrap();
        drop(one);
        let (message, descriptors) = other.receive(FOR_EVER).unwrap();
        let UpgradeMessage::Sockets { protocol: PROTOCOL, sockets: got, more: false } = message else {
            panic!("{message:?}")
        };
        assert_eq!((got, descriptors.len()), (sockets, DESCRIPTORS_MAX));
        let address = listener.local_addr().unwrap();
        for descriptor in descriptors {
            assert_eq!(TcpListener::from(descriptor).local_addr().unwrap(), address);
        }
        assert!(matches!(other.receive(FOR_EVER), Ok((UpgradeMessage::Commit, none)) if none.is_empty()));
        assert!(matches!(other.receive(FOR_EVER), Err(ChannelFault::Ended)));
        assert!(matches!(other.send(&UpgradeMessage::Prepared, &[]), Err(ChannelFault::Ended)));
    }

    #[test]
    fn wait_ends_at_deadline_or_when_cancelled() {
        let (one, _other) = Channel::pair().unwrap();
        let past = Patience { deadline: Some(Instant::now()), abandoned: None };
        assert!(matches!(one.receive(past), Err(ChannelFault::TimedOut)));
        let unwanted = AtomicBool::new(true);
        let abandoned = Patience { deadline: None, abandoned: Some(&unwanted) };
        assert!(matches!(one.receive(abandoned), Err(ChannelFault::Abandoned)));
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let (one, other) = Channel::pair().unwrap();
        rustix::io::write(&one.0, b"{\"hello\":1}").unwrap();
        let fault = other.receive(FOR_EVER).unwrap_err();
        assert!(matches!(&fault, ChannelFault::Nonsense(what) if what.contains("hello")), "{fault}");
    }
}
