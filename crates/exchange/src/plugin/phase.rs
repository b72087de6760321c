//! The plugin trait, one method per phase, and the values that its methods take and give.

use std::future::Future;
use std::pin::Pin;

use message::{Headers, ResponseHead};

use super::encode::BodyEncoder;
use super::explained::Explained;
use super::phase_name::PluginPhase;
use super::reply::{BufferedReply, StreamedReply};
use super::stored::StoredReply;
use crate::exchange::Exchange;
use crate::failure::{Cause, ExchangeFailure};

/// A compiled plugin. Each method runs in the phase of its name, only if the kind lists that phase in
/// [`PluginKind::phases`](super::PluginKind::phases); a phase that is not listed costs nothing.
pub trait Plugin: Send + Sync + 'static {
    /// Answers a preflight request of a browser, which carries no credentials: before authentication, see
    /// [`preflight`](super::preflight).
    fn preflight<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// Runs before anything is decided about the request; authentication belongs here.
    fn rewrite<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// Decides whether the request may pass.
    fn access<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// Runs once before the first node is chosen.
    fn before_proxy<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Continue
    }

    /// Runs before each attempt at an endpoint, the first one included. It may change the request's path and
    /// fields, and select another upstream with [`Exchange::set_upstream`].
    fn before_attempt(&self, _exchange: &mut Exchange, _attempt: NextAttempt) {}

    /// Sees the head of an upstream's final response before [`Plugin::response_head`] of any plugin runs, or
    /// the failure in place of a response, of which nothing was sent. It may give a stored response that is
    /// sent instead, and ask for a copy of the body with [`Exchange::tap_response`].
    fn upstream_response(
        &self,
        _exchange: &mut Exchange,
        _failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        None
    }

    /// May change [`Exchange::response`] before it is sent; runs for upstream responses and local ones alike.
    /// The response is held back while it waits.
    fn response_head<'a>(&'a self, _exchange: &'a mut Exchange) -> ResponseStep<'a> {
        ResponseStep::Done
    }

    /// Sees and edits the response body, in the portions that [`Plugin::wants_response_body`] asked for. It
    /// may wait where it asked for the whole body; a wait on a piece cuts the response, because the pieces
    /// behind it would have to be held.
    fn response_body<'a>(
        &'a self,
        _exchange: &'a mut Exchange,
        _body: &'a mut Vec<u8>,
        _portion: Portion,
    ) -> ResponseStep<'a> {
        ResponseStep::Done
    }

    /// Sees and edits the trailers of the response, just before the last piece of the body is given to
    /// [`Plugin::response_body`], so that a plugin may move trailers into the body. Where plugins edit the
    /// body, or reply themselves, it runs for responses without trailers too, with an empty list that it may
    /// fill; otherwise only if there are trailers.
    fn response_trailers(&self, _exchange: &mut Exchange, _trailers: &mut Headers) {}

    /// How much the client wants the body of [`Exchange::response`] in the coding of this plugin: thousandths
    /// of the weight in its `Accept-Encoding` (RFC 9110 section 12.4.2), 0 for not at all. Asked after
    /// [`Plugin::response_head`] of all plugins; it may say in `Vary` that it has read the field.
    fn coding_weight(&self, _exchange: &mut Exchange) -> u16 {
        0
    }

    /// Begins to code the response body: writes the fields of a coded response and gives the encoder. Called
    /// of the plugin with the greatest [`Plugin::coding_weight`], of equal ones the first by priority.
    fn encoder(&self, _exchange: &mut Exchange) -> Option<Box<dyn BodyEncoder>> {
        None
    }

    /// Sees each 1xx answer before it is passed on.
    fn informational(&self, _exchange: &mut Exchange, _head: &mut ResponseHead) {}

    /// Runs after the exchange ended, before [`Plugin::before_log`] of any plugin masks parts of it. Called
    /// of the plugins in [`PluginPhase::BeforeLog`].
    fn request_ended(&self, _exchange: &Exchange) {}

    /// Runs after the exchange ended, before any plugin logs it, and before the access log: it may mask what
    /// they see.
    fn before_log(&self, _exchange: &mut Exchange) {}

    /// Runs after the exchange ended, however it ended.
    fn log(&self, _exchange: &Exchange) {}

    /// Work of the log phase that has to wait: a task with data of its own, which runs on the worker while
    /// the connection serves on. It is dropped after [`LOG_TASK_MS`]; where [`LOG_TASKS_MAX`] run on a
    /// worker, a new one is dropped at once.
    fn log_task(&self, _exchange: &Exchange) -> Option<LogTask> {
        None
    }

    /// This instance's need of the request body; asked before the access phase, of kinds that list
    /// [`PluginPhase::RequestBody`].
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::None
    }

    /// Whether [`Plugin::rewrite`] of this instance may read the request body: a short one is read before
    /// that phase. Asked once, when the configuration is compiled.
    fn reads_body_in_rewrite(&self) -> bool {
        false
    }

    /// The reply to a request with a body that is longer than this instance asked for with
    /// [`BodyNeed::Buffer`]; without one the gateway answers 413.
    fn refuse_long_body(&self, _exchange: &Exchange) -> Option<BufferedReply> {
        None
    }

    /// Sees and edits the request body on its way, if [`Plugin::wants_request_body`] asked for
    /// [`BodyNeed::Stream`]: each piece, and the end. A body of which edited bytes were sent is not sent
    /// again, so that a plugin may keep state between the pieces in [`Exchange::state`].
    fn request_body(&self, _exchange: &mut Exchange, _body: &mut Vec<u8>, _portion: Portion) {}

    /// This instance's need of the response body; asked after the `response_head` phase.
    fn wants_response_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::None
    }

    /// Answers a request to one of the kind's [`apis`](super::PluginKind::apis), for a route with
    /// `public-api`.
    fn api<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::reply(BufferedReply::status(404))
    }

    /// Tells what [`Plugin::rewrite`], [`Plugin::access`] or [`Plugin::before_proxy`] would do with
    /// `exchange`, which stands for a request that is asked about. It counts nothing, calls no server and
    /// waits for nothing; it may change the exchange as the phase would. See
    /// [`explain_by_running`](super::explain_by_running()).
    fn explain(&self, _exchange: &mut Exchange, _phase: PluginPhase) -> Explained {
        Explained::unknown("this plugin cannot tell without running")
    }

    /// The instance is in force from now on.
    fn start(&self) {}

    /// The instance is no longer in force for new requests.
    fn stop(&self) {}
}

/// A plugin's need of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyNeed {
    /// Nothing: the body passes by untouched, at full speed.
    None,
    /// Each piece as it arrives.
    Stream,
    /// The whole body at once; one that is longer than `limit_bytes` is refused.
    Buffer {
        /// The largest body accepted, in bytes.
        limit_bytes: usize,
    },
    /// The beginning of the body, for the log phase; the body itself passes by untouched, at full speed.
    Copy {
        /// How much of it is kept at least, if there is as much; other plugins may have asked for more.
        limit_bytes: usize,
    },
}

/// Which part of a body a call of [`Plugin::request_body`] or [`Plugin::response_body`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// More will follow.
    Piece,
    /// The last piece (it may be empty), or the whole body where [`BodyNeed::Buffer`] was asked for.
    Last,
}

/// How a phase goes on.
pub enum Flow<'a> {
    /// To the next plugin.
    Continue,
    /// The exchange is answered here; the response phases and the log still run.
    Reply(Box<BufferedReply>),
    /// As [`Flow::Reply`], with a body that comes piece by piece.
    Stream(Box<StreamedReply>),
    /// As [`Flow::Reply`], with a stored response.
    Stored(Box<StoredReply>),
    /// The plugin has to wait for something.
    Wait(Pin<Box<dyn Future<Output = PhaseDecision> + 'a>>),
}

/// How a phase of the response goes on.
pub enum ResponseStep<'a> {
    /// To the next plugin.
    Done,
    /// The plugin has to wait for something.
    Wait(Pin<Box<dyn Future<Output = ()> + 'a>>),
    /// The plugin could not do its work, for this reason: the response must not be sent without it.
    Failed(String),
    /// The same where the fault is not the plugin's: the exchange fails with this cause.
    FailedBecause(Cause, String),
}

/// The attempt that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextAttempt {
    /// How many attempts of this exchange have failed.
    pub failed: usize,
    /// Why the last of them failed.
    pub cause: Option<Cause>,
}

/// Work that goes on after the log phase.
pub type LogTask = Pin<Box<dyn Future<Output = ()>>>;

/// The longest time of a [`Plugin::log_task`].
pub const LOG_TASK_MS: u64 = 30_000;
/// The most log tasks of one worker at the same time.
pub const LOG_TASKS_MAX: usize = 1_024;
/// The longest time that one plugin may wait in one phase.
pub const PHASE_WAIT_MS: u64 = 60_000;

/// The decision of a plugin that has waited.
pub enum PhaseDecision {
    /// To the next plugin.
    Continue,
    /// The exchange is answered here.
    Reply(Box<BufferedReply>),
    /// The exchange is answered here, with a body that comes piece by piece.
    Stream(Box<StreamedReply>),
    /// The exchange is answered here, with a stored response.
    Stored(Box<StoredReply>),
}

impl Flow<'_> {
    /// Answers with `reply`.
    pub fn reply(reply: BufferedReply) -> Self {
        Flow::Reply(Box::new(reply))
    }
}
