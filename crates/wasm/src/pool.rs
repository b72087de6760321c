//! The instances of one worker, one for each module, made when a request needs them. After failures in a row
//! an instance is made anew only after a while, and requests are refused at once until then.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak as RcWeak};
use std::sync::{Arc, Weak};

use exchange::local::WorkerLocal;
use exchange::plugin::outbound::DestinationOpener;
use net::env;
use stdx::hash::FastMap;

use crate::cell::VmCell;
use crate::fault::GuestFault;
use crate::host::{Home, Loan};
use crate::limits::{BACKOFF_FIRST_MS, BACKOFF_MAX_MS, FAILURES_MAX, SWEEP_MS};
use crate::module::CompiledModule;
use crate::plugin::Configured;
use crate::vm::Vm;

/// See the module.
#[derive(Default)]
pub(crate) struct InstancePool {
    entries: RefCell<FastMap<u64, InstancePoolEntry>>,
    is_swept: Cell<bool>,
}

struct InstancePoolEntry {
    module: Weak<CompiledModule>,
    cell: Option<Rc<VmCell>>,
    roots: FastMap<u64, Configuration>,
    /// Failures since a call last ended well.
    failures: u32,
    /// The time from which an instance may be made again, in milliseconds.
    opens_ms: u64,
}

/// A configuration in the instance.
struct Configuration {
    of: Weak<Configured>,
    root: Result<u32, GuestFault>,
}

impl InstancePool {
    /// The instance of a plugin, and its context of the configuration.
    pub(crate) fn instance(
        &self,
        local: &Rc<WorkerLocal>,
        configured: &Arc<Configured>,
    ) -> Result<(Rc<VmCell>, u32), GuestFault> {
        let module = &configured.module;
        let mut entries = self.entries.borrow_mut();
        let entry = entries.entry(module.number).or_insert_with(|| InstancePoolEntry::new(module));
        if let Some(cell) = &entry.cell
            && !cell.is_broken()
            && let Some(Configuration { root: Ok(root), .. }) = entry.roots.get(&configured.number)
        {
            return Ok((cell.clone(), *root));
        }
        let made = entry.make(local, configured);
        drop(entries);
        self.sweep_from_now_on(local);
        made
    }

    /// Notes that a call has ended well, so that earlier failures count no more.
    #[inline]
    pub(crate) fn succeeded(&self, module: u64) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&module) {
            entry.failures = 0;
        }
    }

    /// Notes that a call has ended the instance.
    pub(crate) fn failed(&self, module: u64) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&module) {
            entry.fail();
        }
    }

    fn sweep_from_now_on(&self, local: &Rc<WorkerLocal>) {
        if self.is_swept.replace(true) {
            return;
        }
        let local: RcWeak<WorkerLocal> = Rc::downgrade(local);
        env::spawn(async move {
            loop {
                env::sleep_ms(SWEEP_MS).await;
                let Some(local) = local.upgrade() else { return };
                let pool = local.resource(InstancePool::default);
                if !pool.sweep() {
                    pool.is_swept.set(false);
                    return;
                }
            }
        });
    }

    /// Ends instances and configurations that nothing uses any more; whether some are left.
    pub(crate) fn sweep(&self) -> bool {
        let mut ended = Vec::new();
        let mut entries = self.entries.borrow_mut();
        entries.retain(|_, entry| {
            if entry.module.strong_count() == 0 {
                return false;
            }
            if entry.cell.as_ref().is_some_and(|cell| cell.is_broken()) {
                entry.cell = None;
                entry.roots.clear();
            }
            entry.roots.retain(|_, configuration| {
                let is_used = configuration.of.strong_count() > 0;
                if let (false, Ok(root), Some(cell)) = (is_used, &configuration.root, &entry.cell) {
                    ended.push((cell.clone(), *root));
                }
                is_used
            });
            if entry.roots.is_empty() {
                // Requests that are under way in it keep it until they end.
                entry.cell = None;
            }
            true
        });
        let is_left = !entries.is_empty();
        // Guests run without a borrow of the table.
        drop(entries);
        for (cell, root) in ended {
            cell.end_root(root);
        }
        is_left
    }

    /// How many instances there are.
    #[cfg(test)]
    pub(crate) fn instances(&self) -> usize {
        let entries = self.entries.borrow();
        entries.values().filter(|entry| entry.cell.as_ref().is_some_and(|cell| !cell.is_broken())).count()
    }
}

impl InstancePoolEntry {
    fn new(module: &Arc<CompiledModule>) -> InstancePoolEntry {
        InstancePoolEntry {
            module: Arc::downgrade(module),
            cell: None,
            roots: FastMap::default(),
            failures: 0,
            opens_ms: 0,
        }
    }

    fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
        if let Some(beyond) = self.failures.checked_sub(FAILURES_MAX) {
            let pause_ms = BACKOFF_FIRST_MS.saturating_mul(1 << beyond.min(16)).min(BACKOFF_MAX_MS);
            self.opens_ms = now_ms() + pause_ms;
        }
    }

    fn make(
        &mut self,
        local: &Rc<WorkerLocal>,
        configured: &Arc<Configured>,
    ) -> Result<(Rc<VmCell>, u32), GuestFault> {
        let cell = match self.cell.as_ref().filter(|cell| !cell.is_broken()) {
            Some(cell) => cell.clone(),
            None => {
                self.cell = None;
                self.roots.clear();
                let left_ms = self.opens_ms.saturating_sub(now_ms());
                if left_ms > 0 {
                    let text = format!(
                        "it failed {} times in a row; it is tried again in {left_ms} ms",
                        self.failures
                    );
                    return Err(GuestFault::new("breaker_open", text));
                }
                match start(local, configured) {
                    Ok(cell) => self.cell.insert(cell).clone(),
                    Err(fault) => {
                        self.fail();
                        return Err(fault);
                    }
                }
            }
        };
        if let Some(Configuration { root: Err(fault), .. }) = self.roots.get(&configured.number) {
            return Err(fault.clone());
        }
        let root = cell.enter(None, 0, |vm| vm.configure(&configured.text));
        if let Err(fault) = &root
            && fault.ends_instance
        {
            self.fail();
            return Err(fault.clone());
        }
        // A refused configuration is kept, because the guest would refuse it for each request.
        let kept = Configuration { of: Arc::downgrade(configured), root: root.clone() };
        self.roots.insert(configured.number, kept);
        Ok((cell, root?))
    }
}

fn start(local: &Rc<WorkerLocal>, configured: &Configured) -> Result<Rc<VmCell>, GuestFault> {
    let module = &configured.module;
    let lent: Rc<Loan> = Rc::default();
    let opener: DestinationOpener = configured.opener.clone();
    let background = configured.background_faults.clone();
    let cell = Rc::new(VmCell::new(module.identity.name, Rc::clone(&lent), background));
    let home = Home { local: Rc::downgrade(local), opener, cell: Rc::downgrade(&cell) };
    cell.fill(Vm::start(module, module.host(lent, home))?);
    Ok(cell)
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}
