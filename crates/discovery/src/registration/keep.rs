//! Keeps the instance registered: registers it once it is ready, renews the registration, registers it again
//! after a loss, and takes it out when it is to leave. It does not know the registries.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::state::States;
use super::{Registrar, Renewal};
use crate::publish::RegistryBackoff;

/// The state that is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistrationPhase {
    Registered,
    Withdrawing,
}

/// A registration that is kept.
#[derive(Clone)]
pub(super) struct KeptRegistration {
    pub(super) name: &'static str,
    pub(super) registrar: Arc<dyn Registrar>,
}

/// Keeps all registrations until the thread is stopped.
pub(super) async fn keep_registrations(
    all: Vec<KeptRegistration>,
    states: Arc<States>,
    is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    phase: watch::Receiver<RegistrationPhase>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    for kept in all {
        tasks.spawn(restarting(kept, Arc::clone(&states), Arc::clone(&is_ready), phase.clone()));
    }
    // An error means that the owner of the thread is gone.
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

/// Keeps one registration; begins again after a panic, which is a fault of the gateway.
async fn restarting(
    kept: KeptRegistration,
    states: Arc<States>,
    is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    phase: watch::Receiver<RegistrationPhase>,
) {
    loop {
        // A task of its own, aborted with this one, so that a panic ends only that task.
        let mut task = JoinSet::new();
        task.spawn(keep(kept.clone(), Arc::clone(&states), Arc::clone(&is_ready), phase.clone()));
        match task.join_next().await {
            Some(Err(fault)) if fault.is_panic() => {
                states.failed(kept.name, "it panicked, which is a fault of the gateway");
                tokio::time::sleep(RESTART_AFTER).await;
            }
            _ => return,
        }
    }
}

/// Keeps one registration until it is withdrawn.
async fn keep(
    kept: KeptRegistration,
    states: Arc<States>,
    is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    mut phase: watch::Receiver<RegistrationPhase>,
) {
    let mut reached = Reached::Nothing;
    while !is_ready() && wait(READY_POLL, &mut phase).await {}
    // Calls are not broken off when the phase changes, because a registration that is still on its way could
    // reach the registry after the withdrawal.
    let mut pause = RegistryBackoff::default();
    while *phase.borrow_and_update() == RegistrationPhase::Registered {
        let renewal = match reached {
            Reached::Registered => kept.registrar.renew().await,
            Reached::Nothing | Reached::Asked => {
                reached = Reached::Asked;
                kept.registrar.register().await.map(|()| Renewal::Kept)
            }
        };
        let next = match renewal {
            Ok(Renewal::Kept) => {
                reached = Reached::Registered;
                states.registered(kept.name);
                pause.reset();
                kept.registrar.interval()
            }
            Ok(Renewal::Lost) => {
                reached = Reached::Asked;
                states.lost(kept.name);
                // The registration comes first; the renewal after it waits for the interval.
                Duration::ZERO
            }
            Err(reason) => {
                states.failed(kept.name, &reason);
                pause.next().min(kept.registrar.interval())
            }
        };
        wait(next, &mut phase).await;
    }
    let outcome = match reached {
        Reached::Nothing => Ok(()),
        Reached::Asked => kept.registrar.withdraw().await,
        Reached::Registered => withdraw(&kept).await,
    };
    states.withdrawn(kept.name, outcome.err());
}

/// How far the calls to the registry came.
#[derive(Clone, Copy)]
enum Reached {
    Nothing,
    /// It was asked to register the instance, and may have done so.
    Asked,
    Registered,
}

/// Takes the instance out, by several attempts.
async fn withdraw(kept: &KeptRegistration) -> Result<(), String> {
    let mut pause = RegistryBackoff::default();
    let mut outcome = Ok(());
    for _ in 0..WITHDRAW_ATTEMPTS {
        outcome = kept.registrar.withdraw().await;
        if outcome.is_ok() {
            return outcome;
        }
        pause.wait().await;
    }
    outcome
}

/// Waits, at most until the phase changes; false if it has changed.
async fn wait(limit: Duration, phase: &mut watch::Receiver<RegistrationPhase>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(limit) => true,
        // An error means that the owner of the thread is gone, which ends this task.
        _ = phase.wait_for(|phase| *phase == RegistrationPhase::Withdrawing) => false,
    }
}

/// How often an instance that is not ready is looked at.
const READY_POLL: Duration = Duration::from_millis(20);
/// Pause after a panic.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Attempts to take the instance out of a registry that refuses it or does not answer.
const WITHDRAW_ATTEMPTS: usize = 4;
