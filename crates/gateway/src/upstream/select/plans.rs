//! The plans of one worker for one upstream: one for all nodes, and one for each subset, made when a request
//! first wants it and made anew when a request first wants it after a change. A change thus costs the same
//! with many subsets.

use std::collections::HashMap;

use net::nodes::NodeSet;

use super::divide::divide;
use super::plan::{PreviousPlan, SelectionPlan, SelectionRequest};
use super::subset::{SubsetIndex, SubsetScope};
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

/// The plan of one scope.
struct ScopePlan {
    plan: SelectionPlan,
    /// Whether all nodes of the scope are used, because too few are usable.
    is_in_panic: bool,
    /// Whether the state of a node has changed since: the plan is kept for its turns only.
    is_stale: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Plans {
    /// The plan of all nodes.
    whole: Option<ScopePlan>,
    /// That of the fallback.
    default: Option<ScopePlan>,
    /// Those of the subsets in use, by number.
    subsets: HashMap<u32, ScopePlan>,
    /// Only for an upstream with subsets.
    index: Option<Box<SubsetIndex>>,
}

impl Plans {
    /// Follows a change of the set, of a node's state or of a policy; `indices` are the earlier indices of
    /// the nodes, empty if the set is the same.
    pub(crate) fn rebuild(&mut self, basis: &Basis<'_>, indices: &[Option<u32>]) {
        let subsets = basis.upstream.policies.subsets.as_deref();
        self.index = subsets.map(|subsets| Box::new(SubsetIndex::new(subsets, basis.set)));
        // Numbers of subsets differ between sets; a plan of the same set continues with its turns.
        let is_same = indices.is_empty();
        let count = self.index.as_ref().filter(|_| is_same).map_or(0, |index| index.len());
        self.subsets.retain(|number, _| (*number as usize) < count);
        self.default = self.default.take().filter(|_| count > 0);
        self.default.iter_mut().chain(self.subsets.values_mut()).for_each(|plan| plan.is_stale = true);
        let before = self.whole.take();
        self.whole = Some(self.build(basis, SubsetScope::Whole, before.as_ref(), indices));
    }

    fn build(
        &self,
        basis: &Basis<'_>,
        scope: SubsetScope,
        before: Option<&ScopePlan>,
        indices: &[Option<u32>],
    ) -> ScopePlan {
        let Basis { upstream, set, loads, availability, stagger } = *basis;
        let division = divide(set, availability, &upstream.policies, &|node| self.is_in(scope, node));
        let before = before.map(|before| PreviousPlan { plan: &before.plan, indices });
        let plan =
            SelectionPlan::new(upstream.balancer, set, loads, stagger, division.parts, before.as_ref());
        ScopePlan { plan, is_in_panic: division.is_in_panic, is_stale: false }
    }

    /// The nodes of a request that wants the subset with the name of this hash; none if it must fail.
    #[inline]
    pub(crate) fn scope(&self, upstream: &Upstream, name: u64) -> Option<SubsetScope> {
        match (&self.index, &upstream.policies.subsets) {
            (Some(index), Some(subsets)) => index.scope(subsets, name),
            _ => Some(SubsetScope::Whole),
        }
    }

    /// Makes the plan of `scope` if it is missing or stale.
    #[inline]
    pub(crate) fn prepare(&mut self, basis: &Basis<'_>, scope: SubsetScope) {
        if self.of(scope).is_none_or(|plan| plan.is_stale) {
            self.add(basis, scope);
        }
    }

    #[cold]
    fn add(&mut self, basis: &Basis<'_>, scope: SubsetScope) {
        let plan = self.build(basis, scope, self.of(scope), &[]);
        match scope {
            SubsetScope::Whole => self.whole = Some(plan),
            SubsetScope::Default => self.default = Some(plan),
            SubsetScope::Subset(number) => {
                self.subsets.insert(number, plan);
            }
        }
    }

    #[inline]
    fn of(&self, scope: SubsetScope) -> Option<&ScopePlan> {
        match scope {
            SubsetScope::Whole => self.whole.as_ref(),
            SubsetScope::Default => self.default.as_ref(),
            SubsetScope::Subset(number) => self.subsets.get(&number),
        }
    }

    /// The chosen node of `scope`, which was [prepared](Plans::prepare); none if all were tried.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        basis: &Basis<'_>,
        scope: SubsetScope,
        request: SelectionRequest<'_>,
    ) -> Option<usize> {
        let plan = match scope {
            SubsetScope::Whole => self.whole.as_mut(),
            SubsetScope::Default => self.default.as_mut(),
            SubsetScope::Subset(number) => self.subsets.get_mut(&number),
        };
        plan?.plan.choose(basis.set, basis.loads, request)
    }

    /// Tells the balancers about the requests in flight at `node`.
    pub(crate) fn load_changed(&mut self, node: usize, active: u32) {
        let subset = self.index.as_ref().and_then(|index| index.of_node(node));
        let subset = subset.and_then(|number| self.subsets.get_mut(&number));
        let plans = self.whole.iter_mut().chain(&mut self.default).chain(subset);
        plans.filter(|plan| !plan.is_stale).for_each(|plan| plan.plan.load_changed(node, active));
    }

    /// Whether `node` is one of `scope`.
    pub(crate) fn is_in(&self, scope: SubsetScope, node: usize) -> bool {
        self.index.as_ref().is_none_or(|index| index.is_in(scope, node))
    }

    /// Whether `node` is in the subset with the name of this hash, with or without a weight.
    pub(crate) fn is_named(&self, name: u64, node: usize) -> bool {
        self.index.as_ref().is_some_and(|index| index.is_named(name, node))
    }

    /// Whether all nodes of `scope` are used, because too few are usable.
    pub(crate) fn is_in_panic(&self, scope: SubsetScope) -> bool {
        self.of(scope).is_some_and(|plan| plan.is_in_panic)
    }
}
