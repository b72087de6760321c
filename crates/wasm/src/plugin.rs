//! A guest as a plugin: the phases of a request become its callbacks, and its pauses become waits that block
//! no worker.

mod body;
mod outcome;
mod session;
mod state;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::events::EventCounter;
use exchange::plugin::outbound::DestinationOpener;
use exchange::plugin::{BodyNeed, BufferedReply, Flow, PhaseDecision, Plugin, Portion, ResponseStep};
use message::{FieldId, Headers, Method};

use crate::abi::StreamSide;
use crate::cell::{Resumed, VmCell};
use crate::fault::GuestFault;
use crate::fields::MessageKind;
use crate::language::RequestPhase;
use crate::module::CompiledModule;
use crate::pool::InstancePool;
use crate::vm::GuestAction;

pub(crate) use body::BodyMode;
pub(crate) use outcome::FaultCounters;
pub(crate) use session::WasmStreamPlugin;
use state::{ContextGuard, RequestState};

/// A configuration of a module.
pub(crate) struct Configured {
    /// A number that no other configuration of the process has.
    pub number: u64,
    pub module: Arc<CompiledModule>,
    /// The configuration as the guest gets it.
    pub text: Arc<[u8]>,
    pub opener: DestinationOpener,
    pub background_faults: EventCounter,
}

/// See the module.
pub(crate) struct WasmPlugin {
    pub configured: Arc<Configured>,
    pub phase: RequestPhase,
    pub request_body: BodyMode,
    pub response_body: BodyMode,
    pub counters: FaultCounters,
}

/// The guest's decision about a head.
enum Headed {
    Continue,
    Pause,
    Reply(Box<BufferedReply>),
}

impl WasmPlugin {
    /// The instance of this worker and the context of this request in it, made on first use.
    fn context(&self, exchange: &mut Exchange) -> Result<(Rc<VmCell>, u32), GuestFault> {
        let state = exchange.state::<RequestState>();
        if let Some(held) = &state.held {
            return Ok((held.cell.clone(), held.context));
        }
        if state.has_failed {
            return Err(GuestFault::new("instance_gone", "it has failed for this request before"));
        }
        let local = exchange.local().clone();
        let pool = local.resource(InstancePool::default);
        let (cell, root) = pool.instance(&local, &self.configured)?;
        let context = cell.enter(None, 0, |vm| vm.open(root, false))?;
        exchange.state::<RequestState>().held = Some(ContextGuard { cell: cell.clone(), context });
        Ok((cell, context))
    }

    /// Gives the guest a head.
    fn head(&self, exchange: &mut Exchange, head: MessageKind) -> Result<Headed, GuestFault> {
        let (cell, context) = self.context(exchange)?;
        let is_end = match head {
            MessageKind::Request => !has_body(exchange),
            MessageKind::Response => has_no_response_body(exchange),
        };
        let fields = head.count(exchange);
        let side = if head == MessageKind::Request { StreamSide::Request } else { StreamSide::Response };
        let headed = cell.enter(Some(exchange), context, |vm| {
            if let Some(stream) = vm.host().streams.get_mut(&context) {
                stream.continues[side as usize] = false;
            }
            let action = vm.on_head(context, head, fields, is_end)?;
            let Some(stream) = vm.host().streams.get_mut(&context) else { return Ok(Headed::Continue) };
            if stream.is_closed {
                return Err(closed());
            }
            Ok(match (stream.reply.take(), action) {
                (Some(reply), _) => Headed::Reply(reply),
                (None, GuestAction::Continue) => Headed::Continue,
                // It has continued the request before it paused it.
                (None, _) if std::mem::take(&mut stream.continues[side as usize]) => Headed::Continue,
                (None, _) => Headed::Pause,
            })
        })?;
        exchange.local().resource(InstancePool::default).succeeded(self.configured.module.number);
        Ok(headed)
    }

    /// Waits until the guest continues the request; answers of its calls reach it meanwhile, and it may
    /// change `body`.
    async fn resumed(
        &self,
        exchange: &mut Exchange,
        side: StreamSide,
        body: &mut Option<Vec<u8>>,
    ) -> Result<Option<Box<BufferedReply>>, GuestFault> {
        let (cell, context) = self.context(exchange)?;
        let resumed = poll_fn(|cx| cell.poll_resumed(cx, exchange, context, side, body)).await?;
        match resumed {
            Resumed::Continue => Ok(None),
            Resumed::Reply(reply) => Ok(Some(reply)),
            Resumed::Closed => Err(closed()),
        }
    }

    fn request<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.head(exchange, MessageKind::Request) {
            Err(fault) => Flow::Reply(self.refused(exchange, &fault)),
            Ok(Headed::Reply(reply)) => Flow::Reply(reply),
            Ok(Headed::Continue) if !self.takes_whole_body(exchange) => Flow::Continue,
            Ok(headed) => Flow::Wait(Box::pin(async move {
                match self.rest_of_request(exchange, matches!(headed, Headed::Pause)).await {
                    Ok(None) => PhaseDecision::Continue,
                    Ok(Some(reply)) => PhaseDecision::Reply(reply),
                    Err(fault) => PhaseDecision::Reply(self.refused(exchange, &fault)),
                }
            })),
        }
    }

    async fn rest_of_request(
        &self,
        exchange: &mut Exchange,
        is_paused: bool,
    ) -> Result<Option<Box<BufferedReply>>, GuestFault> {
        if is_paused && let Some(reply) = self.resumed(exchange, StreamSide::Request, &mut None).await? {
            return Ok(Some(reply));
        }
        if self.takes_whole_body(exchange) {
            return self.whole_request_body(exchange).await;
        }
        Ok(None)
    }
}

fn closed() -> GuestFault {
    GuestFault::new("closed", "it closes the request (proxy_close_stream)")
}

/// Whether a body follows the head of the request, as far as the head says it: HTTP/2 and HTTP/3 need not.
fn has_body(exchange: &Exchange) -> bool {
    if let Some(body) = exchange.request_body() {
        return !body.is_empty();
    }
    let headers = &exchange.request.headers;
    match headers.get_known(FieldId::ContentLength) {
        Some(length) => length != b"0",
        None if headers.contains_known(FieldId::TransferEncoding) => true,
        None => {
            !matches!(exchange.request.method, Method::Get | Method::Head | Method::Delete | Method::Options)
                && exchange.request.version >= message::Version::Http2
        }
    }
}

/// Whether the response has no body, as far as its head says it.
fn has_no_response_body(exchange: &Exchange) -> bool {
    matches!(exchange.response.status, 204 | 304)
        || exchange.request.method == Method::Head
        || exchange.response.headers.get_known(FieldId::ContentLength) == Some(b"0")
}

impl Plugin for WasmPlugin {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.request(exchange)
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.phase == RequestPhase::Access {
            return self.request(exchange);
        }
        if !self.takes_whole_body(exchange) {
            return Flow::Continue;
        }
        Flow::Wait(Box::pin(async move {
            match self.whole_request_body(exchange).await {
                Ok(None) => PhaseDecision::Continue,
                Ok(Some(reply)) => PhaseDecision::Reply(reply),
                Err(fault) => PhaseDecision::Reply(self.refused(exchange, &fault)),
            }
        }))
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        self.request_body_need(exchange)
    }

    fn request_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>, portion: Portion) {
        self.piece_of_request(exchange, body, portion);
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        if exchange.peek_state::<RequestState>().is_some_and(|state| state.has_failed) {
            return ResponseStep::Done;
        }
        match self.head(exchange, MessageKind::Response) {
            Ok(Headed::Continue) => ResponseStep::Done,
            Ok(Headed::Reply(reply)) => {
                self.replace_response(exchange, *reply);
                ResponseStep::Done
            }
            Ok(Headed::Pause) => ResponseStep::Wait(Box::pin(async move {
                match self.resumed(exchange, StreamSide::Response, &mut None).await {
                    Ok(None) => {}
                    Ok(Some(reply)) => self.replace_response(exchange, *reply),
                    Err(fault) => self.fail_response(exchange, &fault),
                }
            })),
            Err(fault) => {
                self.fail_response(exchange, &fault);
                ResponseStep::Done
            }
        }
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        self.response_body_need(exchange)
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        self.piece_of_response(exchange, body, portion)
    }

    fn response_trailers(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        self.trailers_of_response(exchange, trailers);
    }

    /// The guest's log, and the end of its context: here it can still read the exchange.
    fn before_log(&self, exchange: &mut Exchange) {
        let Some(held) = exchange.state::<RequestState>().held.take() else { return };
        if held.cell.is_broken() {
            return;
        }
        let context = held.context;
        let ended = held.cell.enter(Some(exchange), context, |vm| {
            let is_done = vm.on_done(context)?;
            vm.on_log(context)?;
            if is_done { vm.delete(context) } else { Ok(()) }
        });
        if let Err(fault) = ended {
            self.note(exchange, &fault);
        }
    }
}
