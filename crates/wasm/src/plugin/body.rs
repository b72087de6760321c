//! Bodies and trailers on their way through a guest: whole where the guest may wait with them, otherwise
//! piece by piece; pieces that it holds back are kept up to a limit.

use std::rc::Rc;

use exchange::Exchange;
use exchange::plugin::event_stream::is_event_stream;
use exchange::plugin::{BodyNeed, BufferedReply, Portion, ResponseStep};
use message::{FieldId, Headers, syntax};

use super::state::RequestState;
use super::{WasmPlugin, closed};
use crate::abi::{Pairs, StreamSide};
use crate::fault::GuestFault;
use crate::fields::MessageKind;
use crate::limits::{BODY_AUTO_MAX, BODY_BUFFER_MAX};
use crate::properties;
use crate::vm::GuestAction;

/// How a guest sees a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMode {
    /// Short request bodies whole, all others in pieces.
    Auto,
    /// Whole, and longer ones than the limit are refused.
    Buffer,
    /// In pieces.
    Stream,
    /// Not at all.
    Off,
}

impl BodyMode {
    /// The modes with their names.
    pub(crate) const ALL: [(&'static str, BodyMode); 4] = [
        ("auto", BodyMode::Auto),
        ("buffer", BodyMode::Buffer),
        ("stream", BodyMode::Stream),
        ("off", BodyMode::Off),
    ];

    /// The mode of this name; others are `auto`.
    pub(crate) fn of(name: &str) -> BodyMode {
        BodyMode::ALL.iter().find(|(known, _)| *known == name).map_or(BodyMode::Auto, |(_, mode)| *mode)
    }
}

/// Properties by which guests of APISIX ask for whole bodies.
const WHOLE_REQUEST: &[u8] = b"wasm_process_req_body";
const WHOLE_RESPONSE: &[u8] = b"wasm_process_resp_body";

const WHOLE: BodyNeed = BodyNeed::Buffer { limit_bytes: BODY_BUFFER_MAX };

fn held_too_much() -> GuestFault {
    GuestFault::new("body_limit", format!("it holds back more than {BODY_BUFFER_MAX} bytes of a body"))
}

fn is_asked(exchange: &Exchange, property: &[u8]) -> bool {
    properties::custom(exchange, property).is_some_and(|value| !value.is_empty())
}

impl WasmPlugin {
    pub(super) fn request_body_need(&self, exchange: &Exchange) -> BodyNeed {
        let state = exchange.peek_state::<RequestState>();
        if !self.configured.module.has_request_body
            || state.is_some_and(|state| state.has_request_body || state.has_failed)
        {
            return BodyNeed::None;
        }
        match self.request_body {
            BodyMode::Off => BodyNeed::None,
            BodyMode::Stream => BodyNeed::Stream,
            BodyMode::Buffer => WHOLE,
            BodyMode::Auto if is_asked(exchange, WHOLE_REQUEST) => WHOLE,
            BodyMode::Auto if exchange.grpc.is_some() || exchange.decision.is_upgrade => BodyNeed::Stream,
            BodyMode::Auto => {
                let length = exchange.request.headers.get_known(FieldId::ContentLength);
                match length.and_then(syntax::decimal) {
                    Some(0) => BodyNeed::None,
                    Some(1..=BODY_AUTO_MAX) => WHOLE,
                    _ => BodyNeed::Stream,
                }
            }
        }
    }

    /// Whether the body was read whole and the guest is to see it.
    pub(super) fn takes_whole_body(&self, exchange: &Exchange) -> bool {
        self.configured.module.has_request_body
            && self.request_body != BodyMode::Off
            && exchange.request_body().is_some_and(|body| !body.is_empty())
            && !exchange.peek_state::<RequestState>().is_some_and(|state| state.has_request_body)
    }

    /// Gives the guest the whole body of the request and its trailers, and waits while the guest pauses.
    pub(super) async fn whole_request_body(
        &self,
        exchange: &mut Exchange,
    ) -> Result<Option<Box<BufferedReply>>, GuestFault> {
        exchange.state::<RequestState>().has_request_body = true;
        let (cell, context) = self.context(exchange)?;
        let mut body = exchange.request_body().unwrap_or_default().to_vec();
        let mut trailers = exchange.body.prefix().and_then(|prefix| prefix.trailers.clone());
        let before = body.clone();
        let is_end = trailers.is_none();
        let action = cell.enter(Some(exchange), context, |vm| {
            reset(vm, context, StreamSide::Request);
            vm.on_body(context, MessageKind::Request, &mut body, is_end)
        })?;
        if action == GuestAction::Drop {
            body.clear();
        }
        let mut paused = Some(body);
        if let Some(reply) = self.settled(exchange, action, StreamSide::Request, &mut paused).await? {
            return Ok(Some(reply));
        }
        if let Some(known) = &trailers {
            let mut pairs = pairs_of(known);
            let before = pairs.clone();
            let action = cell.enter(Some(exchange), context, |vm| {
                reset(vm, context, StreamSide::Request);
                vm.on_trailers(context, MessageKind::Request, &mut pairs)
            })?;
            if let Some(reply) = self.settled(exchange, action, StreamSide::Request, &mut paused).await? {
                return Ok(Some(reply));
            }
            if pairs != before {
                trailers = Some(Rc::new(headers_of(&pairs)));
            }
        }
        let body = paused.unwrap_or_default();
        if body != before || trailers.is_some() {
            exchange.body.keep_whole(body, trailers.map(|trailers| (*trailers).clone()));
        }
        Ok(None)
    }

    /// The end of a callback that may have replied or paused.
    async fn settled(
        &self,
        exchange: &mut Exchange,
        action: GuestAction,
        side: StreamSide,
        body: &mut Option<Vec<u8>>,
    ) -> Result<Option<Box<BufferedReply>>, GuestFault> {
        let (cell, context) = self.context(exchange)?;
        let reply = cell.enter(None, context, |vm| taken_reply(vm, context))?;
        match (reply, action) {
            (Some(reply), _) => Ok(Some(reply)),
            (None, GuestAction::Continue | GuestAction::Drop) => Ok(None),
            (None, GuestAction::Pause) => self.resumed(exchange, side, body).await,
        }
    }

    /// Gives the guest a piece of a request body that is being sent.
    pub(super) fn piece_of_request(&self, exchange: &mut Exchange, body: &mut Vec<u8>, portion: Portion) {
        if exchange.request_fault.is_some() {
            return body.clear();
        }
        match self.piece(exchange, MessageKind::Request, body, portion) {
            Ok(None) => {}
            Ok(Some(reply)) => {
                body.clear();
                self.answer_upload(exchange, &reply);
            }
            Err(fault) => {
                body.clear();
                self.fail_upload(exchange, &fault);
            }
        }
    }

    /// Gives the guest a piece, in front of it the pieces that it holds back. At the end nothing may be held
    /// back.
    fn piece(
        &self,
        exchange: &mut Exchange,
        head: MessageKind,
        body: &mut Vec<u8>,
        portion: Portion,
    ) -> Result<Option<Box<BufferedReply>>, GuestFault> {
        let (cell, context) = self.context(exchange)?;
        let state = exchange.state::<RequestState>();
        let has_trailers = head == MessageKind::Response && state.has_trailers;
        let held =
            if head == MessageKind::Request { &mut state.request_held } else { &mut state.response_held };
        if !held.is_empty() {
            held.append(body);
            std::mem::swap(held, body);
            held.clear();
        }
        let side = if head == MessageKind::Request { StreamSide::Request } else { StreamSide::Response };
        let is_end = portion == Portion::Last && !has_trailers;
        let (action, continues) = cell.enter(Some(exchange), context, |vm| {
            reset(vm, context, side);
            let action = vm.on_body(context, head, body, is_end)?;
            let stream = vm.host().streams.get_mut(&context);
            Ok((action, stream.is_some_and(|stream| stream.continues[side as usize])))
        })?;
        if let Some(reply) = cell.enter(None, context, |vm| taken_reply(vm, context))? {
            return Ok(Some(reply));
        }
        match action {
            GuestAction::Continue => {}
            GuestAction::Drop => body.clear(),
            GuestAction::Pause if continues => {}
            GuestAction::Pause if portion == Portion::Last => {
                let text = "it pauses at the end of a body that is passed on in pieces; \
                            set `request_body` or `response_body` to `buffer`";
                return Err(GuestFault::new("paused_at_end", text));
            }
            GuestAction::Pause if body.len() > BODY_BUFFER_MAX => return Err(held_too_much()),
            GuestAction::Pause => {
                let state = exchange.state::<RequestState>();
                let held = if head == MessageKind::Request {
                    &mut state.request_held
                } else {
                    &mut state.response_held
                };
                *held = std::mem::take(body);
            }
        }
        Ok(None)
    }

    pub(super) fn response_body_need(&self, exchange: &Exchange) -> BodyNeed {
        let Some(state) = exchange.peek_state::<RequestState>() else { return BodyNeed::None };
        if state.replacement.is_some() {
            return BodyNeed::Stream;
        }
        if !self.configured.module.has_response_body || state.has_failed || exchange.decision.is_upgrade {
            return BodyNeed::None;
        }
        match self.response_body {
            BodyMode::Off => BodyNeed::None,
            // A body without an end is never whole.
            _ if is_event_stream(&exchange.response.headers) => BodyNeed::Stream,
            BodyMode::Buffer => WHOLE,
            BodyMode::Auto if is_asked(exchange, WHOLE_RESPONSE) => WHOLE,
            BodyMode::Auto | BodyMode::Stream => BodyNeed::Stream,
        }
    }

    /// Gives the guest a piece of the response body, or the whole.
    pub(super) fn piece_of_response<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        let is_whole = self.response_body_need(exchange) == WHOLE;
        let state = exchange.state::<RequestState>();
        if let Some(replacement) = &mut state.replacement {
            body.clear();
            if portion == Portion::Last {
                *body = std::mem::take(replacement);
            }
            return ResponseStep::Done;
        }
        if is_whole {
            return ResponseStep::Wait(Box::pin(self.whole_response_body(exchange, body)));
        }
        match self.piece(exchange, MessageKind::Response, body, portion) {
            Ok(None) => ResponseStep::Done,
            Ok(Some(reply)) => self.end_response(exchange, body, Ok(*reply)),
            Err(fault) => self.end_response(exchange, body, Err(fault)),
        }
    }

    /// Puts a reply in place of a response. Of one that was begun the rest is cut, because a wait on a piece
    /// cuts it.
    fn end_response<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        ended: Result<BufferedReply, GuestFault>,
    ) -> ResponseStep<'a> {
        match ended {
            Ok(reply) => self.replace_response(exchange, reply),
            Err(fault) => self.fail_response(exchange, &fault),
        }
        ResponseStep::Wait(Box::pin(async move {
            *body = exchange.state::<RequestState>().replacement.take().unwrap_or_default();
        }))
    }

    async fn whole_response_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>) {
        let ended = match self.wait_for_response(exchange, body).await {
            Ok(None) => return,
            Ok(Some(reply)) => Ok(*reply),
            Err(fault) => Err(fault),
        };
        match ended {
            Ok(reply) => self.replace_response(exchange, reply),
            Err(fault) => self.fail_response(exchange, &fault),
        }
        *body = exchange.state::<RequestState>().replacement.take().unwrap_or_default();
    }

    async fn wait_for_response(
        &self,
        exchange: &mut Exchange,
        body: &mut Vec<u8>,
    ) -> Result<Option<Box<BufferedReply>>, GuestFault> {
        let (cell, context) = self.context(exchange)?;
        let is_end = !exchange.state::<RequestState>().has_trailers;
        let action = cell.enter(Some(exchange), context, |vm| {
            reset(vm, context, StreamSide::Response);
            vm.on_body(context, MessageKind::Response, body, is_end)
        })?;
        if action == GuestAction::Drop {
            body.clear();
        }
        let mut paused = Some(std::mem::take(body));
        let reply = self.settled(exchange, action, StreamSide::Response, &mut paused).await?;
        *body = paused.unwrap_or_default();
        Ok(reply)
    }

    /// Gives the guest the trailers of the response. They come before the last piece of the body, so that a
    /// wait is not possible.
    pub(super) fn trailers_of_response(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        let Some(state) = exchange.peek_state::<RequestState>() else { return };
        if trailers.is_empty() || state.has_failed || state.held.is_none() || state.replacement.is_some() {
            return;
        }
        let mut pairs = pairs_of(trailers);
        let before = pairs.clone();
        let given = self.context(exchange).and_then(|(cell, context)| {
            cell.enter(Some(exchange), context, |vm| {
                vm.on_trailers(context, MessageKind::Response, &mut pairs)
            })
        });
        match given {
            Ok(_) => {
                exchange.state::<RequestState>().has_trailers = true;
                if pairs != before {
                    *trailers = headers_of(&pairs);
                }
            }
            Err(fault) => {
                let failure = self.note(exchange, &fault);
                exchange.failure.get_or_insert(failure);
            }
        }
    }
}

/// Forgets that the guest has continued a side: that counts only from its next pause on.
fn reset(vm: &mut crate::vm::Vm, context: u32, side: StreamSide) {
    if let Some(stream) = vm.host().streams.get_mut(&context) {
        stream.continues[side as usize] = false;
    }
}

fn taken_reply(vm: &mut crate::vm::Vm, context: u32) -> Result<Option<Box<BufferedReply>>, GuestFault> {
    let Some(stream) = vm.host().streams.get_mut(&context) else { return Ok(None) };
    if stream.is_closed { Err(closed()) } else { Ok(stream.reply.take()) }
}

fn pairs_of(headers: &Headers) -> Pairs {
    headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec())).collect()
}

/// Fields of these pairs; those that cannot stand in a message are left out.
fn headers_of(pairs: &Pairs) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in pairs {
        if let Ok(name) = str::from_utf8(name)
            && !FieldId::of(name.as_bytes()).is_forbidden_in_trailers()
        {
            let _ = headers.append(name, value);
        }
    }
    headers
}
