//! A plugin that is a program in Lua: calls its functions in the phases of a request, and makes replies of
//! their results.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::{
    BodyNeed, BufferedReply, Flow, NO_ANSWER, PhaseDecision, Plugin, PluginPhase, Portion, ResponseStep,
};
use mlua::{MultiValue, Value};

use crate::runtime::call::ProgramCall;
use crate::runtime::limits::{BODY_MAX_BYTES, OUTPUT_MAX_BYTES};
use crate::runtime::program::{EntryPoint, LoadedInstance, ProgramInstance};
use crate::runtime::run::RunningCall;
use crate::runtime::state::Reach;
use crate::runtime::tables::ContextTables;

pub(crate) mod stream;

/// Milliseconds between two lines about failures of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;
/// The media type of what functions return or print, as in APISIX, unless they set another.
const CONTENT_TYPE: &str = "text/plain; charset=utf-8";
/// Names in a source that say that it reads the body of the request.
const BODY_NAMES: [&str; 6] =
    ["get_body", "read_body", "body_data", "get_post_args", "get_json_request_body_table", "request_body"];

/// See the module.
pub(crate) struct LuaPlugin {
    instance: Arc<ProgramInstance>,
    entries: Vec<EntryPoint>,
    reads_body: bool,
    arguments: FunctionArguments,
    /// Whether the program ends with this plugin.
    owns_program: bool,
    pace: Pace,
}

/// The arguments of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionArguments {
    /// The configuration and the context of the request.
    ConfigAndContext,
    /// The context alone; results do not count: the `script` of a route.
    Context,
}

/// Whether a source with these bytes may read the body of the request.
pub(crate) fn reads_body(source: &[u8]) -> bool {
    BODY_NAMES.iter().any(|name| memchr::memmem::find(source, name.as_bytes()).is_some())
}

/// The phases of a program with these functions.
pub(crate) fn phases(entries: &[EntryPoint], reads_body: bool) -> Vec<PluginPhase> {
    let mut phases: Vec<PluginPhase> = entries
        .iter()
        .filter_map(|entry| match entry {
            EntryPoint::Rewrite => Some(PluginPhase::Rewrite),
            EntryPoint::Access => Some(PluginPhase::Access),
            EntryPoint::BeforeProxy => Some(PluginPhase::BeforeProxy),
            EntryPoint::HeaderFilter => Some(PluginPhase::ResponseHead),
            EntryPoint::BodyFilter | EntryPoint::DelayedBodyFilter => Some(PluginPhase::ResponseBody),
            EntryPoint::Log => Some(PluginPhase::Log),
            EntryPoint::Preread
            | EntryPoint::Init
            | EntryPoint::Destroy
            | EntryPoint::CheckSchema
            | EntryPoint::Api
            | EntryPoint::ControlApi => None,
        })
        .collect();
    if reads_body {
        phases.push(PluginPhase::RequestBody);
    }
    phases
}

/// A call that has begun.
pub(crate) struct Begun {
    call: Rc<ProgramCall>,
    run: RunningCall,
    result: Option<Result<MultiValue, String>>,
}

impl Begun {
    pub(crate) fn new(call: Rc<ProgramCall>, run: RunningCall) -> Begun {
        Begun { call, run, result: None }
    }

    pub(crate) fn call(&self) -> &ProgramCall {
        &self.call
    }

    /// The results, if it has ended without a wait.
    pub(crate) fn take_finished(&mut self) -> Option<Result<MultiValue, String>> {
        self.run.take_finished()
    }

    /// The results, once it has ended.
    pub(crate) fn poll_result(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
    ) -> Poll<Result<MultiValue, String>> {
        self.run.poll(cx, &mut Reach::Edit(exchange))
    }

    /// Whether it has ended.
    pub(crate) fn is_finished(&mut self) -> bool {
        if self.result.is_none() {
            self.result = self.run.take_finished();
        }
        self.result.is_some()
    }

    /// Goes on until it has ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange) -> Poll<()> {
        self.run.poll(cx, &mut Reach::Edit(exchange)).map(|result| self.result = Some(result))
    }
}

impl LuaPlugin {
    pub(crate) fn new(
        instance: Arc<ProgramInstance>,
        entries: Vec<EntryPoint>,
        arguments: FunctionArguments,
        owns_program: bool,
    ) -> LuaPlugin {
        let reads_body = instance.program.texts.iter().any(|text| reads_body(text.source()));
        let pace = Pace::every_ms(LOG_INTERVAL_MS);
        LuaPlugin { instance, entries, reads_body, arguments, owns_program, pace }
    }

    pub(crate) fn instance(&self) -> &Arc<ProgramInstance> {
        &self.instance
    }

    fn has(&self, entry: EntryPoint) -> bool {
        self.entries.contains(&entry)
    }

    /// Counts a failed call and tells of it.
    fn note(&self, exchange: &Exchange, entry: EntryPoint, reason: &str) {
        self.note_at(exchange.local().now_ms(), entry, reason);
    }

    fn note_at(&self, now_ms: u64, entry: EntryPoint, reason: &str) {
        self.instance.program.outside.count_error();
        if let Some(times) = self.pace.add(1, now_ms) {
            let (plugin, phase) = (self.instance.name, entry.name());
            tracing::error!(plugin, phase, times, "a function in Lua failed: {reason}");
        }
    }

    /// Begins the function for `entry`; none if the program has none.
    fn begin(
        &self,
        tables: &Rc<ContextTables>,
        entry: EntryPoint,
        chunk: Option<(Value, bool)>,
        reach: &mut Reach<'_>,
    ) -> Result<Option<Begun>, String> {
        let engine = &tables.engine;
        let loaded: Rc<LoadedInstance> = engine.instance(&self.instance)?;
        let Some(function) = loaded.program.function(entry) else { return Ok(None) };
        let place = if self.arguments == FunctionArguments::Context { 1 } else { 2 };
        let wants_context = function.parameters >= place;
        let may_wait = matches!(
            entry,
            EntryPoint::Rewrite | EntryPoint::Access | EntryPoint::BeforeProxy | EntryPoint::Preread
        );
        let call = ProgramCall::new(entry.ngx_phase(), may_wait, self.instance.clone(), engine);
        *call.tables.borrow_mut() = Some(tables.clone());
        *call.chunk.borrow_mut() = chunk;
        let function = &function.function;
        let run = match (self.arguments, wants_context) {
            (FunctionArguments::ConfigAndContext, true) => {
                RunningCall::begin(engine, &call, function, (&loaded.config, tables.context()?), reach)
            }
            (FunctionArguments::ConfigAndContext, false) => {
                RunningCall::begin(engine, &call, function, &loaded.config, reach)
            }
            (FunctionArguments::Context, true) => {
                RunningCall::begin(engine, &call, function, tables.context()?, reach)
            }
            (FunctionArguments::Context, false) => RunningCall::begin(engine, &call, function, (), reach),
        };
        Ok(Some(Begun::new(call, run?)))
    }

    /// Runs a phase that may end the request.
    fn decide<'a>(&'a self, exchange: &'a mut Exchange, entry: EntryPoint) -> Flow<'a> {
        if !self.has(entry) {
            return Flow::Continue;
        }
        let begun = ContextTables::of(exchange)
            .and_then(|tables| self.begin(&tables, entry, None, &mut Reach::Edit(exchange)));
        let mut begun = match begun {
            Ok(Some(begun)) => begun,
            Ok(None) => return Flow::Continue,
            Err(reason) => return Flow::reply(self.failed(exchange, entry, &reason)),
        };
        if let Some(result) = begun.run.take_finished() {
            return match self.outcome(exchange, entry, &begun.call, result) {
                Some(reply) => Flow::reply(reply),
                None => Flow::Continue,
            };
        }
        Flow::Wait(Box::pin(async move {
            let result = poll_fn(|cx| begun.run.poll(cx, &mut Reach::Edit(exchange))).await;
            match self.outcome(exchange, entry, &begun.call, result) {
                Some(reply) => PhaseDecision::Reply(Box::new(reply)),
                None => PhaseDecision::Continue,
            }
        }))
    }

    /// The reply to a request of which a function failed.
    pub(crate) fn failed(&self, exchange: &Exchange, entry: EntryPoint, reason: &str) -> BufferedReply {
        self.note(exchange, entry, reason);
        BufferedReply::message(500, &format!("the plugin {} failed", self.instance.name))
    }

    /// The reply that ends the request; none if it goes on. Text that a call has written without ending the
    /// request begins the reply of the exchange, so that later functions append to it, as after `ngx.say` in
    /// APISIX.
    pub(crate) fn outcome(
        &self,
        exchange: &mut Exchange,
        entry: EntryPoint,
        call: &ProgramCall,
        result: Result<MultiValue, String>,
    ) -> Option<BufferedReply> {
        let ended = result.and_then(|values| self.ended(exchange, call, values));
        ended.unwrap_or_else(|reason| Some(self.failed(exchange, entry, &reason)))
    }

    fn ended(
        &self,
        exchange: &mut Exchange,
        call: &ProgramCall,
        values: MultiValue,
    ) -> Result<Option<BufferedReply>, String> {
        // The head was sent with the first text, from the view of the function.
        let sent = call.has_output.get().then(|| call.status.get().unwrap_or(200));
        let returned = match self.arguments {
            FunctionArguments::ConfigAndContext => self.returned(call, values)?,
            FunctionArguments::Context => None,
        };
        let exit = call.exit.get();
        let code = match (returned, exit) {
            (Some(status), _) => Some(status),
            (None, Some(exit @ 100..=999)) => Some(exit as u16),
            (None, Some(-1)) => Some(500),
            _ => None,
        };
        if code == Some(NO_ANSWER) {
            return Ok(Some(BufferedReply::status(NO_ANSWER)));
        }
        if !call.has_output.get() {
            return Ok(match code {
                Some(code) => Some(BufferedReply::status(code)),
                None => exit.and_then(|_| exchange.begun_reply.take()).map(|begun| *begun),
            });
        }
        let mut reply = BufferedReply::status(sent.or(code).or(call.status.get()).unwrap_or(200));
        let body = call.output.take();
        if !body.is_empty() {
            reply = reply.with_header("Content-Type", CONTENT_TYPE).with_body(body);
        }
        if code.is_some() || exit.is_some() {
            return Ok(Some(*exchange.begun_reply.end_with(Box::new(reply))));
        }
        exchange.begun_reply.append(reply, OUTPUT_MAX_BYTES)?;
        Ok(None)
    }

    /// The status that a function returned, with its body behind what it has printed; none if it returned
    /// nothing that ends the request by itself.
    fn returned(&self, call: &ProgramCall, mut values: MultiValue) -> Result<Option<u16>, String> {
        let (code, body) = (values.pop_front(), values.pop_front());
        let code = code.filter(|code| !matches!(code, Value::Nil | Value::Boolean(false)));
        let mut status = None;
        match code {
            Some(Value::Integer(code)) => status = Some(code as f64),
            Some(Value::Number(code)) => status = Some(code),
            Some(text) => self.append(call, &text)?,
            None => {}
        }
        if let Some(body) = body.filter(|body| !body.is_nil()) {
            self.append(call, &body)?;
        }
        match status {
            None => Ok(None),
            Some(code) if (100.0..=999.0).contains(&code) => Ok(Some(code as u16)),
            Some(code) => Err(format!("it returns {code}, which is no status")),
        }
    }

    /// Appends a body: a table becomes JSON with a line end, as in APISIX.
    fn append(&self, call: &ProgramCall, body: &Value) -> Result<(), String> {
        let text = match body {
            Value::Table(_) => {
                let engine = call.engine.upgrade().ok_or("the interpreter is gone")?;
                let mut text = engine.json.write(body)?;
                text.push(b'\n');
                text
            }
            other => other.to_string().map_err(|error| crate::describe(&error))?.into_bytes(),
        };
        call.write(&text).map_err(|error| crate::describe(&error))
    }

    /// Runs a phase that may neither wait nor end the request.
    fn at_once(
        &self,
        tables: &Rc<ContextTables>,
        entry: EntryPoint,
        chunk: Option<(Value, bool)>,
        reach: &mut Reach<'_>,
    ) -> Result<Option<Rc<ProgramCall>>, String> {
        let Some(mut begun) = self.begin(tables, entry, chunk, reach)? else { return Ok(None) };
        match begun.run.poll(&mut Context::from_waker(Waker::noop()), reach) {
            Poll::Ready(result) => result.map(|_| Some(begun.call)),
            Poll::Pending => Err("it waits in a phase that cannot wait".to_owned()),
        }
    }

    /// Begins a function before a phase of another plugin; none if it fails, which it logs.
    pub(crate) fn begin_before(&self, exchange: &mut Exchange, entry: EntryPoint) -> Option<Begun> {
        let begun = ContextTables::of(exchange)
            .and_then(|tables| self.begin(&tables, entry, None, &mut Reach::Edit(exchange)));
        begun.unwrap_or_else(|reason| {
            self.note(exchange, entry, &reason);
            None
        })
    }

    /// Ends a function before a phase; the reply, if it has ended the request.
    pub(crate) fn end_before(
        &self,
        exchange: &mut Exchange,
        entry: EntryPoint,
        begun: Begun,
    ) -> Option<BufferedReply> {
        match begun.result? {
            Ok(_) => self.outcome(exchange, entry, &begun.call, Ok(MultiValue::new())),
            Err(reason) => {
                self.note(exchange, entry, &reason);
                None
            }
        }
    }

    /// Runs a function before a phase of the response.
    pub(crate) fn run_before(&self, exchange: &mut Exchange, entry: EntryPoint) {
        let done = ContextTables::of(exchange)
            .and_then(|tables| self.at_once(&tables, entry, None, &mut Reach::Edit(exchange)));
        if let Err(reason) = done {
            self.note(exchange, entry, &reason);
        }
    }

    /// Runs a function before the phase `log`.
    pub(crate) fn run_before_log(&self, exchange: &Exchange) {
        let done = ContextTables::of_ended(exchange)
            .and_then(|tables| self.at_once(&tables, EntryPoint::Log, None, &mut Reach::Read(exchange)));
        if let Err(reason) = done {
            self.note(exchange, EntryPoint::Log, &reason);
        }
    }

    fn filter_body(
        &self,
        exchange: &mut Exchange,
        entry: EntryPoint,
        body: &mut Vec<u8>,
        portion: Portion,
    ) -> Result<(), String> {
        let tables = ContextTables::of(exchange)?;
        let text = tables.engine.lua.create_string(&*body).map_err(|error| crate::describe(&error))?;
        let chunk = Some((Value::String(text), portion == Portion::Last));
        let call = self.at_once(&tables, entry, chunk, &mut Reach::Edit(exchange))?;
        if portion != Portion::Last && call.as_ref().is_some_and(|call| call.ends_body()) {
            exchange.state::<BodyEnded>().0 = true;
        }
        if let Some(chunk) = call.and_then(|call| call.take_chunk()) {
            body.clear();
            if let Some(text) = chunk {
                body.extend_from_slice(&text.as_bytes());
            }
        }
        Ok(())
    }
}

/// A function has set `ngx.arg[2]`: the pieces of the body behind are left out.
#[derive(Default)]
struct BodyEnded(bool);

impl Drop for LuaPlugin {
    fn drop(&mut self) {
        if self.owns_program {
            self.instance.program.retire();
        }
    }
}

impl Plugin for LuaPlugin {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.decide(exchange, EntryPoint::Rewrite)
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.decide(exchange, EntryPoint::Access)
    }

    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.decide(exchange, EntryPoint::BeforeProxy)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        if !self.has(EntryPoint::HeaderFilter) {
            return ResponseStep::Done;
        }
        let entry = EntryPoint::HeaderFilter;
        let done = ContextTables::of(exchange)
            .and_then(|tables| self.at_once(&tables, entry, None, &mut Reach::Edit(exchange)));
        match done {
            Ok(_) => ResponseStep::Done,
            Err(reason) => {
                self.note(exchange, entry, &reason);
                ResponseStep::Failed(reason)
            }
        }
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        match self.has(EntryPoint::BodyFilter) || self.has(EntryPoint::DelayedBodyFilter) {
            true => BodyNeed::Stream,
            false => BodyNeed::None,
        }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        if exchange.peek_state::<BodyEnded>().is_some_and(|ended| ended.0) {
            body.clear();
            return ResponseStep::Done;
        }
        for entry in [EntryPoint::BodyFilter, EntryPoint::DelayedBodyFilter] {
            if self.has(entry)
                && let Err(reason) = self.filter_body(exchange, entry, body, portion)
            {
                self.note(exchange, entry, &reason);
                return ResponseStep::Failed(reason);
            }
        }
        ResponseStep::Done
    }

    fn log(&self, exchange: &Exchange) {
        if !self.has(EntryPoint::Log) {
            return;
        }
        let done = ContextTables::of_ended(exchange)
            .and_then(|tables| self.at_once(&tables, EntryPoint::Log, None, &mut Reach::Read(exchange)));
        if let Err(reason) = done {
            self.note(exchange, EntryPoint::Log, &reason);
        }
    }

    fn wants_request_body(&self, _: &Exchange) -> BodyNeed {
        match self.reads_body {
            true => BodyNeed::Buffer { limit_bytes: BODY_MAX_BYTES },
            false => BodyNeed::None,
        }
    }

    fn reads_body_in_rewrite(&self) -> bool {
        self.reads_body && self.has(EntryPoint::Rewrite)
    }
}
