//! When which node is asked: due times, the limits of checks in flight, and the order of those that wait. It
//! is handed the time and makes no check.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

/// Checks in flight at once in the whole process: each has a descriptor, and dead nodes hold theirs for a
/// timeout. Targets that wait for the check of another one have none and are not counted.
pub(super) const IN_FLIGHT_MAX: usize = 512;
/// The first check of a node comes within this time, however long its interval is.
const FIRST_WITHIN_MS: u64 = 10_000;

/// The number of a target or of a group; none is given twice.
pub(super) type Id = u64;

/// See the module.
#[derive(Default)]
pub(super) struct CheckSchedule {
    /// Due times. An entry of a target that has left is skipped.
    due: BinaryHeap<Reverse<(u64, Id)>>,
    /// Targets with the group of each; bounded by the nodes of all upstreams.
    targets: HashMap<Id, Id>,
    groups: HashMap<Id, CheckGroup>,
    /// Targets with a check in flight or that wait for that of another target, and its beginning.
    in_flight: HashMap<Id, InFlight>,
    /// Of them, those with a check of their own.
    own_checks: usize,
}

struct InFlight {
    group: Id,
    began_ms: u64,
    has_own_check: bool,
}

/// The targets of one upstream.
struct CheckGroup {
    concurrency: usize,
    in_flight: usize,
    /// Due targets that wait until fewer are in flight.
    waiting: VecDeque<Id>,
}

impl CheckSchedule {
    /// Adds a group of which at most `concurrency` targets are asked at a time.
    pub(super) fn add_group(&mut self, group: Id, concurrency: u32) {
        let group_state =
            CheckGroup { concurrency: concurrency.max(1) as usize, in_flight: 0, waiting: VecDeque::new() };
        self.groups.insert(group, group_state);
    }

    /// Adds a target. Its first check comes at a `random` time within the interval; an interval of 0 makes
    /// none.
    pub(super) fn add(&mut self, target: Id, group: Id, now_ms: u64, interval_ms: u64, random: u64) {
        self.targets.insert(target, group);
        if interval_ms > 0 {
            let at_ms = now_ms + random % interval_ms.min(FIRST_WITHIN_MS);
            self.due.push(Reverse((at_ms, target)));
        }
    }

    /// Removes targets; the results of their checks in flight are to be dropped.
    pub(super) fn remove(&mut self, targets: &[Id]) {
        let left: HashSet<Id> = targets.iter().filter_map(|target| self.targets.remove(target)).collect();
        let CheckSchedule { due, targets, groups, .. } = self;
        due.retain(|Reverse((_, target))| targets.contains_key(target));
        for group in left {
            // The end of a check makes one waiting target due. If that target is removed before its check
            // begins, no check is left of which the end would wake the others, so they become due again.
            let waiting = groups.get_mut(&group).map(|group| std::mem::take(&mut group.waiting));
            let stay = waiting.into_iter().flatten().filter(|target| targets.contains_key(target));
            due.extend(stay.map(|target| Reverse((0, target))));
        }
    }

    /// Removes a group without targets.
    pub(super) fn remove_group(&mut self, group: Id) {
        self.groups.remove(&group);
    }

    /// The next target to ask now, which is in flight from now on.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<Id> {
        while self.own_checks < IN_FLIGHT_MAX {
            let Reverse((at_ms, target)) = *self.due.peek()?;
            if at_ms > now_ms {
                return None;
            }
            self.due.pop();
            let Some(group_id) = self.targets.get(&target).copied() else { continue };
            let Some(group) = self.groups.get_mut(&group_id) else { continue };
            if group.in_flight >= group.concurrency {
                group.waiting.push_back(target);
                continue;
            }
            group.in_flight += 1;
            self.own_checks += 1;
            let in_flight = InFlight { group: group_id, began_ms: now_ms, has_own_check: true };
            self.in_flight.insert(target, in_flight);
            return Some(target);
        }
        None
    }

    /// The target that was taken waits for the check of another one, so that it holds no descriptor.
    pub(super) fn waits(&mut self, target: Id) {
        let Some(in_flight) = self.in_flight.get_mut(&target) else { return };
        self.own_checks -= usize::from(std::mem::take(&mut in_flight.has_own_check));
    }

    /// The check of `target` has ended; its next one begins `interval_ms` after the beginning of this one, 0
    /// makes none.
    pub(super) fn ended(&mut self, target: Id, now_ms: u64, interval_ms: u64) {
        let Some(ended) = self.in_flight.remove(&target) else { return };
        let InFlight { group, began_ms, has_own_check } = ended;
        self.own_checks -= usize::from(has_own_check);
        if let Some(group) = self.groups.get_mut(&group) {
            group.in_flight -= 1;
            if let Some(next) = group.waiting.pop_front() {
                self.due.push(Reverse((now_ms, next)));
            }
        }
        if interval_ms > 0 && self.targets.contains_key(&target) {
            self.due.push(Reverse(((began_ms + interval_ms).max(now_ms), target)));
        }
    }

    /// The time of the next check that may begin; none while as many are in flight as may be.
    pub(super) fn next_ms(&self) -> Option<u64> {
        if self.own_checks >= IN_FLIGHT_MAX {
            return None;
        }
        self.due.peek().map(|Reverse((at_ms, _))| *at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(schedule: &mut CheckSchedule, now_ms: u64) -> Vec<Id> {
        std::iter::from_fn(|| schedule.take_due(now_ms)).collect()
    }

    #[test]
    fn checks_follow_their_interval() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, 10);
        schedule.add(10, 1, 1_000, 500, 700);
        assert_eq!((due(&mut schedule, 1_199), schedule.next_ms()), (vec![], Some(1_200)));
        assert_eq!(due(&mut schedule, 1_200), [10]);
        assert_eq!((due(&mut schedule, 9_000), schedule.next_ms()), (vec![], None), "it is in flight");
        // now of the end, interval → the next one
        for (now_ms, interval_ms, next_ms) in [(1_300, 500, 1_700), (2_900, 1_000, 2_900), (3_000, 0, 0)] {
            schedule.ended(10, now_ms, interval_ms);
            assert_eq!(schedule.next_ms().unwrap_or(0), next_ms);
            assert_eq!(due(&mut schedule, next_ms), if interval_ms > 0 { vec![10] } else { vec![] });
        }
    }

    #[test]
    fn first_check_comes_soon_however_long_the_interval() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, 1);
        schedule.add(10, 1, 0, 86_400_000, u64::MAX);
        assert!(schedule.next_ms().is_some_and(|next_ms| next_ms < FIRST_WITHIN_MS));
        schedule.add(11, 1, 0, 0, 0);
        assert_eq!(due(&mut schedule, FIRST_WITHIN_MS), [10], "a target without interval is never asked");
    }

    #[test]
    fn concurrency_holds_for_each_group() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, 2);
        schedule.add_group(2, 1);
        for (target, group) in [(10, 1), (11, 1), (12, 1), (13, 1), (20, 2), (21, 2)] {
            schedule.add(target, group, 0, 100, 0);
        }
        assert_eq!(due(&mut schedule, 0), [10, 11, 20]);
        schedule.ended(10, 5, 100);
        assert_eq!(due(&mut schedule, 5), [12]);
        schedule.remove(&[13]);
        schedule.ended(12, 6, 100);
        assert!(due(&mut schedule, 6).is_empty(), "the waiting target has left");
        schedule.ended(20, 7, 100);
        assert_eq!(due(&mut schedule, 7), [21]);
        assert_eq!(due(&mut schedule, 100), [10], "11 is in flight and 20 waits for 21");
    }

    #[test]
    fn target_that_left_is_not_asked_again() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, 2);
        schedule.add(10, 1, 0, 100, 0);
        schedule.add(11, 1, 0, 100, 50);
        assert_eq!(due(&mut schedule, 0), [10]);
        schedule.remove(&[10, 11]);
        schedule.remove_group(1);
        schedule.ended(10, 10, 100);
        assert_eq!((due(&mut schedule, 1_000), schedule.next_ms()), (vec![], None));
        assert!(schedule.in_flight.is_empty() && schedule.due.is_empty());
    }

    #[test]
    fn checks_in_flight_are_bounded() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, u32::MAX);
        let count = IN_FLIGHT_MAX as u64 + 5;
        (0..count).for_each(|target| schedule.add(target, 1, 0, 100, 0));
        assert_eq!(due(&mut schedule, 0).len(), IN_FLIGHT_MAX);
        assert_eq!(schedule.next_ms(), None);
        schedule.ended(0, 1, 100);
        assert_eq!((schedule.next_ms(), due(&mut schedule, 1).len()), (Some(0), 1));
    }
    #[test]
    fn waiting_targets_take_no_place_in_flight() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, u32::MAX);
        let count = IN_FLIGHT_MAX as u64;
        (0..=count).for_each(|target| schedule.add(target, 1, 0, 100, 0));
        assert_eq!(due(&mut schedule, 0).len(), IN_FLIGHT_MAX);
        schedule.waits(7);
        schedule.waits(7);
        assert_eq!(due(&mut schedule, 0), [count], "one more check begins");
        schedule.ended(7, 1, 0);
        assert_eq!(schedule.next_ms(), None, "the end of the wait frees no place again");
        (0..=count).for_each(|target| schedule.ended(target, 2, 0));
        assert_eq!((schedule.own_checks, schedule.in_flight.len()), (0, 0));
    }

    #[test]
    fn removed_due_target_leaves_none_waiting() {
        let mut schedule = CheckSchedule::default();
        schedule.add_group(1, 1);
        for target in [10, 11, 12, 13] {
            schedule.add(target, 1, 0, 100, 0);
        }
        assert_eq!(due(&mut schedule, 0), [10]);
        schedule.ended(10, 5, 0);
        schedule.remove(&[11]);
        assert_eq!(due(&mut schedule, 5), [12], "11 was due and nothing is in flight");
        schedule.ended(12, 6, 0);
        assert_eq!(due(&mut schedule, 6), [13]);
    }
}
