//! The state of one instance of a guest on the side of the gateway: contexts, the data of the callback that
//! runs, and limits. It calls no guest.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::BufferedReply;
use exchange::plugin::outbound::DestinationOpener;
use exchange::plugin::stream::StreamSession;
use stdx::hash::FastMap;
use stdx::lent::Lent;
use tokio::sync::oneshot;
use wasmtime::{Memory, StoreLimits, StoreLimitsBuilder, TypedFunc};

use crate::abi::{AbiVersion, Pairs, StreamSide};
use crate::cell::VmCell;
use crate::limits::{
    HOST_CALLS_MAX, HOST_CALLS_PER_LOOK, LOG_LINES_PER_SECOND_MAX, MEMORY_BYTES_MAX, TABLE_ELEMENTS_MAX,
};
use crate::shared::{SharedData, SharedStore};

/// The facts of a plugin that its instances share.
pub(crate) struct PluginIdentity {
    /// The name of the plugin, which is the name of its virtual machine to other plugins too.
    pub name: &'static str,
    /// The version of the ABI.
    pub abi: AbiVersion,
    /// Data, queues and metrics of the process.
    pub shared: Arc<SharedStore>,
    /// The data of the plugin.
    pub data: Arc<SharedData>,
}

/// The worker that an instance serves on; none for an instance that only checks a configuration.
#[derive(Clone)]
pub(crate) struct Home {
    pub local: Weak<WorkerLocal>,
    pub opener: DestinationOpener,
    pub cell: Weak<VmCell>,
}

/// The request or session of the callback that runs.
#[derive(Default)]
pub(crate) struct Loan {
    pub exchange: Lent<Exchange>,
    pub session: Lent<StreamSession>,
}

/// The data of a store.
pub(crate) struct Host {
    pub identity: Arc<PluginIdentity>,
    pub limits: StoreLimits,
    pub lent: Rc<Loan>,
    pub home: Option<Home>,
    pub memory: Option<Memory>,
    pub allocate: Option<TypedFunc<i32, i32>>,
    /// The guest's allocator runs for the host.
    pub allocates: bool,
    /// The context that host functions act for.
    pub current: u32,
    /// The context of the exchange or session that is lent; 0 for none.
    pub lent_to: u32,
    pub frame: CallbackData,
    pub roots: FastMap<u32, Root>,
    pub streams: FastMap<u32, StreamContext>,
    pub budget: CpuBudget,
    pub log: LogPace,
    pub last_call: u32,
    pub calls: usize,
    /// Contexts of ended requests of which the guest has said that it is done.
    pub done: Vec<u32>,
    /// The last error line of the guest, for the message of a trap: Rust and Go write a panic before they
    /// trap.
    pub last_words: String,
}

/// The data that one callback may read and write.
#[derive(Default)]
pub(crate) struct CallbackData {
    pub request_body: Option<Vec<u8>>,
    pub response_body: Option<Vec<u8>>,
    /// The first bytes of a session.
    pub downstream_data: Option<Vec<u8>>,
    pub request_trailers: Option<Pairs>,
    pub response_trailers: Option<Pairs>,
    pub answer: Option<CallResponse>,
    pub configuration: Option<Arc<[u8]>>,
    /// The data of the callback were changed.
    pub is_edited: bool,
}

/// The answer to a call of a guest.
#[derive(Default)]
pub(crate) struct CallResponse {
    /// The status of HTTP or of gRPC.
    pub status: u32,
    /// The text of the status.
    pub message: Vec<u8>,
    pub headers: Pairs,
    pub body: Vec<u8>,
    pub trailers: Pairs,
}

/// How an answer reaches the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Http,
    Grpc,
}

/// An answer on its way to the context that called.
pub(crate) struct ResponseDelivery {
    pub token: u32,
    pub kind: CallKind,
    pub answer: CallResponse,
}

/// The context of one configuration.
#[derive(Default)]
pub(crate) struct Root {
    /// Counts changes of the period, so that the timer of an earlier period ends.
    pub tick: u32,
    /// Queues that it is told of.
    pub queues: Vec<u32>,
    pub calls: Vec<PendingCall>,
}

/// A call under way: dropping it ends the call.
pub(crate) struct PendingCall {
    pub token: u32,
    pub _cancel: oneshot::Sender<()>,
}

/// The context of one request or session.
pub(crate) struct StreamContext {
    pub root: u32,
    pub is_session: bool,
    pub reply: Option<Box<BufferedReply>>,
    pub continues: [bool; StreamSide::COUNT],
    pub is_closed: bool,
    /// The request has ended, and the guest has yet to say that it is done.
    pub awaits_done: bool,
    pub inbox: VecDeque<ResponseDelivery>,
    pub waker: Option<Waker>,
    pub calls: Vec<PendingCall>,
}

impl StreamContext {
    pub(crate) fn new(root: u32, is_session: bool) -> StreamContext {
        StreamContext {
            root,
            is_session,
            reply: None,
            continues: [false; StreamSide::COUNT],
            is_closed: false,
            awaits_done: false,
            inbox: VecDeque::new(),
            waker: None,
            calls: Vec::new(),
        }
    }

    /// Lets a paused side go on.
    pub(crate) fn resume(&mut self, side: StreamSide) {
        self.continues[side as usize] = true;
        self.wake();
    }

    /// Wakes the request, if it waits.
    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The processor time of one call into the guest, counted once it lasts longer than a period of the clock,
/// and the calls of host functions in it.
#[derive(Default)]
pub(crate) struct CpuBudget {
    pub limit_ms: u64,
    pub counted_from_ns: Option<u64>,
    pub host_calls: u32,
}

impl CpuBudget {
    /// Whether the processor time is over; `now_ns` is that of the thread. The first look begins to count.
    pub(crate) fn is_over(&mut self, now_ns: u64) -> bool {
        let from_ns = *self.counted_from_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(from_ns) >= self.limit_ms * 1_000_000
    }

    /// Counts the call of a host function; false if the guest has to end. Code without loops and calls of its
    /// own functions meets no other place where its time is looked at.
    #[inline]
    pub(crate) fn allows_host_call(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        self.host_calls += 1;
        self.host_calls <= HOST_CALLS_MAX
            && (!self.host_calls.is_multiple_of(HOST_CALLS_PER_LOOK) || !self.is_over(now_ns()))
    }
}

/// How many lines the guest logs.
#[derive(Default)]
pub(crate) struct LogPace {
    second: u64,
    lines: u32,
    /// Lines dropped since the last one that was written.
    pub dropped: u64,
}

impl LogPace {
    /// Whether one more line may be written at `now_ms`.
    pub(crate) fn allows(&mut self, now_ms: u64) -> bool {
        if now_ms / 1_000 != self.second {
            (self.second, self.lines) = (now_ms / 1_000, 0);
        }
        self.lines += 1;
        let allowed = self.lines <= LOG_LINES_PER_SECOND_MAX;
        if !allowed {
            self.dropped += 1;
        }
        allowed
    }
}

impl Host {
    /// The state of a new instance.
    pub(crate) fn new(identity: Arc<PluginIdentity>, lent: Rc<Loan>, home: Option<Home>) -> Host {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MEMORY_BYTES_MAX)
            .table_elements(TABLE_ELEMENTS_MAX)
            .instances(1)
            .memories(1)
            .tables(4)
            .build();
        Host {
            identity,
            limits,
            lent,
            home,
            memory: None,
            allocate: None,
            allocates: false,
            current: 0,
            lent_to: 0,
            frame: CallbackData::default(),
            roots: FastMap::default(),
            streams: FastMap::default(),
            budget: CpuBudget::default(),
            log: LogPace::default(),
            last_call: 0,
            calls: 0,
            done: Vec::new(),
            last_words: String::new(),
        }
    }

    /// The stream of the current context.
    pub(crate) fn stream(&mut self) -> Option<&mut StreamContext> {
        self.streams.get_mut(&self.current)
    }

    /// The root of the current context, which may be one itself.
    pub(crate) fn current_root(&self) -> u32 {
        self.streams.get(&self.current).map_or(self.current, |stream| stream.root)
    }

    /// The calls under way of a context.
    pub(crate) fn calls_of(&mut self, context: u32) -> Option<&mut Vec<PendingCall>> {
        match self.streams.get_mut(&context) {
            Some(stream) => Some(&mut stream.calls),
            None => self.roots.get_mut(&context).map(|root| &mut root.calls),
        }
    }

    /// Ends or forgets the call `token` of `context`; whether there was one.
    pub(crate) fn end_call(&mut self, context: u32, token: u32) -> bool {
        let Some(calls) = self.calls_of(context) else { return false };
        let before = calls.len();
        calls.retain(|call| call.token != token);
        let has_ended = calls.len() < before;
        if has_ended {
            self.calls -= 1;
        }
        has_ended
    }

    /// Runs `work` with the exchange of the current context; none outside its callbacks.
    pub(crate) fn with_exchange<R>(&self, work: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        if self.is_lent() { self.lent.exchange.with(work) } else { None }
    }

    /// As [`Host::with_exchange`], with the session, unless that has ended.
    pub(crate) fn with_session<R>(&self, work: impl FnOnce(&mut StreamSession) -> R) -> Option<R> {
        if self.is_lent() { self.lent.session.with(work) } else { None }
    }

    /// As [`Host::with_exchange`], with the session, which may have ended.
    pub(crate) fn read_session<R>(&self, work: impl FnOnce(&StreamSession) -> R) -> Option<R> {
        if self.is_lent() { self.lent.session.read(work) } else { None }
    }

    fn is_lent(&self) -> bool {
        self.lent_to != 0 && self.lent_to == self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_calls_count_in_the_budget_of_a_callback() {
        let calls_until_end = |ns_per_call: u64| {
            let mut budget = CpuBudget { limit_ms: 20, ..CpuBudget::default() };
            let allows = |call: &u64| budget.allows_host_call(|| call * ns_per_call);
            (1..=u64::from(2 * HOST_CALLS_MAX)).take_while(allows).count() as u64
        };
        let per_look = u64::from(HOST_CALLS_PER_LOOK);
        for (ns_per_call, least, most) in [
            (10, u64::from(HOST_CALLS_MAX), u64::from(HOST_CALLS_MAX)),
            (1_000, 20_000, 20_000 + 2 * per_look),
            (100_000, 200, 200 + 2 * per_look),
            (30_000_000, per_look, 2 * per_look),
        ] {
            let calls = calls_until_end(ns_per_call);
            assert!((least..=most).contains(&calls), "{ns_per_call}: {calls}");
        }
    }
}
