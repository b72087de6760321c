//! Nodes that are written by name: looked up in the background by their TTL and published to the upstream's
//! node set. The last good answer stays in force while DNS fails. Nodes written as addresses pass through
//! here too, so that one place makes node sets. It compiles nothing and knows no configuration.

mod hosts;
mod node_sets;
mod system;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use stdx::address_family::AddressFamily;
use stdx::published::Published;
use tokio::sync::Notify;

use crate::endpoint::EndpointTable;
use crate::env;
use crate::nodes::{NodePlan, NodeSet};
use node_sets::{names, publish_nodes};

pub use system::{LookupOptions, SystemLookup};

/// After a failure the next attempt comes this much later.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Publishing a configuration waits this long for names it has never seen.
const SETTLE_MAX: Duration = Duration::from_millis(1_000);
/// Lookups under way at once.
const CONCURRENT_MAX: usize = 64;
/// Lookups under way at once for the names of one follower: a quarter, so that one upstream with thousands of
/// names that do not resolve leaves the others theirs.
const CONCURRENT_OF_ONE_MAX: usize = CONCURRENT_MAX / 4;
/// Where nothing is due, the table is swept after this time for names without a follower.
const SWEEP_AFTER: Duration = Duration::from_secs(300);

/// How long an answer holds, whatever its time to live says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// A name is asked for no more often than this.
    pub min: Duration,
    /// A change is seen within this; no less than `min`.
    pub max: Duration,
}

impl Default for TtlBounds {
    fn default() -> Self {
        TtlBounds { min: Duration::from_secs(1), max: Duration::from_secs(300) }
    }
}

/// An answer: the addresses that are used, and for how long they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupAnswer {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The time to live.
    pub ttl: Duration,
    /// Why addresses of a preferred family could not be asked for: such an answer does not take the place of
    /// a whole one.
    pub failure: Option<String>,
}

/// A lookup under way.
pub type LookupFuture = Pin<Box<dyn Future<Output = Result<LookupAnswer, String>> + Send>>;

/// A way to look names up.
pub trait Lookup: Send + Sync + 'static {
    /// Looks `name` up; the error is a sentence for the log.
    fn lookup(&self, name: &str) -> LookupFuture;
}

/// See the module. Dropping it ends the background work.
pub struct Resolver {
    shared: Arc<ResolverState>,
    endpoints: Arc<EndpointTable>,
}

struct ResolverState {
    table: Mutex<NameTable>,
    changed: Notify,
    settled: Condvar,
}

#[derive(Default)]
struct NameTable {
    ttl: TtlBounds,
    names: BTreeMap<Box<str>, Name>,
    followers: Vec<NodeSetFollower>,
    /// Counts the calls of [`Resolver::settle`]; each waits for the names that came since the one before.
    round: u64,
    /// The number of the next follower.
    next_number: u64,
    closed: bool,
}

struct Name {
    addresses: Vec<IpAddr>,
    /// Why the last attempt failed.
    error: Option<String>,
    tried: bool,
    /// When it is to be asked for, in nanoseconds of the monotonic clock.
    due_ns: u64,
    asking: bool,
    /// The round in which it came.
    round: u64,
    /// The follower that has it in its share of lookups.
    payer: Payer,
}

/// A follower as it counts for its share.
#[derive(Clone, Copy, Debug, Default)]
struct Payer {
    /// Its number: not its cell's address, since the simulation does the same each time.
    number: u64,
    /// How many names its plan has. Of several followers of a name the one with the fewest pays.
    names: usize,
}

/// A node set with names in it.
struct NodeSetFollower {
    cell: Weak<Published<NodeSet>>,
    plan: NodePlan,
    number: u64,
}

impl Resolver {
    /// Starts looking names up through `lookup`, on a thread of its own; an answer holds for its time to live
    /// within `ttl`.
    ///
    /// # Errors
    /// When the thread or its event loop cannot be made.
    pub fn start(lookup: Arc<dyn Lookup>, ttl: TtlBounds) -> std::io::Result<Resolver> {
        let table = Mutex::new(NameTable { ttl, ..NameTable::default() });
        let shared = Arc::new(ResolverState { table, changed: Notify::new(), settled: Condvar::new() });
        let endpoints = Arc::new(EndpointTable::default());
        let (known, interned) = (shared.clone(), endpoints.clone());
        env::service("dns", move || resolve_loop(known.clone(), interned.clone(), lookup.clone()))?;
        Ok(Resolver { shared, endpoints })
    }

    /// Fills `cell` with the nodes of `plan`, now as far as they are known, and from now on whenever a name
    /// in it gets another address. Nodes that are in the cell stay until every name was asked for once.
    pub fn follow(&self, cell: &Arc<Published<NodeSet>>, plan: NodePlan) {
        let mut table = self.shared.lock();
        // The same cell may have followed another plan.
        let mut number = table.next_number;
        table.followers.retain(|follower| {
            let is_same = std::ptr::eq(follower.cell.as_ptr(), &raw const **cell);
            if is_same {
                number = follower.number;
            }
            follower.cell.strong_count() > 0 && !is_same
        });
        table.next_number += 1;
        let payer = Payer { number, names: names(&plan).count() };
        let named = payer.names > 0;
        let round = table.round;
        for host in names(&plan) {
            let known = table.names.entry(host.into()).or_insert_with(|| Name::unknown(round, payer));
            // A plan that replaces another one of the same cell counts anew.
            if payer.names < known.payer.names || payer.number == known.payer.number {
                known.payer = payer;
            }
        }
        publish_nodes(cell, &plan, &table.names, &self.endpoints);
        if named {
            table.followers.push(NodeSetFollower { cell: Arc::downgrade(cell), plan, number });
            drop(table);
            self.shared.changed.notify_one();
        }
    }

    /// Waits until every name that came since the last call was asked for once, or too long.
    pub fn settle(&self) {
        let round = {
            let mut table = self.shared.lock();
            table.round += 1;
            table.round - 1
        };
        self.settle_round(round);
    }

    /// As [`Resolver::settle`], and leaves the names that came to the next call of it, for a caller beside
    /// the one that calls it: names of that one are still waited for.
    pub fn settle_aside(&self) {
        let round = self.shared.lock().round;
        self.settle_round(round);
    }

    fn settle_round(&self, round: u64) {
        let unsettled =
            |table: &mut NameTable| table.names.values().any(|name| !name.tried && name.round == round);
        env::wait_while(&self.shared.table, &self.shared.settled, SETTLE_MAX, unsettled);
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl ResolverState {
    fn lock(&self) -> MutexGuard<'_, NameTable> {
        self.table.lock()
    }
}

impl Name {
    fn unknown(round: u64, payer: Payer) -> Name {
        let due_ns = env::monotonic_ns();
        Name { addresses: Vec::new(), error: None, tried: false, due_ns, asking: false, round, payer }
    }
}

/// A name that is being asked for.
struct PendingLookup {
    name: Box<str>,
    pending: LookupFuture,
}

/// The background loop: asks for what is due, takes answers in, sleeps until the next is due.
async fn resolve_loop(shared: Arc<ResolverState>, endpoints: Arc<EndpointTable>, lookup: Arc<dyn Lookup>) {
    let mut asking: Vec<PendingLookup> = Vec::new();
    // Lookups of a run that has panicked ended with it.
    shared.lock().names.values_mut().for_each(|name| name.asking = false);
    loop {
        let (due, pause_ns) = {
            let mut table = shared.lock();
            if table.closed {
                return;
            }
            forget_unused(&mut table);
            take_due(&mut table, CONCURRENT_MAX.saturating_sub(asking.len()))
        };
        for name in due {
            let pending = lookup.lookup(&name);
            asking.push(PendingLookup { name, pending });
        }
        tokio::select! {
            biased;
            () = shared.changed.notified() => {}
            (name, answer) = first_answer(&mut asking) => {
                take_in(&mut shared.lock(), &endpoints, &name, answer);
                shared.settled.notify_all();
            }
            () = env::sleep_ms(pause_ns.div_ceil(1_000_000)) => {}
        }
    }
}

/// The answer that comes first; it is no longer waited for.
async fn first_answer(asking: &mut Vec<PendingLookup>) -> (Box<str>, Result<LookupAnswer, String>) {
    poll_fn(|cx| {
        for index in 0..asking.len() {
            let pending = asking[index].pending.as_mut();
            let answer = match catch_unwind(AssertUnwindSafe(|| pending.poll(cx))) {
                Ok(Poll::Pending) => continue,
                Ok(Poll::Ready(answer)) => answer,
                Err(_) => Err("the lookup panicked".to_owned()),
            };
            return Poll::Ready((asking.swap_remove(index).name, answer));
        }
        Poll::Pending
    })
    .await
}

/// Removes names without a follower, so that they are not asked for again.
fn forget_unused(table: &mut NameTable) {
    table.followers.retain(|follower| follower.cell.strong_count() > 0);
    let NameTable { names: known, followers, .. } = table;
    let used: std::collections::HashSet<&str> =
        followers.iter().flat_map(|follower| names(&follower.plan)).collect();
    known.retain(|name, state| state.asking || !state.tried || used.contains(&**name));
}

/// Up to `room` names that are due, marked as being asked for; and how long nothing else will be, in
/// nanoseconds. The follower with the fewest pending lookups comes first, and of its names the one that has
/// been due longest.
fn take_due(table: &mut NameTable, room: usize) -> (Vec<Box<str>>, u64) {
    let now_ns = env::monotonic_ns();
    let mut shares: BTreeMap<u64, FollowerNames<'_>> = BTreeMap::new();
    let mut pause_ns = nanoseconds(SWEEP_AFTER);
    for (name, state) in &mut table.names {
        if state.asking {
            shares.entry(state.payer.number).or_default().asking += 1;
        } else if state.due_ns > now_ns {
            pause_ns = pause_ns.min(state.due_ns - now_ns);
        } else {
            shares.entry(state.payer.number).or_default().due.push((&**name, state));
        }
    }
    for share in shares.values_mut() {
        share.due.sort_unstable_by_key(|(_, state)| std::cmp::Reverse(state.due_ns));
    }
    let mut due = Vec::new();
    while due.len() < room {
        let open =
            shares.values_mut().filter(|share| share.asking < CONCURRENT_OF_ONE_MAX && !share.due.is_empty());
        let Some(share) = open.min_by_key(|share| share.asking) else { break };
        let Some((name, state)) = share.due.pop() else { break };
        state.asking = true;
        share.asking += 1;
        due.push(name.into());
    }
    (due, pause_ns)
}

/// The names of one follower: how many are being asked for, and which are due, the one due longest last.
#[derive(Default)]
struct FollowerNames<'t> {
    asking: usize,
    due: Vec<(&'t str, &'t mut Name)>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn take_in(
    table: &mut NameTable,
    endpoints: &EndpointTable,
    name: &str,
    answer: Result<LookupAnswer, String>,
) {
    let ttl = table.ttl;
    let Some(state) = table.names.get_mut(name) else { return };
    let was_failing = state.error.is_some();
    state.asking = false;
    state.tried = true;
    let answer = answer.and_then(|mut answer| match answer.failure.take() {
        // Half an answer: the family that could not be asked for is the one that served before.
        Some(reason) if !same_family(&state.addresses, &answer.addresses) => Err(reason),
        _ => Ok(answer),
    });
    let changed = match answer {
        Ok(answer) if !answer.addresses.is_empty() => {
            state.due_ns = env::monotonic_ns() + nanoseconds(answer.ttl.clamp(ttl.min, ttl.max));
            state.error = None;
            let mut addresses = answer.addresses;
            addresses.sort_unstable();
            addresses.dedup();
            if was_failing {
                tracing::info!(name, "the name can be looked up again");
            }
            std::mem::replace(&mut state.addresses, addresses) != state.addresses
        }
        failed => {
            state.due_ns = env::monotonic_ns() + nanoseconds(RETRY_AFTER);
            let reason = failed.err().unwrap_or_else(|| "it has no address".to_owned());
            if !was_failing {
                let kept = state.addresses.len();
                tracing::warn!(name, %reason, kept, "cannot look a name up; the last good answer stays in force");
            }
            state.error = Some(reason);
            // Only the note of sets without any address says why.
            state.addresses.is_empty() && !was_failing
        }
    };
    if changed {
        for follower in
            table.followers.iter().filter(|follower| names(&follower.plan).any(|host| host == name))
        {
            if let Some(cell) = follower.cell.upgrade() {
                publish_nodes(&cell, &follower.plan, &table.names, endpoints);
            }
        }
    }
}

/// Whether the addresses before and after are of one family; true where there were none before.
fn same_family(before: &[IpAddr], after: &[IpAddr]) -> bool {
    let family = |addresses: &[IpAddr]| addresses.first().map(|address| AddressFamily::of(*address));
    before.is_empty() || family(before) == family(after)
}

#[cfg(test)]
mod tests;
