//! The old process's side of an upgrade: it starts its successor and hands over step by step. Each step but
//! the last can be taken back. Ends nothing of this process.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use control::source::store::DirectoryLock;
use control::{HandOver, Released};
use net::quic::QuicProcess;
use net::tls::server::TicketSecret;
use rustix::process::{Pid, Signal, kill_process};

use super::channel::{
    Channel, ChannelFault, DESCRIPTORS_MAX, NamedSocket, PROTOCOL, Patience, QuicState, TicketKey,
    UpgradeMessage,
};
use super::executable::Executable;
use crate::settings::UPGRADE_VARIABLE;

/// How long to wait for the end of a process that has closed its channel or lost its parent.
const END_WAIT: Duration = Duration::from_secs(2);
/// How often its exit code is polled.
const END_POLL: Duration = Duration::from_millis(10);

/// The parts to hand over, and how.
pub(in crate::boot) struct Offer {
    /// The program to start.
    pub(in crate::boot) executable: Executable,
    /// All listening sockets: the setting, the address as it was asked for, the socket.
    pub(in crate::boot) sockets: Vec<(&'static str, std::net::SocketAddr, TcpListener)>,
    /// The keys of session tickets.
    pub(in crate::boot) ticket_secrets: Vec<TicketSecret>,
    /// The state of QUIC.
    pub(in crate::boot) quic: QuicProcess,
    /// The data folder.
    pub(in crate::boot) data: PathBuf,
    /// Its lock, if it is held.
    pub(in crate::boot) lock: Option<DirectoryLock>,
    /// The way to the thread that writes to the store.
    pub(in crate::boot) hand_over: HandOver,
    /// Time limit of the whole upgrade.
    pub(in crate::boot) timeout: Duration,
}

/// The process that serves from now on.
pub(in crate::boot) struct Successor {
    /// Its id.
    pub(in crate::boot) process: u32,
    /// Its version.
    pub(in crate::boot) version: String,
    /// The claim of this process on the store, to be given up for good.
    pub(in crate::boot) released: Released,
    /// The channel to it.
    pub(in crate::boot) channel: Channel,
}

/// Starts a successor and hands everything over; returns when it serves.
///
/// # Errors
/// The upgrade failed: the successor is gone, and this process holds everything as before.
pub(in crate::boot) fn launch_successor(offer: &Offer, abandoned: &AtomicBool) -> anyhow::Result<Successor> {
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
    let (mut heir, mut released) = (None, None);
    let patience = Patience { deadline, abandoned: Some(abandoned) };
    let said = converse(&channel, offer, &mut heir, &mut released, patience);
    let said = said.map_err(|error| explained(error, &mut child, offer.timeout));
    // The go-between is not needed any more. If the successor does not serve yet, it dies with the
    // go-between. Both calls fail only when the go-between has ended already.
    let _ = child.kill();
    let _ = child.wait();
    // The successor may have begun to serve at the moment of the failure; the upgrade then counts as done.
    let serves = said.is_ok() || last_word(&channel, heir.as_ref()) == LastWord::Serving;
    match (serves, heir, released) {
        (true, Some(Heir { process, version }), Some(released)) => {
            Ok(Successor { process, version, released, channel })
        }
        (_, _, released) => {
            // No other process holds the store now; dropping `released` takes it back.
            drop(released);
            Err(said.err().unwrap_or_else(|| anyhow!("the store was not handed over")))
        }
    }
}

/// A successor that is ready to serve.
struct Heir {
    process: u32,
    version: String,
}

/// The end of a successor that was given up.
#[derive(Debug, PartialEq, Eq)]
enum LastWord {
    /// It sent `Serving`, and lives.
    Serving,
    /// It is dead.
    Silence,
}

/// Waits until a successor without its parent has ended, which closes its channel.
fn last_word(channel: &Channel, heir: Option<&Heir>) -> LastWord {
    let patience = Patience { deadline: Some(Instant::now() + END_WAIT), abandoned: None };
    loop {
        match channel.receive(patience) {
            Ok((UpgradeMessage::Serving, _)) => return LastWord::Serving,
            Ok(_) => {}
            Err(ChannelFault::TimedOut) => {
                // The successor detached itself from its parent and then hung before it sent `Serving`.
                let process = heir.and_then(|heir| Pid::from_raw(i32::try_from(heir.process).ok()?));
                if let Some(process) = process {
                    // Fails only if the process has ended already.
                    let _ = kill_process(process, Signal::KILL);
                }
                return LastWord::Silence;
            }
            Err(_) => return LastWord::Silence,
        }
    }
}

/// Exchanges the messages of an upgrade. Fills `heir` and `released` as soon as each is known, because a
/// later step may fail.
fn converse(
    channel: &Channel,
    offer: &Offer,
    heir: &mut Option<Heir>,
    released: &mut Option<Released>,
    patience: Patience<'_>,
) -> anyhow::Result<()> {
    send_sockets(channel, offer)?;
    match answer(channel, patience)? {
        UpgradeMessage::Prepared => {}
        other => bail!("it said {other:?} instead of being prepared"),
    }
    *released =
        Some(offer.hand_over.release(patience.deadline).context("the store is too busy to be closed")?);
    let directory = offer.data.canonicalize().unwrap_or_else(|_| offer.data.clone());
    let lock: Vec<_> = offer.lock.iter().map(AsFd::as_fd).collect();
    let key = |secret: &TicketSecret| TicketKey {
        name: secret.name.to_vec(),
        secret: secret.secret.to_vec(),
        made_s: secret.made_s,
    };
    let tickets = offer.ticket_secrets.iter().map(key).collect();
    let quic = QuicState { secret: offer.quic.secret.as_bytes().to_vec(), generation: offer.quic.generation };
    channel.send(&UpgradeMessage::Data { directory, tickets, quic: Some(quic) }, &lock)?;
    match answer(channel, patience)? {
        UpgradeMessage::Ready { version, process } => *heir = Some(Heir { process, version }),
        other => bail!("it said {other:?} instead of being ready"),
    }
    channel.send(&UpgradeMessage::Commit, &[])?;
    match answer(channel, patience)? {
        UpgradeMessage::Serving => Ok(()),
        other => bail!("it said {other:?} instead of serving"),
    }
}

fn send_sockets(channel: &Channel, offer: &Offer) -> anyhow::Result<()> {
    let mut left = &offer.sockets[..];
    loop {
        let (now, later) = left.split_at(left.len().min(DESCRIPTORS_MAX));
        let named =
            |(name, asked, _): &(&'static str, _, _)| NamedSocket { name: (*name).to_owned(), asked: *asked };
        let message = UpgradeMessage::Sockets {
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

fn answer(channel: &Channel, patience: Patience<'_>) -> anyhow::Result<UpgradeMessage> {
    match channel.receive(patience)?.0 {
        UpgradeMessage::Failed { reason } => bail!("the new process says: {reason}"),
        message => Ok(message),
    }
}

/// The error, worded for the user that waits for the upgrade.
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
