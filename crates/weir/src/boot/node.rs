//! The start of an instance, from its settings until it serves: alone, or as the successor of a process, from
//! which it takes sockets and store over step by step. Its end is in `signals`.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::Control;
use control::source::store::{DirectoryLock, InstanceListener, RunningInstance};
use discovery::registration::Registration;
use gateway::engine::Engine;
use gateway::observe::log_writer::LogWriter;
use net::listener::ListenerSet;
use net::quic::QuicProcess;
use net::tls::server::ServerTls;
use plugins::Runner;

use super::assembly::Assembly;
use super::bridge::Gateway;
use super::live::LiveSettings;
use super::runner::{RunnerSettings, Supervisor};
use super::upgrade::{Executable, Offer, Predecessor, QUIC_LINE};
use super::{core_dumps, sockets};
use crate::log::{self, LogControl};
use crate::settings::{LoadedSettings, Settings, SettingsSource};

/// How often a successor checks whether its workers run.
const RUNNING_POLL: Duration = Duration::from_millis(2);

/// How long a successor waits for its plugin runner, so that no request fails at an upgrade. Half of the
/// default time that an upgrade may take.
const RUNNER_WAIT: Duration = Duration::from_secs(30);

/// An instance that serves.
pub(super) struct ServingInstance {
    pub(super) settings: Settings,
    pub(super) live: LiveSettings,
    pub(super) control: Control,
    pub(super) gateway: Arc<Gateway>,
    tls: Arc<ServerTls>,
    quic: QuicProcess,
    /// The process of the plugin runner.
    pub(super) runner: Supervisor,
    pub(super) log: LogControl,
    pub(super) access_logs: Arc<[LogWriter]>,
    /// The registrations in registries; dropping it leaves the instance registered, for a successor.
    pub(super) registration: Option<Arc<Registration>>,
    /// The lines that announce its listeners on standard output.
    pub(super) lines: Vec<String>,
    /// True if it replaces a predecessor.
    pub(super) is_successor: bool,
    executable: Option<Executable>,
    lock: Option<DirectoryLock>,
    /// Duplicates of the control side's sockets, for a successor.
    spare: Vec<(&'static str, SocketAddr, TcpListener)>,
}

impl ServingInstance {
    /// Starts every part, in an order in which a failed start can be undone.
    ///
    /// # Errors
    /// A failed start, with its reason.
    pub(super) fn start(
        settings_source: SettingsSource,
        executable: Option<Executable>,
        predecessor: Option<&Predecessor>,
    ) -> anyhow::Result<ServingInstance> {
        let LoadedSettings { settings, remarks } = settings_source.load()?;
        let log = log::start_error_log(&settings.error_log, settings.error_log_format, &settings.log_level)?;
        remarks.warn();
        core_dumps::allow(settings.core_dumps);
        // Before all that costs time or writes files: an address in use is the commonest reason of a failed
        // start.
        let inherited = predecessor.map(Predecessor::take_sockets).unwrap_or_default();
        let mut sockets = sockets::bind(&settings, inherited)?;
        let lines = sockets.lines();
        let (assembly, compiler) = Assembly::start(settings, log, &mut sockets, predecessor)?;
        let stream_routes = assembly.catalog.clone();
        let runner = Runner::serve(compiler.states());
        let runner =
            Supervisor::start(RunnerSettings::of(&assembly.settings), runner, &assembly.referents.services);
        let control = assembly.start_control(compiler)?;
        let quic = match predecessor.and_then(Predecessor::take_quic) {
            Some(quic) => quic,
            None => QuicProcess::first().map_err(anyhow::Error::msg).context("cannot use QUIC")?,
        };
        let engine = assembly.start_engine(quic.clone())?;
        if let Some(predecessor) = predecessor {
            assembly.front.tls.adopt_ticket_secrets(&predecessor.take_ticket_secrets());
            wait_until_running(engine);
            // The predecessor has a runner that answers meanwhile.
            runner.await_running(RUNNER_WAIT);
            // From here on there is no way back: the predecessor accepts no more connections.
            predecessor.await_commit()?;
        }
        open(engine, sockets.proxy, assembly.listener_addresses.clone());
        if predecessor.is_some() {
            // The predecessor may still be writing: its last revision is read before the gate opens.
            control.write_gate().hold();
        }
        control.listen(sockets.control)?;
        let Assembly { settings, referents, registration, lock, .. } = &assembly;
        if let Some(lock) = lock {
            if predecessor.is_some() {
                lock.announce()?;
            }
            announce_listeners(lock, settings, &sockets.spare);
        }
        if let Some(predecessor) = predecessor {
            predecessor.serving();
        }
        // Last, because a registry sends traffic as soon as it knows the address.
        if let Some(registration) = registration {
            registration.start(control.readiness()).context("cannot start the thread of registrations")?;
        }
        let live =
            LiveSettings::new(settings_source, settings.clone(), referents.services.clone(), stream_routes);
        Ok(ServingInstance {
            live,
            control,
            quic,
            runner,
            lines,
            is_successor: predecessor.is_some(),
            executable,
            spare: sockets.spare,
            tls: assembly.front.tls,
            settings: assembly.settings,
            gateway: assembly.gateway,
            log: assembly.log,
            access_logs: assembly.log_writers,
            registration: assembly.registration,
            lock: assembly.lock,
        })
    }

    /// The sockets, folder, lock and program to offer a successor.
    ///
    /// # Errors
    /// Out of descriptors, or the program of this process is not known.
    pub(super) fn offer(&self) -> anyhow::Result<Offer> {
        let executable = self
            .executable
            .clone()
            .ok_or_else(|| anyhow::anyhow!("it is not known where this binary lies"))?;
        let mut all = Vec::new();
        for listener in self.gateway.engine().map(Engine::listeners).unwrap_or_default().iter() {
            let asked = listener.wanted().address;
            let name = sockets::find_setting_name(listener);
            all.extend(listener.descriptors()?.into_iter().map(|socket| (name, asked, socket)));
            let datagrams = listener.datagrams().descriptors()?.into_iter();
            let of_udp = if listener.wanted().protocols.udp { name } else { sockets::DATAGRAMS };
            all.extend(datagrams.map(|socket| (of_udp, asked, TcpListener::from(OwnedFd::from(socket)))));
        }
        for (name, asked, socket) in &self.spare {
            all.push((name, *asked, socket.try_clone()?));
        }
        let has_http3 = all.iter().any(|(name, ..)| *name == sockets::DATAGRAMS);
        if has_http3 {
            let line = TcpListener::from(self.quic.line_for_successor()?);
            all.push((QUIC_LINE, SocketAddr::from(([0, 0, 0, 0], 0)), line));
        }
        Ok(Offer {
            executable,
            sockets: all,
            ticket_secrets: self.tls.ticket_secrets(),
            quic: self.quic.clone(),
            data: self.settings.data.clone(),
            lock: self.lock.as_ref().map(DirectoryLock::try_clone).transpose()?,
            hand_over: self.control.hand_over(),
            timeout: Duration::from_secs(self.settings.upgrade_timeout_seconds),
        })
    }

    /// Writes into the lock that this process runs on the data folder, and the addresses it listens on.
    ///
    /// # Errors
    /// The lock cannot be written to.
    pub(super) fn announce(&self) -> std::io::Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        lock.announce()?;
        announce_listeners(lock, &self.settings, &self.spare);
        Ok(())
    }

    /// Keeps the parts that go on after a hand-over: the data plane with its plugin runner, and the control
    /// side, which follows a file or etcd for a while. Closes the lock of the data folder and the spare
    /// sockets; the successor has its own descriptors of both, and the files in the folder are its own by
    /// then.
    pub(super) fn let_go(self) -> (Arc<Gateway>, Control, Supervisor) {
        // The successor has the same identity in registries, and renews it.
        if let Some(registration) = &self.registration {
            registration.stop();
        }
        // All other fields are dropped when this returns.
        (self.gateway, self.control, self.runner)
    }

    /// The lock of the data folder, if it is held.
    pub(super) fn lock(&self) -> Option<&DirectoryLock> {
        self.lock.as_ref()
    }
}

/// Writes the addresses of the control side into the lock, for commands that look for this instance.
fn announce_listeners(
    lock: &DirectoryLock,
    settings: &Settings,
    sockets: &[(&'static str, SocketAddr, TcpListener)],
) {
    let listener = |(name, _, socket): &(&'static str, SocketAddr, TcpListener)| {
        let certificate = settings.admin_tls_cert.as_ref().filter(|_| *name == "admin");
        // Commands may be run in another folder.
        let certificate = certificate.and_then(|path| std::path::absolute(path).ok());
        Some(InstanceListener { name: (*name).to_owned(), address: socket.local_addr().ok()?, certificate })
    };
    if let Err(error) = RunningInstance::announce(lock, sockets.iter().filter_map(listener).collect()) {
        tracing::warn!(%error, "commands will not find this instance by its data folder; name it with --admin or --control");
    }
}

/// Lets connections in: sockets of workers that have none are bound, then all are accepted from.
fn open(engine: &Engine, listeners: ListenerSet, own_addresses: Vec<SocketAddr>) {
    for listener in &*listeners {
        if let Err(error) = listener.complete() {
            let address = listener.address();
            tracing::warn!(%error, %address, "some workers get their connections from others");
        }
    }
    // Before the first connection: a transparent route of layer 4 must not lead back to the control side.
    engine.set_other_listeners(own_addresses);
    engine.open(listeners);
}

/// Waits without a limit of its own, because the predecessor has a deadline, after which it ends a start
/// without running workers.
fn wait_until_running(engine: &Engine) {
    while engine.ready().is_err() {
        std::thread::sleep(RUNNING_POLL);
    }
}
