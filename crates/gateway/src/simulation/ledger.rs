//! The record of a run and its judge: clients record requests and responses, nodes record executions, and
//! each response is compared with both. It moves no bytes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use net::env::memory::{self, note};
use net::env::monotonic_ns;

/// Violations that are kept; later ones usually follow from the first.
const VIOLATIONS_MAX: usize = 5;
/// How long after a node's orderly close a request may still meet it, in nanoseconds, because the close is on
/// its way or was not read yet.
const CLOSE_LINGERS_NS: u64 = 50_000_000;
/// Shortest wait after which the gateway may give up a client that has closed its sending side (decision
/// 0007), in nanoseconds.
const HALF_CLOSE_NS: u64 = 900_000_000;

/// Reason for which a request may end without its whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// The node cut, delayed or corrupted the response.
    Node,
    /// The client gave up, was too slow, or did not read.
    Client,
    /// The client has closed its sending side, and the response took long.
    HalfClosed,
    /// A plugin panicked.
    Panic,
}

/// One execution of a request at a node.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) status: u16,
    /// Bytes of the response's body.
    pub(crate) bytes: u64,
    /// Whether the node sends all of it.
    pub(crate) whole: bool,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) method: &'static str,
    pub(crate) route: usize,
    /// Bytes of the request's body.
    pub(crate) body_bytes: u64,
    sent_ns: u64,
    excuses: Vec<Excuse>,
    heads: usize,
    /// The node answered before it had read the request's body.
    pub(crate) early: bool,
    pub(crate) executions: Vec<Execution>,
    over: bool,
}

/// How a request ended for its client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// With a response.
    Answer {
        status: u16,
        /// The execution that the response belongs to; `None` if the gateway made the response.
        execution: Option<usize>,
        /// Bytes of the response's body.
        bytes: u64,
        /// Whether the framing says that the response is whole.
        whole: bool,
    },
    /// Without a response; `expected` says whether the gateway was allowed to close the connection.
    Nothing { expected: bool },
    /// The client left before the response.
    GivenUp,
}

/// Destination of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Nodes of the route; empty if the route does not exist.
    pub(crate) nodes: BTreeSet<usize>,
    /// Whether a plugin answers in place of the nodes.
    pub(crate) answers: bool,
}

/// Everything that clients, nodes and the operator record during a run.
pub(crate) struct Ledger {
    entries: RefCell<Vec<Entry>>,
    violations: RefCell<Vec<String>>,
    /// Destinations of all routes, each set with the time from which it holds.
    targets: RefCell<Vec<(u64, Vec<Target>)>>,
    idle_closes: RefCell<Vec<u64>>,
    /// Times at which a worker's event loop ended.
    upsets: RefCell<Vec<u64>>,
    /// Times from which the second listener is certainly there (`true`) or may be absent (`false`).
    listening: RefCell<Vec<(u64, bool)>>,
    pub(crate) drain_ns: Cell<u64>,
    pub(crate) stop_ns: Cell<u64>,
    pub(crate) answers: Cell<u64>,
    pub(crate) answers_http2: Cell<u64>,
    /// Whether circuit breakers may refuse requests, and limits their retries.
    pub(crate) may_refuse: Cell<bool>,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger {
            entries: RefCell::default(),
            violations: RefCell::default(),
            targets: RefCell::default(),
            idle_closes: RefCell::default(),
            upsets: RefCell::default(),
            listening: RefCell::default(),
            drain_ns: Cell::new(u64::MAX),
            stop_ns: Cell::new(u64::MAX),
            answers: Cell::new(0),
            answers_http2: Cell::new(0),
            may_refuse: Cell::default(),
        }
    }

    pub(crate) fn violation(&self, text: impl Into<String>) {
        let text = text.into();
        note(|| format!("VIOLATION: {text}"));
        let mut violations = self.violations.borrow_mut();
        if violations.len() < VIOLATIONS_MAX {
            violations.push(text);
        }
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        self.violations.take()
    }

    pub(crate) fn requests(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Records that a client is about to send a request and returns the number of the request.
    pub(crate) fn ask(&self, method: &'static str, route: usize, body_bytes: u64) -> u64 {
        let mut entries = self.entries.borrow_mut();
        entries.push(Entry {
            method,
            route,
            body_bytes,
            sent_ns: monotonic_ns(),
            excuses: Vec::new(),
            heads: 0,
            early: false,
            executions: Vec::new(),
            over: false,
        });
        entries.len() as u64
    }

    fn with<T>(&self, id: u64, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entries = self.entries.borrow_mut();
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        entries.get_mut(index).map(act)
    }

    pub(crate) fn entry(&self, id: u64) -> Option<Entry> {
        self.with(id, |entry| entry.clone())
    }

    pub(crate) fn excuse(&self, id: u64, excuse: Excuse) {
        self.with(id, |entry| entry.excuses.push(excuse));
    }

    /// Records the destinations of all routes from now on.
    pub(crate) fn publish(&self, targets: Vec<Target>) {
        self.targets.borrow_mut().push((monotonic_ns(), targets));
    }

    /// Records that a node closed a connection on which no request was in flight.
    pub(crate) fn idle_close(&self) {
        self.idle_closes.borrow_mut().push(monotonic_ns());
    }

    /// Records that a worker's event loop ended.
    pub(crate) fn upset(&self) {
        self.upsets.borrow_mut().push(monotonic_ns());
    }

    /// Records that the second listener is there from now on, or may be absent.
    pub(crate) fn listens(&self, second: bool) {
        self.listening.borrow_mut().push((monotonic_ns(), second));
    }

    /// Whether the second listener was there at every moment since `from_ns`.
    pub(crate) fn listened_since(&self, from_ns: u64) -> bool {
        let listening = self.listening.borrow();
        let first = listening.iter().rposition(|(time_ns, _)| *time_ns <= from_ns);
        first.is_some_and(|first| listening[first..].iter().all(|(_, there)| *there))
    }

    /// Whether a worker's event loop has ended since `from_ns`.
    pub(crate) fn is_upset_since(&self, from_ns: u64) -> bool {
        self.upsets.borrow().iter().any(|upset_ns| *upset_ns >= from_ns)
    }

    /// Destinations that `route` had at any time since `from_ns`.
    fn targets(&self, route: usize, from_ns: u64) -> Vec<Target> {
        let targets = self.targets.borrow();
        let first = targets.iter().rposition(|(time_ns, _)| *time_ns <= from_ns).unwrap_or_default();
        targets[first..].iter().map(|(_, routes)| routes[route].clone()).collect()
    }

    /// Judges a request head that arrived at `node` with the identity `id` for `route`.
    pub(crate) fn arrived(&self, id: u64, node: usize, method: &str, route: usize) {
        let Some(entry) = self.with(id, |entry| {
            entry.heads += 1;
            entry.clone()
        }) else {
            return self.violation(format!("node {node} got a request {id} that nobody sent"));
        };
        if entry.method != method || entry.route != route {
            self.violation(format!(
                "request {id} is {} on {} and arrived as {method} on {route}",
                entry.method, entry.route
            ));
        }
        if entry.heads > 1 && !is_idempotent(method) {
            self.violation(format!("request {id} ({method}) was sent to nodes twice"));
        }
        if !self.targets(route, entry.sent_ns).iter().any(|target| target.nodes.contains(&node)) {
            self.violation(format!("request {id} was sent to node {node}, which its route never led to"));
        }
    }

    /// Records that a node executed `id` and will answer with `status`; returns the number of the execution.
    pub(crate) fn execute(&self, id: u64, status: u16, bytes: u64) -> usize {
        let execution = Execution { status, bytes, whole: false };
        let entry = self.with(id, |entry| {
            entry.executions.push(execution);
            entry.clone()
        });
        let entry = entry.expect("it has arrived");
        if entry.executions.len() > 1 && !is_idempotent(entry.method) {
            self.violation(format!("the work of request {id} ({}) was done twice", entry.method));
        }
        entry.executions.len() - 1
    }

    /// Records that the node answers `id` before it has read the whole request. `ends` says that it also
    /// closes the connection, which may destroy its own response.
    pub(crate) fn answer_early(&self, id: u64, ends: bool) {
        self.with(id, |entry| {
            entry.early = true;
            entry.excuses.extend(ends.then_some(Excuse::Node));
        });
    }

    /// Records that the node is about to send the whole response.
    pub(crate) fn will_be_whole(&self, id: u64, execution: usize) {
        self.with(id, |entry| entry.executions[execution].whole = true);
    }

    /// Judges the end of a client's request; `harmed` says that the network damaged its connection.
    pub(crate) fn end(&self, id: u64, ending: Ending, harmed: bool) {
        note(|| format!("request {id} ends: {ending:?}"));
        let entry = self.with(id, |entry| {
            let before = entry.clone();
            entry.over = true;
            before
        });
        let entry = entry.expect("it was asked");
        if entry.over {
            return self.violation(format!("request {id} ended twice"));
        }
        let excused = harmed || self.is_excused(&entry);
        match ending {
            Ending::GivenUp => {}
            Ending::Nothing { expected } => {
                if !excused && !entry.executions.is_empty() {
                    self.violation(format!("the answer to request {id} was lost, and its work was done"));
                } else if !excused && !expected {
                    self.violation(format!("the connection of request {id} ended for no reason"));
                }
            }
            Ending::Answer { execution: Some(execution), status, bytes, whole } => {
                self.answers.set(self.answers.get() + u64::from(whole));
                self.judge_answer(id, &entry, execution, status, bytes, whole, excused);
            }
            Ending::Answer { execution: None, status, .. } => self.judge_local(id, &entry, status, excused),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a verdict needs all that is known")]
    fn judge_answer(
        &self,
        id: u64,
        entry: &Entry,
        execution: usize,
        status: u16,
        bytes: u64,
        whole: bool,
        excused: bool,
    ) {
        let Some(done) = entry.executions.get(execution) else {
            return self.violation(format!("the answer to request {id} is of an execution that never was"));
        };
        if status != done.status {
            self.violation(format!("request {id} was answered by {} and told {status}", done.status));
        } else if whole && bytes != done.bytes {
            let cut = format!("{bytes} of {} bytes", done.bytes);
            self.violation(format!("the answer to request {id} was cut unnoticed: {cut}"));
        } else if whole && !done.whole {
            self.violation(format!("request {id} got a whole answer that its node cut"));
        } else if !whole && !excused {
            self.violation(format!("the answer to request {id} was cut for no reason"));
        }
    }

    fn judge_local(&self, id: u64, entry: &Entry, status: u16, excused: bool) {
        let targets = self.targets(entry.route, entry.sent_ns);
        let right = match status {
            404 => targets.iter().any(|target| target.nodes.is_empty()),
            super::plugins::LOCAL_STATUS => targets.iter().any(|target| target.answers),
            // A retry does not wait for a place at another node: then the failure of the first one is the
            // answer.
            502 | 504 => excused || self.may_refuse.get() || self.may_meet_a_close(entry),
            503 => self.may_refuse.get(),
            408 => entry.excuses.contains(&Excuse::Client) || excused,
            _ => false,
        };
        if !right {
            self.violation(format!("request {id} was answered {status} for no reason"));
        }
    }

    /// Whether a node's orderly close of an idle connection may have met a request that must not be retried.
    fn may_meet_a_close(&self, entry: &Entry) -> bool {
        let is_repeatable = is_idempotent(entry.method) && entry.body_bytes == 0;
        let closes = self.idle_closes.borrow();
        let met = closes.iter().any(|close_ns| *close_ns + CLOSE_LINGERS_NS >= entry.sent_ns);
        !is_repeatable && met && entry.executions.is_empty()
    }

    fn is_excused(&self, entry: &Entry) -> bool {
        let now_ns = monotonic_ns();
        let excuse = |excuse: &Excuse| match excuse {
            Excuse::HalfClosed => now_ns - entry.sent_ns >= HALF_CLOSE_NS,
            Excuse::Node | Excuse::Client | Excuse::Panic => true,
        };
        let harm =
            |harm: &memory::Harm| harm.until_ns >= entry.sent_ns && !super::plan::is_proxy(harm.address);
        entry.excuses.iter().any(excuse)
            || memory::harms().iter().any(harm)
            || self.is_upset_since(entry.sent_ns)
            || self.stop_ns.get() != u64::MAX
    }

    /// Whether a tunnel may end before both sides have closed.
    pub(crate) fn may_be_cut(&self, id: u64) -> bool {
        let harmed = memory::harms()
            .iter()
            .any(|harm| Some(harm.until_ns) >= self.entry(id).map(|entry| entry.sent_ns));
        harmed || self.entry(id).is_none_or(|entry| self.is_excused(&entry))
    }

    /// Reports requests that never ended; called after the run.
    pub(crate) fn close(&self) {
        let open: Vec<usize> = self
            .entries
            .borrow()
            .iter()
            .enumerate()
            .filter(|(_, entry)| !entry.over)
            .map(|(index, _)| index + 1)
            .collect();
        if !open.is_empty() {
            self.violation(format!("requests {open:?} never ended"));
        }
    }
}

/// Idempotent methods of RFC 9110 section 9.2.2, among those that the clients use.
fn is_idempotent(method: &str) -> bool {
    method != "POST"
}
