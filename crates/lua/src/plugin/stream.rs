//! A plugin in Lua in sessions of layer 4: its function `preread` lets a session go on or refuses it, `log`
//! sees its end. A function that waits for first bytes is put aside until the client has sent them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use exchange::local::WorkerLocal;
use exchange::plugin::stream::{StreamFlow, StreamPhase, StreamPlugin, StreamSession};
use exchange::plugin::upstream_ref::UpstreamRef;
use mlua::{MultiValue, Table, Value};

use super::{Begun, FunctionArguments, LuaPlugin};
use crate::ngx::text_of;
use crate::runtime::call::ProgramCall;
use crate::runtime::program::{EntryPoint, ProgramInstance};
use crate::runtime::state::Reach;
use crate::runtime::tables::ContextTables;

/// Bytes of the text that a function returns beside its status, as the reason of a refusal keeps it.
const REASON_MAX_BYTES: usize = 256;
/// `ngx.OK` and `ngx.DECLINED`, with which a function ends itself and not the session.
const GOES_ON: [i64; 2] = [0, -5];

/// See the module.
pub(crate) struct LuaStreamPlugin(LuaPlugin);

/// A call that waits for more first bytes than its session has.
struct Suspended {
    /// The number of the instance.
    number: u64,
    begun: RefCell<Option<Begun>>,
}

/// The phases of sessions in which a program with these functions takes part. A program that would be called
/// for requests only, with `log` beside, is no plugin of sessions: its checks would not run.
pub(crate) fn stream_phases(entries: &[EntryPoint]) -> &'static [StreamPhase] {
    match (entries.contains(&EntryPoint::Preread), entries.contains(&EntryPoint::Log)) {
        (true, true) => &[StreamPhase::Preread, StreamPhase::Log],
        (true, false) => &[StreamPhase::Preread],
        (false, true) if !has_requests(entries) => &[StreamPhase::Log],
        (false, _) => &[],
    }
}

/// Whether a program with these functions may serve requests: not if it decides about sessions alone.
pub(crate) fn serves_http(entries: &[EntryPoint]) -> bool {
    has_requests(entries) || !entries.contains(&EntryPoint::Preread)
}

fn has_requests(entries: &[EntryPoint]) -> bool {
    entries.iter().any(|entry| match entry {
        EntryPoint::Rewrite
        | EntryPoint::Access
        | EntryPoint::BeforeProxy
        | EntryPoint::HeaderFilter
        | EntryPoint::BodyFilter
        | EntryPoint::DelayedBodyFilter
        | EntryPoint::Api
        | EntryPoint::ControlApi => true,
        EntryPoint::Preread
        | EntryPoint::Log
        | EntryPoint::Init
        | EntryPoint::Destroy
        | EntryPoint::CheckSchema => false,
    })
}

impl LuaStreamPlugin {
    pub(crate) fn new(instance: Arc<ProgramInstance>, entries: Vec<EntryPoint>) -> LuaStreamPlugin {
        LuaStreamPlugin(LuaPlugin::new(instance, entries, FunctionArguments::ConfigAndContext, false))
    }

    fn note(&self, session: &StreamSession, entry: EntryPoint, reason: &str) {
        let now_ms = session.find_held::<WorkerLocal>().map_or(0, |local| local.now_ms());
        self.0.note_at(now_ms, entry, reason);
    }

    /// The call that was put aside, or a new one; none if the program has no function for it.
    fn begun(&self, session: &mut StreamSession) -> Result<Option<Begun>, String> {
        if let Some(begun) = self.place(session).and_then(|suspended| suspended.begun.take()) {
            return Ok(Some(begun));
        }
        let tables = ContextTables::of_session(session)?;
        self.0.begin(&tables, EntryPoint::Preread, None, &mut Reach::EditSession(session))
    }

    /// The place of this instance for a call that waits.
    fn place<'s>(&self, session: &'s StreamSession) -> Option<&'s Suspended> {
        let mut places = session.held.iter().filter_map(|held| held.downcast_ref::<Suspended>());
        places.find(|suspended| suspended.number == self.0.instance.number)
    }

    fn suspend(&self, session: &mut StreamSession, begun: Begun) {
        match self.place(session) {
            Some(suspended) => *suspended.begun.borrow_mut() = Some(begun),
            None => {
                let number = self.0.instance.number;
                session.hold(Suspended { number, begun: RefCell::new(Some(begun)) });
            }
        }
    }

    fn failed(&self, session: &StreamSession, reason: &str) -> StreamFlow<'static> {
        self.note(session, EntryPoint::Preread, reason);
        StreamFlow::Failed(format!("the plugin {} failed: {reason}", self.0.instance.name).into())
    }

    /// How the session goes on behind a call. As in APISIX, a function that returns anything refuses it.
    fn outcome(
        &self,
        session: &mut StreamSession,
        call: &ProgramCall,
        result: Result<MultiValue, String>,
    ) -> StreamFlow<'static> {
        let mut values = match result {
            Ok(values) => values,
            Err(reason) => return self.failed(session, &reason),
        };
        let is_given = |value: &Value| !matches!(value, Value::Nil | Value::Boolean(false));
        let exit = call.exit.get().filter(|status| !GOES_ON.contains(status)).map(Value::Integer);
        let code = exit.or_else(|| values.pop_front().filter(is_given));
        let body = values.pop_front().filter(is_given);
        let tables = call.tables.borrow().clone();
        let context = tables.as_ref().and_then(|tables| tables.context().ok());
        if code.is_none() && body.is_none() {
            if let Some(context) = context {
                take_choices(context, session);
            }
            return StreamFlow::Continue;
        }
        let name = self.0.instance.name;
        let mut reason = format!("the plugin {name} refuses the session");
        if let Some(code) = code.as_ref().and_then(text_of) {
            reason = format!("the plugin {name} exits with status code {}", String::from_utf8_lossy(&code));
        }
        if let Some(text) = body.as_ref().and_then(text_of) {
            let text = &text[..text.len().min(REASON_MAX_BYTES)];
            reason = format!("{reason}: {}", String::from_utf8_lossy(text));
        }
        if let (Some(context), Some(code)) = (context, code)
            && let Err(error) = context.raw_set("stream_rejected_code", code)
        {
            return self.failed(session, &crate::describe(&error));
        }
        StreamFlow::Reject(reason.into())
    }
}

/// Takes the fields of the context over that decide where the session goes: `upstream_id`, and
/// `mqtt_client_id`, which is a key of balancers.
fn take_choices(context: &Table, session: &mut StreamSession) {
    let field = |name: &str| {
        let text = text_of(&context.raw_get::<Value>(name).ok()?)?;
        String::from_utf8(text).ok()
    };
    if let Some(id) = field("upstream_id") {
        session.chosen_upstream = Some(UpstreamRef::by_id(&id));
    }
    if let Some(client) = field("mqtt_client_id") {
        session.mqtt_client_id = Some(client.into());
    }
}

impl StreamPlugin for LuaStreamPlugin {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        if !self.0.has(EntryPoint::Preread) {
            return StreamFlow::Continue;
        }
        let mut begun = match self.begun(session) {
            Ok(Some(begun)) => begun,
            Ok(None) => return StreamFlow::Continue,
            Err(reason) => return self.failed(session, &reason),
        };
        if let Some(result) = begun.run.take_finished() {
            return self.outcome(session, &begun.call, result);
        }
        StreamFlow::Wait(Box::pin(async move {
            let ended = poll_fn(|cx| {
                begun.call.wants_bytes.set(false);
                begun.call.first_bytes.set(session.first_bytes.len());
                match begun.run.poll(cx, &mut Reach::EditSession(session)) {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    Poll::Pending if begun.call.wants_bytes.get() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            match ended.await {
                Some(result) => self.outcome(session, &begun.call, result),
                None => {
                    self.suspend(session, begun);
                    StreamFlow::More
                }
            }
        }))
    }

    fn log(&self, session: &StreamSession) {
        if !self.0.has(EntryPoint::Log) {
            return;
        }
        let reach = &mut Reach::ReadSession(session);
        let done = ContextTables::of_ended_session(session)
            .and_then(|tables| self.0.at_once(&tables, EntryPoint::Log, None, reach));
        if let Err(reason) = done {
            self.note(session, EntryPoint::Log, &reason);
        }
    }

    fn uses_worker(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
