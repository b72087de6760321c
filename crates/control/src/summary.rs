//! Short forms of the objects of one kind, for lists, the search and topology: made once per configuration,
//! at the first question, and shared by all that ask. They hold no bodies of plugins and no secrets.

mod facts;
pub(crate) mod rates;
mod row;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use model::{ObjectKey, ObjectKind, WrittenObject};
use parking_lot::Mutex;

pub(crate) use facts::SummaryFacts;
pub(crate) use rates::{EndpointRates, Figures, Rates};
pub(crate) use row::SummaryRow;

use crate::verdict::{ObjectVerdict, VerdictState};
use crate::view::{SharedView, View};

/// The short form of one object, as it was written last.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    pub(crate) key: ObjectKey,
    pub(crate) facts: Arc<SummaryFacts>,
    pub(crate) state: ListState,
    /// The first fault, with its place.
    pub(crate) reason: Option<Arc<str>>,
}

/// The state of an object in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListState {
    /// Faulty, without a form that serves.
    Out,
    /// An earlier form serves.
    LastGood,
    /// Written with `status: 0`.
    Off,
    /// It serves as it was written.
    InForce,
}

impl ListState {
    /// All states, the ones that need attention first.
    pub(crate) const ALL: [ListState; 4] =
        [ListState::Out, ListState::LastGood, ListState::Off, ListState::InForce];

    /// The name in answers and filters.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ListState::Out => "out",
            ListState::LastGood => "last_good",
            ListState::Off => "off",
            ListState::InForce => "in_force",
        }
    }
}

/// The summaries of each kind at the newest view that was asked about.
#[derive(Default)]
pub(crate) struct Summaries {
    kinds: [Mutex<CachedSummaries>; ObjectKind::ALL.len()],
}

#[derive(Default)]
struct CachedSummaries {
    /// The view that the list is made of. It keeps the address from being used again, and no object alive.
    view: Weak<View>,
    list: Arc<[Summary]>,
}

impl fmt::Debug for Summaries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Summaries")
    }
}

impl Summaries {
    /// The summaries of a kind in the newest view of `shared`, ordered by id, and the view that they are of.
    pub(crate) fn newest(&self, shared: &SharedView, kind: ObjectKind) -> (Arc<View>, Arc<[Summary]>) {
        let view = shared.load();
        let list = self.of_view(&view, kind);
        (view, list)
    }

    /// The summaries of a kind in that view, ordered by id.
    pub(crate) fn of_view(&self, view: &Arc<View>, kind: ObjectKind) -> Arc<[Summary]> {
        // Readers that ask meanwhile wait for the list instead of making it a second time.
        let mut slot = self.kinds[kind as usize].lock();
        if !std::ptr::eq(slot.view.as_ptr(), Arc::as_ptr(view)) {
            slot.list = made(view, kind, &slot.list);
            slot.view = Arc::downgrade(view);
        }
        Arc::clone(&slot.list)
    }
}

/// Makes the list; facts of objects with the same text are taken from the list before.
fn made(view: &View, kind: ObjectKind, before: &[Summary]) -> Arc<[Summary]> {
    let verdicts: HashMap<ObjectKey, ObjectVerdict> =
        view.verdicts(Some(kind)).into_iter().map(|verdict| (verdict.key.clone(), verdict)).collect();
    let mut before = before.iter().peekable();
    let summary = |written: &WrittenObject| {
        while before.next_if(|old| old.key.id < written.key.id).is_some() {}
        let old = before.peek().filter(|old| old.key == written.key && old.facts.is_of(written));
        let facts = old.map_or_else(|| Arc::new(SummaryFacts::read(written)), |old| Arc::clone(&old.facts));
        let verdict = verdicts.get(&written.key);
        let state = match verdict.map_or(VerdictState::InForce, |verdict| verdict.state) {
            VerdictState::InForce if facts.is_off => ListState::Off,
            VerdictState::InForce => ListState::InForce,
            VerdictState::LastGood => ListState::LastGood,
            VerdictState::Out | VerdictState::Unplaced => ListState::Out,
        };
        Summary { key: written.key.clone(), facts, state, reason: verdict.and_then(reason) }
    };
    view.all_written(kind).into_iter().map(summary).collect()
}

fn reason(verdict: &ObjectVerdict) -> Option<Arc<str>> {
    let fault = verdict.faults.first().or(verdict.skipped.first())?;
    Some(match &*fault.pointer {
        "" => fault.reason.as_str().into(),
        pointer => format!("{pointer}: {}", fault.reason).into(),
    })
}
