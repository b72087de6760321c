//! The new process's side of an upgrade: the sockets and the lock that it receives, and the messages that it
//! sends. Serves nothing itself.

use parking_lot::Mutex;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, bail};
use control::WriteGate;
use control::source::store::DirectoryLock;
use net::quic::{QuicProcess, QuicSecret};
use net::tls::server::TicketSecret;

use super::changeover;
use super::channel::{Channel, ChannelFault, PROTOCOL, Patience, QuicState, TicketKey, UpgradeMessage};
use super::go_between;

/// No deadline, because the old process has one and kills this process when it passes.
const FOR_AS_LONG_AS_IT_LIVES: Patience<'static> = Patience { deadline: None, abandoned: None };

/// The name under which the line for datagrams of QUIC is handed over. A version that does not know it closes
/// it.
pub(in crate::boot) const QUIC_LINE: &str = "quic-line";

/// A listening socket that was handed over.
#[derive(Debug)]
pub(in crate::boot) struct InheritedSocket {
    /// The setting it belongs to.
    pub(in crate::boot) name: String,
    /// The address in that setting.
    pub(in crate::boot) asked: SocketAddr,
    /// The socket, listening.
    pub(in crate::boot) listener: TcpListener,
}

/// The process that this one replaces.
#[derive(Debug)]
pub(in crate::boot) struct Predecessor {
    channel: Channel,
    sockets: Mutex<Vec<InheritedSocket>>,
    tickets: Mutex<Vec<TicketSecret>>,
    quic: Mutex<Option<QuicState>>,
    /// The line by which datagrams of its connections are passed back.
    line: Mutex<Option<OwnedFd>>,
}

impl Predecessor {
    /// The predecessor and the sockets it hands over, if this process was started for an upgrade. Until
    /// [`Predecessor::serving`], which the same thread must call, this process dies with its parent.
    ///
    /// # Errors
    /// The predecessor uses another protocol number, or ended.
    pub(in crate::boot) fn meet() -> anyhow::Result<Option<Predecessor>> {
        if !go_between::is_successor()? {
            return Ok(None);
        }
        let line = std::io::stdin().as_fd().try_clone_to_owned().context("cannot take over the line")?;
        let nothing = std::fs::File::open("/dev/null").context("cannot open /dev/null")?;
        rustix::stdio::dup2_stdin(nothing).context("cannot empty the standard input")?;
        let channel = Channel::from_descriptor(line);
        let predecessor = Predecessor {
            channel,
            sockets: Mutex::default(),
            tickets: Mutex::default(),
            quic: Mutex::default(),
            line: Mutex::default(),
        };
        match predecessor.receive_sockets() {
            Ok(mut sockets) => {
                let line = sockets.extract_if(.., |socket| socket.name == QUIC_LINE).last();
                *predecessor.line.lock() = line.map(|socket| socket.listener.into());
                *predecessor.sockets.lock() = sockets;
            }
            Err(error) => {
                predecessor.fail(&error);
                return Err(error);
            }
        }
        Ok(Some(predecessor))
    }

    fn receive_sockets(&self) -> anyhow::Result<Vec<InheritedSocket>> {
        let mut all = Vec::new();
        loop {
            let (UpgradeMessage::Sockets { protocol, sockets, more }, descriptors) = self.receive()? else {
                bail!("the old process did not begin with its sockets");
            };
            if protocol != PROTOCOL {
                bail!(
                    "the running version hands over by protocol {protocol}, this one by {PROTOCOL}; stop it and start this one"
                );
            }
            if descriptors.len() != sockets.len() {
                bail!("not all sockets arrived; raise the limit on open files");
            }
            for (socket, descriptor) in sockets.into_iter().zip(descriptors) {
                let listener = TcpListener::from(descriptor);
                all.push(InheritedSocket { name: socket.name, asked: socket.asked, listener });
            }
            if !more {
                return Ok(all);
            }
        }
    }

    /// The sockets that were handed over; empty at the second call.
    pub(in crate::boot) fn take_sockets(&self) -> Vec<InheritedSocket> {
        std::mem::take(&mut *self.sockets.lock())
    }

    /// The keys of session tickets that came with the data folder.
    pub(in crate::boot) fn take_ticket_secrets(&self) -> Vec<TicketSecret> {
        std::mem::take(&mut *self.tickets.lock())
    }

    /// The state of QUIC, which came with the data folder; none of a version without HTTP/3.
    pub(in crate::boot) fn take_quic(&self) -> Option<QuicProcess> {
        let state = self.quic.lock().take()?;
        let secret = QuicSecret::from_bytes(&state.secret)?;
        Some(QuicProcess::successor_of(secret, state.generation, self.line.lock().take()))
    }

    /// Asks for the data folder, when everything that does not need the folder is done. Gives the folder's
    /// lock if the old process held it for the same folder.
    ///
    /// # Errors
    /// The old process has ended or abandoned the upgrade.
    pub(in crate::boot) fn take_data(&self, data: &Path) -> anyhow::Result<Option<DirectoryLock>> {
        self.channel.send(&UpgradeMessage::Prepared, &[])?;
        let (UpgradeMessage::Data { directory, tickets, quic }, locks) = self.receive()? else {
            bail!("the old process did not hand over its data folder");
        };
        *self.quic.lock() = quic;
        *self.tickets.lock() = tickets.into_iter().filter_map(ticket_secret).collect();
        let lock: Option<OwnedFd> = locks.into_iter().next();
        let same = data.canonicalize().is_ok_and(|data| data == directory);
        Ok(lock.filter(|_| same).map(|lock| DirectoryLock::adopt(data, lock)))
    }

    /// Reports that everything is loaded, and waits for `Commit`.
    ///
    /// # Errors
    /// The old process has ended or abandoned the upgrade.
    pub(in crate::boot) fn await_commit(&self) -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.channel.send(&UpgradeMessage::Ready { version, process: std::process::id() }, &[])?;
        match self.receive()? {
            (UpgradeMessage::Commit, _) => Ok(()),
            (message, _) => bail!("the old process said {message:?} instead of the word to serve"),
        }
    }

    /// Reports that this process serves, and detaches it from its parent.
    pub(in crate::boot) fn serving(&self) {
        // Before the message, because the old process ends the parent as soon as it receives it.
        go_between::part();
        // Only a warning: if the old process has ended meanwhile, this process has to go on, because no other
        // serves.
        if let Err(fault) = self.channel.send(&UpgradeMessage::Serving, &[]) {
            tracing::warn!(%fault, "the old process has not heard that this one serves");
        }
    }

    /// Opens the gate for writes when the old process begins no further request.
    pub(in crate::boot) fn open_when_over(self, gate: WriteGate) {
        let Predecessor { channel, .. } = self;
        let wait = {
            let gate = gate.clone();
            move || changeover::await_old_side(&channel, &gate)
        };
        if let Err(error) = std::thread::Builder::new().name("upgrade".to_owned()).spawn(wait) {
            tracing::warn!(%error, "writes do not wait for the old process");
            gate.open();
        }
    }

    /// Reports why this process cannot take over.
    pub(in crate::boot) fn fail(&self, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        // Ignored, because the old process may have closed its end; the reason is on standard error as well.
        let _ = self.channel.send(&UpgradeMessage::Failed { reason }, &[]);
    }

    fn receive(&self) -> Result<(UpgradeMessage, Vec<OwnedFd>), ChannelFault> {
        self.channel.receive(FOR_AS_LONG_AS_IT_LIVES)
    }
}

/// A key as it was sent; none where it has another size, as of a version that makes them differently.
fn ticket_secret(key: TicketKey) -> Option<TicketSecret> {
    Some(TicketSecret {
        name: key.name.try_into().ok()?,
        secret: key.secret.try_into().ok()?,
        made_s: key.made_s,
    })
}
