//! One call of the runner: a connection, the token of the configuration, the message, and the questions that
//! the runner asks before it answers. It knows neither requests nor responses.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use exchange::local::WorkerLocal;
use net::env;

use super::connection::RunnerConnection;
use super::error::CallError;
use super::flat::FlatWriter;
use super::frame::{self, HEAD_BYTES};
use super::messages::{self, RunnerQuestion, prepare_conf};
use super::pool::{CallPlace, RunnerPool};
use super::settings::Caller;

/// Tries of a call of which the runner does not know the token, as in APISIX.
pub(super) const TRIES: usize = 3;
/// Questions of one call. Each is a variable or a body, and a plugin needs few; a runner that asks without
/// end is stopped.
const QUESTIONS_MAX: usize = 1_000;

/// The kind of a call, with the words of its errors.
#[derive(Clone, Copy)]
pub(super) struct CallKind {
    pub(super) frame: u8,
    pub(super) send: &'static str,
    pub(super) receive: &'static str,
}

const PREPARE_CONF: CallKind = CallKind {
    frame: frame::PREPARE_CONF,
    send: "send RPC_PREPARE_CONF",
    receive: "receive RPC_PREPARE_CONF",
};

/// A call that the runner has and has not answered. Dropping it closes the connection.
pub(super) struct RunnerCall {
    connection: RunnerConnection,
    buffer: Vec<u8>,
    kind: CallKind,
    /// Its number.
    pub(super) id: u32,
    token: u32,
    questions: usize,
    pool: Rc<RunnerPool>,
    _place: CallPlace,
}

/// A message of the runner.
pub(super) enum RunnerMessage {
    /// The answer, which [`RunnerCall::message`] gives.
    Answer,
    /// A question, which [`RunnerCall::answer`] answers.
    Question(RunnerQuestion),
}

impl RunnerCall {
    /// Sends the message that `write` writes for a number and a token.
    pub(super) async fn begin(
        caller: &Caller,
        worker: &Rc<WorkerLocal>,
        kind: CallKind,
        write: impl FnOnce(&mut FlatWriter<'_>, u32, u32) -> Result<(), CallError>,
    ) -> Result<RunnerCall, CallError> {
        let pool = RunnerPool::of(worker);
        let place = pool.place()?;
        let (mut connection, mut buffer) = pool.checkout(&caller.runner, worker.now_ms()).await?;
        let token = token(caller, worker, &pool, connection.process, &mut buffer).await?;
        let id = pool.next_id(worker);
        frame::begin_frame(&mut buffer);
        write(&mut FlatWriter::new(&mut buffer), id, token)?;
        frame::finish_frame(&mut buffer, kind.frame)?;
        connection.send(&buffer, kind.send).await?;
        Ok(RunnerCall { connection, buffer, kind, id, token, questions: 0, pool, _place: place })
    }

    /// Waits for the next message of the runner.
    pub(super) async fn next(
        &mut self,
        caller: &Caller,
        worker: &WorkerLocal,
    ) -> Result<RunnerMessage, CallError> {
        let kind = self.kind;
        let received = self.connection.receive(worker, &self.pool, &mut self.buffer, kind.receive).await?;
        match received {
            frame::EXTRA_INFO => {
                self.questions += 1;
                if self.questions > QUESTIONS_MAX {
                    return Err(CallError::Malformed("it asks too many questions"));
                }
                messages::read_question(self.message()).map(RunnerMessage::Question)
            }
            frame::ERROR => {
                let error = messages::read_error(self.message());
                if matches!(error, CallError::TokenUnknown) {
                    caller.token.forget(self.connection.process, self.token);
                }
                Err(error)
            }
            received if received == kind.frame => Ok(RunnerMessage::Answer),
            received => Err(CallError::Unexpected(received)),
        }
    }

    /// The last message of the runner.
    pub(super) fn message(&self) -> &[u8] {
        &self.buffer[HEAD_BYTES..]
    }

    /// Answers the question of the runner.
    pub(super) async fn answer(&mut self, value: Option<&[u8]>) -> Result<(), CallError> {
        frame::begin_frame(&mut self.buffer);
        messages::write_answer(&mut FlatWriter::new(&mut self.buffer), value);
        frame::finish_frame(&mut self.buffer, frame::EXTRA_INFO)?;
        self.connection.send(&self.buffer, "reply RPC_EXTRA_INFO").await
    }

    /// Keeps the connection for another call; the answer was read.
    pub(super) fn end(self, worker: &WorkerLocal) {
        let RunnerCall { connection, buffer, pool, .. } = self;
        pool.checkin(connection, buffer, worker.now_ms());
    }
}

/// The token of the configuration in the runner's process `process`; the runner is asked for one if there is
/// none that it knows.
async fn token(
    caller: &Caller,
    worker: &WorkerLocal,
    pool: &RunnerPool,
    process: u32,
    buffer: &mut Vec<u8>,
) -> Result<u32, CallError> {
    if let Some(token) = caller.token.known(process, worker.now_ms()) {
        return Ok(token);
    }
    let _turn = caller.token.renewing.lock().await;
    if let Some(token) = caller.token.known(process, worker.now_ms()) {
        return Ok(token);
    }
    // Over a connection of its own, as in APISIX: the runner for Java sends this answer twice, and the second
    // one would be read as that of a request.
    let mut connection = RunnerConnection::open(&caller.runner).await?;
    if connection.process != process {
        // Another runner has taken over meanwhile; the next try finds it.
        return Err(CallError::TokenUnknown);
    }
    frame::begin_frame(buffer);
    write_configuration(caller, &mut FlatWriter::new(buffer));
    frame::finish_frame(buffer, PREPARE_CONF.frame)?;
    connection.send(buffer, PREPARE_CONF.send).await?;
    let token = match connection.receive(worker, pool, buffer, PREPARE_CONF.receive).await? {
        frame::PREPARE_CONF => messages::read_token(&buffer[HEAD_BYTES..])?,
        frame::ERROR => return Err(messages::read_error(&buffer[HEAD_BYTES..])),
        other => return Err(CallError::Unexpected(other)),
    };
    caller.token.keep(process, token, worker.now_ms());
    caller.prepared.fetch_add(1, Ordering::Relaxed);
    Ok(token)
}

fn write_configuration(caller: &Caller, writer: &mut FlatWriter<'_>) {
    let root = writer.root(&[!caller.conf.is_empty(), true]);
    match caller.token.times_forgotten() {
        0 => writer.text(root.slot(prepare_conf::KEY), caller.key.as_bytes()),
        times => writer.text(root.slot(prepare_conf::KEY), format!("{}#{times}", caller.key).as_bytes()),
    }
    if !caller.conf.is_empty() {
        let plugins = caller.conf.iter();
        let entries = plugins.map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())));
        messages::write_entries(writer, root.slot(prepare_conf::CONF), entries);
    }
}

/// The time that the runner has for one call. The time of a client that sends its body slowly is not taken
/// from it.
pub(super) struct RunnerTimeBudget {
    limit_ms: u64,
    left_ns: Cell<u64>,
}

impl RunnerTimeBudget {
    /// The longest time of a call.
    pub(super) fn new(caller: &Caller) -> RunnerTimeBudget {
        let limit_ms = caller.runner.timeout_ms();
        RunnerTimeBudget { limit_ms, left_ns: Cell::new(limit_ms.saturating_mul(1_000_000)) }
    }

    /// The value of `future`, or an error when the time is over.
    pub(super) async fn spend<T>(
        &self,
        future: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let began_ns = env::monotonic_ns();
        let left_ms = (self.left_ns.get() / 1_000_000).max(1);
        let done = tokio::select! {
            biased;
            value = future => value,
            () = env::sleep_ms(left_ms) => Err(CallError::TimedOut(self.limit_ms)),
        };
        let spent_ns = env::monotonic_ns().saturating_sub(began_ns);
        self.left_ns.set(self.left_ns.get().saturating_sub(spent_ns));
        done
    }
}
