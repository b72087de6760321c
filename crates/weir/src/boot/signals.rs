//! What the node does when it is sent a signal, from its start to its end: HUP reloads, USR1 opens the logs anew, TERM
//! and QUIT drain, INT or a second TERM end it at once.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use control::Control;
use gateway::observe::access_log::LogWriter;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::bridge::Gateway;
use super::live::LiveSettings;
use crate::log::LogControl;
use crate::settings::Settings;

/// Exit code after an end without draining, as shells report a process that INT ended.
const INTERRUPTED: u8 = 130;

/// Obeys signals until one of them ends the node.
///
/// # Errors
/// When the handlers cannot be installed.
pub(super) fn serve(
    settings: &Settings,
    mut live: LiveSettings,
    control: &Control,
    gateway: &Arc<Gateway>,
    log: &LogControl,
    access_log: Option<&LogWriter>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::install().context("cannot install signal handlers")?;
        loop {
            match signals.next().await {
                Asked::Reload => {
                    control.reload();
                    live.reload(gateway);
                }
                Asked::Reopen => reopen(log, access_log),
                Asked::Upgrade => tracing::error!("USR2 asks for a binary upgrade, which this version cannot do; start the new binary after this one has stopped"),
                Asked::Drain => return Ok(drain(settings, gateway, &mut signals).await),
                Asked::Stop => {
                    if let Some(engine) = gateway.engine() {
                        engine.stop();
                    }
                    return Ok(ExitCode::from(INTERRUPTED));
                }
            }
        }
    })
}

fn reopen(log: &LogControl, access_log: Option<&LogWriter>) {
    if let Err(error) = log.reopen() {
        tracing::error!(%error, "cannot open the error log anew; writing to the old one");
    }
    if let Some(writer) = access_log {
        writer.reopen();
    }
}

async fn drain(settings: &Settings, gateway: &Arc<Gateway>, signals: &mut Signals) -> ExitCode {
    let grace = Duration::from_secs(settings.grace_seconds);
    tracing::info!(
        grace_seconds = settings.grace_seconds,
        "draining: no new connections, open requests may finish"
    );
    let hurried = Arc::new(AtomicBool::new(false));
    let (engine, abandon) = (gateway.clone(), hurried.clone());
    let draining = tokio::task::spawn_blocking(move || {
        engine.engine().is_none_or(|engine| engine.drain(grace, &|| abandon.load(Ordering::Relaxed)))
    });
    tokio::pin!(draining);
    loop {
        tokio::select! {
            done = &mut draining => {
                if !done.unwrap_or(false) {
                    tracing::warn!("some requests had not finished in time and were cut");
                }
                return ExitCode::SUCCESS;
            }
            asked = signals.next() => {
                if matches!(asked, Asked::Drain | Asked::Stop) {
                    hurried.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

enum Asked {
    Reload,
    Reopen,
    Upgrade,
    Drain,
    Stop,
}

struct Signals {
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.quit.recv() => Asked::Drain,
            _ = self.terminate.recv() => Asked::Drain,
            _ = self.user1.recv() => Asked::Reopen,
            _ = self.user2.recv() => Asked::Upgrade,
        }
    }
}
