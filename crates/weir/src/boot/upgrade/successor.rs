//! The old process's side of an upgrade: it starts its successor and hands over step by step, each of which it can take
//! back until the last. Ends nothing itself.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use control::source::store::DirectoryLock;
use control::{HandOver, Released};

use super::channel::{Channel, ChannelFault, DESCRIPTORS_MAX, Message, NamedSocket, PROTOCOL, Patience};
use super::executable::Executable;
use crate::settings::UPGRADE_VARIABLE;

/// How long a process that has closed its line may take to end, until its exit code is given up on.
const END_WAIT: Duration = Duration::from_secs(2);
/// How often it is looked whether it has.
const END_POLL: Duration = Duration::from_millis(10);

/// What is handed over, and how.
pub(in crate::boot) struct Offer {
    /// What is started.
    pub(in crate::boot) executable: Executable,
    /// All listening sockets: the setting, the address as it was asked for, the socket.
    pub(in crate::boot) sockets: Vec<(&'static str, std::net::SocketAddr, TcpListener)>,
    /// The data folder.
    pub(in crate::boot) data: PathBuf,
    /// Its lock, if it is held.
    pub(in crate::boot) lock: Option<DirectoryLock>,
    /// The way to whoever writes there.
    pub(in crate::boot) hand_over: HandOver,
    /// How long the whole may take.
    pub(in crate::boot) timeout: Duration,
}

/// The process that serves from now on.
pub(in crate::boot) struct Successor {
    /// Its id.
    pub(in crate::boot) process: u32,
    /// Its version.
    pub(in crate::boot) version: String,
    /// The claim on the store, to be given up for good.
    pub(in crate::boot) released: Released,
}

/// Starts a successor and hands everything over; returns when it serves.
///
/// # Errors
/// Why it does not. It is gone then, and this process holds everything as before.
pub(in crate::boot) fn start(offer: &Offer, abandoned: &AtomicBool) -> anyhow::Result<Successor> {
    ensure!(
        std::process::id() != 1,
        "this process is the first one of its container, which ends with it; start another container instead"
    );
    let (channel, theirs) = Channel::pair().context("cannot open a line to a new process")?;
    let mut command = offer.executable.command();
    command.env(UPGRADE_VARIABLE, std::process::id().to_string());
    command.stdin(Stdio::from(theirs.into_descriptor()));
    let path = offer.executable.path().display();
    let mut child = command.spawn().with_context(|| format!("cannot start {path}"))?;
    drop(command);
    let deadline = Some(Instant::now() + offer.timeout);
    let mut released = None;
    let said = converse(&channel, offer, &mut released, Patience { deadline, abandoned: Some(abandoned) });
    match (said, released) {
        (Ok(version), Some(released)) => Ok(Successor { process: child.id(), version, released }),
        (said, released) => {
            let error = said.err().unwrap_or_else(|| anyhow!("the store was not handed over"));
            let error = explained(error, &mut child, offer.timeout);
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
            // Nobody else holds the store now; dropping this takes it back.
            drop(released);
            Err(error)
        }
    }
}

/// The conversation; gives the successor's version.
fn converse(
    channel: &Channel,
    offer: &Offer,
    released: &mut Option<Released>,
    patience: Patience<'_>,
) -> anyhow::Result<String> {
    send_sockets(channel, offer)?;
    match answer(channel, patience)? {
        Message::Prepared => {}
        other => bail!("it said {other:?} instead of being prepared"),
    }
    *released =
        Some(offer.hand_over.release(patience.deadline).context("the store is too busy to be closed")?);
    let directory = offer.data.canonicalize().unwrap_or_else(|_| offer.data.clone());
    let lock: Vec<_> = offer.lock.iter().map(AsFd::as_fd).collect();
    channel.send(&Message::Data { directory }, &lock)?;
    let version = match answer(channel, patience)? {
        Message::Ready { version } => version,
        other => bail!("it said {other:?} instead of being ready"),
    };
    channel.send(&Message::Commit, &[])?;
    match answer(channel, patience)? {
        Message::Serving => Ok(version),
        other => bail!("it said {other:?} instead of serving"),
    }
}

fn send_sockets(channel: &Channel, offer: &Offer) -> anyhow::Result<()> {
    let mut left = &offer.sockets[..];
    loop {
        let (now, later) = left.split_at(left.len().min(DESCRIPTORS_MAX));
        let named =
            |(name, asked, _): &(&'static str, _, _)| NamedSocket { name: (*name).to_owned(), asked: *asked };
        let message = Message::Sockets {
            protocol: PROTOCOL,
            sockets: now.iter().map(named).collect(),
            more: !later.is_empty(),
        };
        let descriptors: Vec<_> = now.iter().map(|(.., socket)| socket.as_fd()).collect();
        channel.send(&message, &descriptors)?;
        if later.is_empty() {
            return Ok(());
        }
        left = later;
    }
}

fn answer(channel: &Channel, patience: Patience<'_>) -> anyhow::Result<Message> {
    match channel.receive(patience)?.0 {
        Message::Failed { reason } => bail!("the new process says: {reason}"),
        message => Ok(message),
    }
}

/// The error, in the words of somebody who waits for the upgrade.
fn explained(error: anyhow::Error, child: &mut Child, timeout: Duration) -> anyhow::Error {
    match error.downcast_ref::<ChannelFault>() {
        Some(ChannelFault::Ended) => match exit_of(child) {
            Some(status) => anyhow!(
                "the new process ended ({status}) before it was ready; what it had to say is in the error log or on standard error"
            ),
            None => error,
        },
        Some(ChannelFault::TimedOut) => {
            anyhow!("the new process was not ready within {} seconds (upgrade_timeout)", timeout.as_secs())
        }
        Some(ChannelFault::Abandoned) => anyhow!("the node was told to end"),
        _ => error,
    }
}

fn exit_of(child: &mut Child) -> Option<std::process::ExitStatus> {
    let deadline = Instant::now() + END_WAIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(END_POLL),
            _ => return None,
        }
    }
}
