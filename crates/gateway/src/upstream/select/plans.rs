//! The plans of one worker for one upstream: one for all nodes, and one for each subset, made when a request first wants it.

use std::collections::HashMap;

use net::nodes::NodeSet;

use super::divide::divide;
use super::plan::{Before, Plan, Request};
use super::subset::{Scope, SubsetIndex};
use crate::upstream::Upstream;
use crate::upstream::availability::Availability;
use crate::upstream::loads::Loads;

/// The input of every plan.
pub(crate) struct Basis<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) set: &'a NodeSet,
    pub(crate) loads: &'a Loads,
    pub(crate) availability: &'a Availability,
    /// The worker's number.
    pub(crate) stagger: usize,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Plans {
    /// The plan of all nodes.
    whole: Option<Plan>,
    /// That of the fallback.
    default: Option<Plan>,
    /// Those of the subsets in use, by number.
    subsets: HashMap<u32, Plan>,
    /// Only for an upstream with subsets.
    index: Option<Box<SubsetIndex>>,
    is_in_panic: bool,
}

impl Plans {
    /// The plans after a change of the set or of a node's state; `indices` are the earlier indices of the nodes, empty if
    /// the set is the same.
    pub(crate) fn rebuilt(&self, basis: &Basis<'_>, indices: &[Option<u32>]) -> Plans {
        let subsets = basis.upstream.policies.subsets.as_deref();
        let index = subsets.map(|subsets| Box::new(SubsetIndex::new(subsets, basis.set)));
        let mut plans = Plans { index, ..Plans::default() };
        let (plan, is_in_panic) = plans.build(basis, Scope::Whole, self.whole.as_ref(), indices);
        plans.is_in_panic = is_in_panic;
        plans.whole = Some(plan);
        // Numbers of subsets differ between sets; a plan of the same set continues with its turns.
        if indices.is_empty() {
            plans.default =
                self.default.as_ref().map(|plan| plans.build(basis, Scope::Default, Some(plan), &[]).0);
            for (number, plan) in &self.subsets {
                let (plan, _) = plans.build(basis, Scope::Subset(*number), Some(plan), &[]);
                plans.subsets.insert(*number, plan);
            }
        }
        plans
    }

    fn build(
        &self,
        basis: &Basis<'_>,
        scope: Scope,
        before: Option<&Plan>,
        indices: &[Option<u32>],
    ) -> (Plan, bool) {
        let Basis { upstream, set, loads, availability, stagger } = *basis;
        let is_in = |node: usize| self.index.as_ref().is_none_or(|index| index.is_in(scope, node));
        let division = divide(set, availability, &upstream.policies, &is_in);
        let before = before.map(|plan| Before { plan, indices });
        let plan = Plan::new(upstream.balancer, set, loads, stagger, division.parts, before.as_ref());
        (plan, division.is_in_panic)
    }

    /// The nodes of a request that wants the subset with the name of this hash; none if it must fail.
    #[inline]
    pub(crate) fn scope(&self, upstream: &Upstream, name: u64) -> Option<Scope> {
        match (&self.index, &upstream.policies.subsets) {
            (Some(index), Some(subsets)) => index.scope(subsets, name),
            _ => Some(Scope::Whole),
        }
    }

    /// The chosen node of `scope`; none if all were tried.
    #[inline]
    pub(crate) fn choose(&mut self, basis: &Basis<'_>, scope: Scope, request: Request<'_>) -> Option<usize> {
        let plan = match scope {
            Scope::Whole => self.whole.as_mut(),
            Scope::Default => self.default.as_mut(),
            Scope::Subset(number) => self.subsets.get_mut(&number),
        };
        match plan {
            Some(plan) => plan.choose(basis.set, basis.loads, request),
            None => self.added(basis, scope)?.choose(basis.set, basis.loads, request),
        }
    }

    /// The plan of `scope`, made for its first request.
    #[cold]
    fn added(&mut self, basis: &Basis<'_>, scope: Scope) -> Option<&mut Plan> {
        let (plan, _) = self.build(basis, scope, None, &[]);
        match scope {
            Scope::Whole => Some(self.whole.insert(plan)),
            Scope::Default => Some(self.default.insert(plan)),
            Scope::Subset(number) => Some(self.subsets.entry(number).or_insert(plan)),
        }
    }

    /// Tells the balancers about the requests in flight at `node`.
    pub(crate) fn load_changed(&mut self, node: usize, active: u32) {
        let plans = self.whole.iter_mut().chain(&mut self.default).chain(self.subsets.values_mut());
        plans.for_each(|plan| plan.load_changed(node, active));
    }

    /// Whether `node` is one of `scope`.
    pub(crate) fn is_in(&self, scope: Scope, node: usize) -> bool {
        self.index.as_ref().is_none_or(|index| index.is_in(scope, node))
    }

    /// Whether all nodes of the upstream are used, because too few are usable.
    pub(crate) fn is_in_panic(&self) -> bool {
        self.is_in_panic
    }
}
