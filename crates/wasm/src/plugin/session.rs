//! A guest in sessions of layer 4: it is told of each new one, sees its first bytes, and of its end. Later
//! bytes pass no guest.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::local::WorkerLocal;
use exchange::plugin::stream::{SessionEnd, StreamFlow, StreamPlugin, StreamSession};

use super::state::ContextGuard;
use super::{Configured, FaultCounters};
use crate::cell::{CallSubject, SessionResumed, VmCell};
use crate::fault::GuestFault;
use crate::pool::InstancePool;
use crate::vm::GuestAction;

/// The peer that has closed a session, as guests are told it.
const CLOSED_BY_GATEWAY: i32 = 1;
const CLOSED_BY_CLIENT: i32 = 2;

/// See the module.
pub(crate) struct WasmStreamPlugin {
    pub configured: Arc<Configured>,
    /// The guest sees the first bytes of sessions.
    pub sees_data: bool,
    pub counters: FaultCounters,
}

/// The state of a guest for one session.
struct SessionState {
    /// The number of the configuration.
    number: u64,
    held: RefCell<Option<ContextGuard>>,
    /// How far the session is.
    stage: Cell<SessionStage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionStage {
    /// The guest has not let the connection pass.
    New,
    /// The guest waits for first bytes.
    Data,
    /// A call has failed; the guest is not called again.
    Failed,
}

/// A step of a session, as the guest has decided it.
enum Stepped {
    Continue,
    Closed,
    /// It waits for an answer or for more bytes.
    Paused,
}

impl WasmStreamPlugin {
    fn state(&self, session: &StreamSession) -> Option<Rc<SessionState>> {
        let is_own = |state: &&SessionState| state.number == self.configured.number;
        let held = &session.held;
        let index = held.iter().position(|held| held.downcast_ref().as_ref().is_some_and(is_own))?;
        held[index].clone().downcast().ok()
    }

    /// The state of the session, made on first use with a context in the instance of this worker.
    fn begun(&self, session: &mut StreamSession) -> Result<Rc<SessionState>, GuestFault> {
        if let Some(state) = self.state(session) {
            return Ok(state);
        }
        let held = RefCell::default();
        session.hold(SessionState {
            number: self.configured.number,
            held,
            stage: Cell::new(SessionStage::New),
        });
        let gone = || GuestFault::new("instance_gone", "the session has no worker");
        let state = self.state(session).ok_or_else(gone)?;
        let local = session.find_held::<WorkerLocal>().ok_or_else(gone)?;
        let (cell, root) = local.resource(InstancePool::default).instance(&local, &self.configured)?;
        let context = cell.enter(None, 0, |vm| vm.open(root, true))?;
        *state.held.borrow_mut() = Some(ContextGuard { cell, context });
        Ok(state)
    }

    /// Lets the guest decide on what is there.
    fn step(
        &self,
        session: &mut StreamSession,
        cell: &VmCell,
        context: u32,
        stage: SessionStage,
    ) -> Result<Stepped, GuestFault> {
        let bytes = if stage == SessionStage::Data { session.first_bytes.clone() } else { Vec::new() };
        cell.enter_with(CallSubject::Session(session), context, |vm| {
            if let Some(stream) = vm.host().streams.get_mut(&context) {
                stream.continues = Default::default();
            }
            let action = match stage {
                SessionStage::Data => vm.on_downstream_data(context, &bytes)?,
                _ => vm.on_new_connection(context)?,
            };
            let gone = || GuestFault::new("instance_gone", "its context is gone");
            let stream = vm.host().streams.get(&context).ok_or_else(gone)?;
            Ok(match action {
                _ if stream.is_closed => Stepped::Closed,
                GuestAction::Continue => Stepped::Continue,
                _ => Stepped::Paused,
            })
        })
    }

    /// Goes through the stages of the session as far as its first bytes reach.
    async fn decide(&self, session: &mut StreamSession) -> Result<StreamFlow<'static>, GuestFault> {
        let state = self.begun(session)?;
        let held = state.held.borrow().as_ref().map(|held| (held.cell.clone(), held.context));
        let gone = || GuestFault::new("instance_gone", "it has failed for this session before");
        let (cell, context) = held.ok_or_else(gone)?;
        loop {
            let stage = state.stage.get();
            if stage == SessionStage::Data && session.first_bytes.is_empty() {
                return Ok(StreamFlow::More);
            }
            let mut stepped = self.step(session, &cell, context, stage)?;
            if matches!(stepped, Stepped::Paused) {
                stepped = match poll_fn(|cx| cell.poll_session(cx, session, context)).await? {
                    SessionResumed::Continue => Stepped::Continue,
                    SessionResumed::Closed => Stepped::Closed,
                    SessionResumed::Idle => Stepped::Paused,
                };
            }
            match (stepped, stage) {
                (Stepped::Closed, _) => {
                    let name = self.configured.module.identity.name;
                    let reason = format!("the plugin {name} closes the session (proxy_close_stream)");
                    return Ok(StreamFlow::Reject(reason.into()));
                }
                // As in Envoy, a guest that pauses a connection sees its bytes.
                (_, SessionStage::New) if self.sees_data => state.stage.set(SessionStage::Data),
                (Stepped::Paused, SessionStage::New) => {
                    let text = "it pauses a connection, and neither a call nor first bytes could continue it";
                    return Err(GuestFault::new("paused", text));
                }
                (Stepped::Paused, _) => return Ok(StreamFlow::More),
                (Stepped::Continue, _) => return Ok(StreamFlow::Continue),
            }
        }
    }

    fn note(&self, session: &StreamSession, fault: &GuestFault) {
        let plugin = self.configured.module.identity.name;
        self.counters.of(fault.code).fetch_add(1, Ordering::Relaxed);
        if fault.ends_instance {
            if let Some(local) = session.find_held::<WorkerLocal>() {
                local.resource(InstancePool::default).failed(self.configured.module.number);
            }
            tracing::error!(target: "wasm", plugin, cause = fault.code, "the instance is ended: {}", fault.text);
        } else {
            tracing::debug!(target: "wasm", plugin, cause = fault.code, "{}", fault.text);
        }
        if let Some(state) = self.state(session) {
            state.stage.set(SessionStage::Failed);
        }
    }
}

impl StreamPlugin for WasmStreamPlugin {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        StreamFlow::Wait(Box::pin(async move {
            match self.decide(session).await {
                Ok(flow) => {
                    if let Some(local) = session.find_held::<WorkerLocal>() {
                        local.resource(InstancePool::default).succeeded(self.configured.module.number);
                    }
                    flow
                }
                Err(fault) => {
                    self.note(session, &fault);
                    let plugin = self.configured.module.identity.name;
                    let detail = format!("the plugin {plugin} failed ({}): {}", fault.code, fault.text);
                    StreamFlow::Failed(detail.into())
                }
            }
        }))
    }

    /// The context ends here.
    fn log(&self, session: &StreamSession) {
        let Some(state) = self.state(session) else { return };
        let Some(held) = state.held.take() else { return };
        if held.cell.is_broken() || state.stage.get() == SessionStage::Failed {
            return;
        }
        let closed_by = match session.end {
            Some(SessionEnd::Closed | SessionEnd::ClientReset | SessionEnd::PrereadClosed) => {
                CLOSED_BY_CLIENT
            }
            _ => CLOSED_BY_GATEWAY,
        };
        let context = held.context;
        let ended = held.cell.enter_with(CallSubject::EndedSession(session), context, |vm| {
            vm.on_downstream_close(context, closed_by)?;
            let is_done = vm.on_done(context)?;
            vm.on_log(context)?;
            if is_done { vm.delete(context) } else { Ok(()) }
        });
        if let Err(fault) = ended {
            self.note(session, &fault);
        }
    }

    fn uses_worker(&self) -> bool {
        true
    }
}
