//! The signals of an instance, from its start to its end: HUP reloads, USR1 reopens the logs, USR2 starts a
//! successor, TERM and QUIT leave registries and drain, INT or TERM during the drain ends the process at
//! once.

mod leave;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use gateway::engine::Engine;
use gateway::observe::log_writer::LogWriter;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use self::leave::{Leaving, leave};
use super::bridge::Gateway;
use super::log_rotate::{OpenLogs, Rotation};
use super::node::ServingInstance;
use super::notify;
use super::upgrade::{OldSide, Successor, UpgradeOutcome, start_successor, write_outcome};
use crate::log::{self, LogControl};
use crate::terminal::print_bounded;

/// How long the end of the process waits until the last lines of the access log are written. A working disk
/// or collector takes milliseconds.
const ACCESS_LOG_FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Time that a stop may take beyond `drain_delay` and `grace`: 5 seconds for registries, and some for the
/// logs.
const STOP_EXTRA: Duration = Duration::from_secs(10);

/// Exit code after an end without draining; shells report the same code for a process that INT ended.
const INTERRUPTED: u8 = 130;

/// Receives signals from now on. HUP, USR1 and USR2 wait until the instance has started; INT, QUIT and TERM
/// end the process also during its start.
pub(super) struct SignalWatch {
    runtime: tokio::runtime::Runtime,
    requests: Requests,
}

impl SignalWatch {
    /// Installs the handlers. To be called before the data folder is locked, because the lock tells other
    /// processes where to send signals.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(super) fn start() -> anyhow::Result<SignalWatch> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let requests = Requests::install().context(CANNOT_INSTALL)?;
        drop(entered);
        Ok(SignalWatch { runtime, requests })
    }

    /// Announces the instance and handles signals until one of them ends it.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(super) fn serve(self, node: ServingInstance) -> anyhow::Result<ExitCode> {
        let SignalWatch { runtime, requests } = self;
        runtime.block_on(async {
            let ends = TerminationSignals::install().context(CANNOT_INSTALL)?;
            // Flushed first, so that messages of the start appear before the line `ready`.
            log::flush();
            print_bounded(format_args!("{}\nready", node.lines.join("\n")));
            // A service manager accepts messages from its main process only, and that process announces the
            // successor.
            if !node.is_successor {
                notify::notify_service_manager(notify::READY);
            }
            let access_logs = node.access_logs.clone();
            let has_given_way = Arc::new(AtomicBool::new(false));
            if let Some(rotation) = Rotation::of(&node.settings) {
                rotation.start(Logs::of(&node), has_given_way.clone());
            }
            let code = obey(node, Signals { requests, ends }, &has_given_way).await;
            for writer in &*access_logs {
                writer.flush(ACCESS_LOG_FLUSH_LIMIT);
            }
            Ok(code)
        })
    }
}

/// `has_given_way` is set when another process serves in place of this one.
async fn obey(mut node: ServingInstance, mut signals: Signals, has_given_way: &AtomicBool) -> ExitCode {
    let mut upgrade = Upgrade::default();
    loop {
        tokio::select! {
            asked = signals.next() => match asked {
                SignalRequest::Reload => reload(&mut node, &upgrade),
                SignalRequest::Reopen => Logs::of(&node).reopen(),
                SignalRequest::Upgrade => upgrade.begin(&node),
                SignalRequest::Drain => {
                    return match upgrade.abandon(&node).await {
                        Some(successor) => {
                            has_given_way.store(true, Ordering::Relaxed);
                            let grace = Duration::from_secs(node.settings.grace_seconds);
                            give_way(node, successor, &mut signals, grace, Duration::ZERO).await
                        }
                        None => end(node, &mut signals).await,
                    };
                }
                SignalRequest::Stop => {
                    if let Some(successor) = upgrade.abandon(&node).await {
                        successor.released.for_good();
                    }
                    if let Some(engine) = node.gateway.engine() {
                        engine.stop();
                    }
                    shut_down(node).await;
                    return ExitCode::from(INTERRUPTED);
                }
            },
            successor = upgrade.finished(&node) => {
                if let Some(successor) = successor {
                    has_given_way.store(true, Ordering::Relaxed);
                    let grace = Duration::from_secs(node.settings.upgrade_grace_seconds);
                    let after_term = Duration::from_secs(node.settings.grace_seconds);
                    return give_way(node, successor, &mut signals, grace, after_term).await;
                }
            }
        }
    }
}

fn reload(node: &mut ServingInstance, upgrade: &Upgrade) {
    if upgrade.is_under_way() {
        // Not read, because the listeners are being handed over as they are.
        tracing::warn!("the settings are not read while an upgrade is under way");
    } else {
        node.live.reload(&node.gateway, &node.runner);
    }
    // Last, because new listeners of layer 4 decide whether stream routes are taken.
    node.control.reload();
}

/// The files that USR1 reopens.
struct Logs {
    errors: LogControl,
    access: Arc<[LogWriter]>,
}

impl Logs {
    fn of(node: &ServingInstance) -> Logs {
        Logs { errors: node.log.clone(), access: node.access_logs.clone() }
    }

    fn reopen(&self) {
        self.errors.reopen();
        for writer in &*self.access {
            writer.reopen();
        }
        exchange::observe::reopening::ask();
    }
}

impl OpenLogs for Logs {
    fn reopen(&self) {
        Logs::reopen(self);
        // Rotation asks `are_in` whether a log was slower than this.
        log::flush();
        for writer in &*self.access {
            writer.flush(ACCESS_LOG_FLUSH_LIMIT);
        }
    }

    fn are_in(&self, path: &Path) -> bool {
        self.errors.writes_to(path) || self.access.iter().any(|writer| writer.writes_to(path))
    }
}

/// Ends the instance after TERM or QUIT.
async fn end(node: ServingInstance, signals: &mut Signals) -> ExitCode {
    let grace = Duration::from_secs(node.settings.grace_seconds);
    let delay = Duration::from_secs(node.settings.drain_delay_seconds);
    let limit = delay.saturating_add(grace).saturating_add(STOP_EXTRA);
    notify::notify_service_manager(&notify::stopping(limit));
    let grace = match leave(&node, signals).await {
        Leaving::InTime => grace,
        Leaving::AtOnce => Duration::ZERO,
    };
    tracing::info!(
        grace_seconds = node.settings.grace_seconds,
        "draining: no new connections, open requests may finish"
    );
    let how = move |engine: &Engine, abandon: &dyn Fn() -> bool| engine.drain(grace, abandon);
    drain(node.gateway.clone(), signals, &Logs::of(&node), Duration::ZERO, how).await;
    shut_down(node).await;
    ExitCode::SUCCESS
}

/// Ends the instance after another process has taken over: open requests and connections may go on for
/// `grace`, and for `after_term` once TERM has come.
async fn give_way(
    node: ServingInstance,
    successor: Successor,
    signals: &mut Signals,
    grace: Duration,
    after_term: Duration,
) -> ExitCode {
    let Successor { process, version, released, channel } = successor;
    let grace_seconds = grace.as_secs();
    tracing::info!(process, version, grace_seconds, "another process serves; open requests may finish");
    notify::notify_service_manager(&notify::main_process(process));
    tell(&node, &UpgradeOutcome::HandedOver { to: process, version });
    released.for_good();
    let logs = Logs::of(&node);
    // The lock and the control side's sockets are closed here, because this process would otherwise hold them
    // until its last tunnel ends.
    let (gateway, control, runner) = node.let_go();
    control.stop_listening();
    let is_drained = Arc::new(AtomicBool::new(false));
    let old_side =
        OldSide { channel, control, gateway: gateway.clone(), grace, is_drained: is_drained.clone() };
    let changeover = tokio::task::spawn_blocking(move || old_side.run());
    let how = move |engine: &Engine, abandon: &dyn Fn() -> bool| engine.hand_over(grace, abandon);
    let drained = drain(gateway, signals, &logs, after_term, how).await;
    is_drained.store(true, Ordering::Relaxed);
    drop(runner);
    // Not awaited after a second TERM or INT, because the process then has to end at once.
    if drained == Drained::InTime && changeover.await.is_err() {
        tracing::error!("the control side panicked at its end");
    }
    ExitCode::SUCCESS
}

/// Ends the control side, waits for its threads, and drops all other parts of the instance except the data
/// plane.
async fn shut_down(node: ServingInstance) {
    if tokio::task::spawn_blocking(move || {
        let node = node;
        node.control.shutdown();
    })
    .await
    .is_err()
    {
        tracing::error!("the control side panicked at its end");
    }
}

/// Writes the outcome of an upgrade into the data folder, where `weir upgrade` waits for it.
fn tell(node: &ServingInstance, outcome: &UpgradeOutcome) {
    // Without the lock, `weir upgrade` cannot find this instance by its folder and does not wait there.
    if node.lock().is_some()
        && let Err(error) = write_outcome(&node.settings.data, outcome)
    {
        tracing::warn!(%error, "`weir upgrade` cannot be told what became of it");
    }
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    /// Everything ended by itself.
    InTime,
    /// Open requests or connections were cut.
    Cut,
}

/// Drains the data plane. The first TERM or QUIT shortens the time that is left to `after_term`; the second
/// one, or INT, ends it at once.
async fn drain(
    gateway: Arc<Gateway>,
    signals: &mut Signals,
    logs: &Logs,
    after_term: Duration,
    how: impl FnOnce(&Engine, &dyn Fn() -> bool) -> bool + Send + 'static,
) -> Drained {
    let end: Arc<OnceLock<Instant>> = Arc::default();
    let hurried = Arc::new(AtomicBool::new(false));
    let (its_end, is_hurried) = (end.clone(), hurried.clone());
    let draining = tokio::task::spawn_blocking(move || {
        let abandon =
            || is_hurried.load(Ordering::Relaxed) || its_end.get().is_some_and(|end| *end <= Instant::now());
        gateway.engine().is_none_or(|engine| how(engine, &abandon))
    });
    tokio::pin!(draining);
    loop {
        tokio::select! {
            done = &mut draining => {
                if done.unwrap_or(false) {
                    return Drained::InTime;
                }
                tracing::warn!("some requests had not finished in time and were cut");
                return Drained::Cut;
            }
            asked = signals.next() => match asked {
                SignalRequest::Drain if !after_term.is_zero() && end.set(Instant::now() + after_term).is_ok() => {
                    let grace_seconds = after_term.as_secs();
                    tracing::info!(grace_seconds, "told to end: what is still open may finish in this time");
                }
                SignalRequest::Drain | SignalRequest::Stop => hurried.store(true, Ordering::Relaxed),
                SignalRequest::Reopen => logs.reopen(),
                SignalRequest::Reload | SignalRequest::Upgrade => {}
            }
        }
    }
}

/// The upgrade in progress, if there is one.
#[derive(Default)]
struct Upgrade {
    running: Option<JoinHandle<anyhow::Result<Successor>>>,
    abandoned: Arc<AtomicBool>,
}

impl Upgrade {
    fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    fn begin(&mut self, node: &ServingInstance) {
        if self.is_under_way() {
            return tracing::warn!("an upgrade is under way already");
        }
        tracing::info!("an upgrade was asked for: starting another process in the place of this one");
        match node.offer() {
            Ok(offer) => {
                let abandoned = self.abandoned.clone();
                self.running = Some(tokio::task::spawn_blocking(move || start_successor(&offer, &abandoned)));
            }
            Err(error) => failed(node, &error),
        }
    }

    /// The process that has taken over; none if the upgrade failed, which is logged and reported.
    async fn finished(&mut self, node: &ServingInstance) -> Option<Successor> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let ended = running.await;
        self.running = None;
        match ended {
            Ok(Ok(successor)) => Some(successor),
            Ok(Err(error)) => {
                failed(node, &error);
                None
            }
            Err(panicked) => {
                failed(node, &panicked.into());
                None
            }
        }
    }

    /// Cancels the upgrade in progress; gives the successor if it serves already.
    async fn abandon(&mut self, node: &ServingInstance) -> Option<Successor> {
        self.abandoned.store(true, Ordering::Relaxed);
        if self.is_under_way() { self.finished(node).await } else { None }
    }
}

fn failed(node: &ServingInstance, error: &anyhow::Error) {
    let reason = format!("{error:#}");
    tracing::error!(reason, "the upgrade has failed; this process goes on");
    if let Err(error) = node.announce() {
        tracing::warn!(%error, "cannot write into the lock of the data folder");
    }
    tell(node, &UpgradeOutcome::Failed { reason });
}

enum SignalRequest {
    Reload,
    Reopen,
    Upgrade,
    Drain,
    Stop,
}

struct Signals {
    requests: Requests,
    ends: TerminationSignals,
}

/// The signals that ask a running instance for something.
struct Requests {
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

/// The signals that end the process.
struct TerminationSignals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl Requests {
    fn install() -> std::io::Result<Requests> {
        Ok(Requests {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }
}

impl TerminationSignals {
    fn install() -> std::io::Result<TerminationSignals> {
        Ok(TerminationSignals {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }
}

impl Signals {
    async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.requests.hangup.recv() => SignalRequest::Reload,
            _ = self.requests.user1.recv() => SignalRequest::Reopen,
            _ = self.requests.user2.recv() => SignalRequest::Upgrade,
            _ = self.ends.interrupt.recv() => SignalRequest::Stop,
            _ = self.ends.quit.recv() => SignalRequest::Drain,
            _ = self.ends.terminate.recv() => SignalRequest::Drain,
        }
    }
}

const CANNOT_INSTALL: &str = "cannot install signal handlers";
