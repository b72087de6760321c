//! The times at which services are asked for again, with the revisions of their answers. It does not ask.

use std::collections::BTreeMap;
use std::time::Duration;

use model::discovery::ServiceKey;
use tokio::time::Instant;

use super::PollQuery;

/// All followed services that were asked for.
pub(super) struct PollSchedule {
    interval: Duration,
    services: BTreeMap<ServiceKey, Scheduled>,
}

#[derive(Default)]
struct Scheduled {
    /// None: the service is due now.
    due_at: Option<Instant>,
    /// The revision of the answer that is in force.
    revision: Option<String>,
    /// The registry did not answer the last call for it. Such services are asked for after the others, so
    /// that the others show whether the registry can be used.
    is_suspect: bool,
}

impl PollSchedule {
    pub(super) fn new(interval: Duration) -> PollSchedule {
        PollSchedule { interval, services: BTreeMap::new() }
    }

    /// Forgets services that are not in this ordered list.
    pub(super) fn keep(&mut self, wanted: &[ServiceKey]) {
        self.services.retain(|key, _| wanted.binary_search(key).is_ok());
    }

    /// Makes a service due now.
    pub(super) fn hurry(&mut self, key: &ServiceKey) {
        if let Some(scheduled) = self.services.get_mut(key) {
            scheduled.due_at = None;
        }
    }

    /// The calls that are due. A service without an outcome is due at once and without a revision: it is new,
    /// or was followed again, so that an earlier answer is no longer in force.
    pub(super) fn due(
        &self,
        wanted: Vec<ServiceKey>,
        unanswered: &BTreeMap<ServiceKey, u64>,
        now: Instant,
    ) -> Vec<PollQuery> {
        let (mut usual, mut suspect) = (Vec::new(), Vec::new());
        for key in wanted {
            let is_new = unanswered.contains_key(&key);
            let Some(scheduled) = self.services.get(&key) else {
                usual.push(PollQuery { key, revision: None });
                continue;
            };
            if is_new || scheduled.due_at.is_none_or(|at| at <= now) {
                let revision = scheduled.revision.clone().filter(|_| !is_new);
                let list = if scheduled.is_suspect { &mut suspect } else { &mut usual };
                list.push(PollQuery { key, revision });
            }
        }
        usual.append(&mut suspect);
        usual
    }

    /// A call for a service that the registry has answered for the last time, and that is not among these.
    pub(super) fn witness(&self, unanswered: &[(ServiceKey, String)]) -> Option<PollQuery> {
        let is_usable = |(key, scheduled): &(&ServiceKey, &Scheduled)| {
            !scheduled.is_suspect && unanswered.iter().all(|(failed, _)| failed != *key)
        };
        let (key, scheduled) = self.services.iter().find(is_usable)?;
        Some(PollQuery { key: key.clone(), revision: scheduled.revision.clone() })
    }

    /// A good answer has come: the service is asked for again after the interval.
    pub(super) fn answered(&mut self, key: ServiceKey) -> &mut Option<String> {
        let due_at = Some(Instant::now() + self.interval);
        let scheduled = self.services.entry(key).or_default();
        (scheduled.due_at, scheduled.is_suspect) = (due_at, false);
        &mut scheduled.revision
    }

    /// The service is asked for again after the interval, for a whole answer.
    pub(super) fn failed(&mut self, key: ServiceKey, is_suspect: bool) {
        let due_at = Some(Instant::now() + self.interval);
        self.services.insert(key, Scheduled { due_at, revision: None, is_suspect });
    }

    /// The registry has not answered: the service stays due.
    pub(super) fn unreached(&mut self, key: ServiceKey) {
        self.services.insert(key, Scheduled { is_suspect: true, ..Scheduled::default() });
    }

    pub(super) fn forget_revisions(&mut self) {
        self.services.values_mut().for_each(|scheduled| scheduled.revision = None);
    }

    /// The time of the next call; none while no service is followed.
    pub(super) fn next(&self) -> Option<Instant> {
        self.services.values().map(|scheduled| scheduled.due_at.unwrap_or_else(Instant::now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("nacos", name)
    }

    fn due(schedule: &PollSchedule, unanswered: &[&str]) -> Vec<(String, Option<String>)> {
        let unanswered: BTreeMap<ServiceKey, u64> = unanswered.iter().map(|name| (key(name), 1)).collect();
        let due = schedule.due(vec![key("a"), key("b")], &unanswered, Instant::now());
        due.into_iter().map(|question| (question.key.service.to_string(), question.revision)).collect()
    }

    #[tokio::test]
    async fn service_without_outcome_is_asked_for_in_whole() {
        let mut schedule = PollSchedule::new(Duration::from_secs(60));
        *schedule.answered(key("a")) = Some("r1".to_owned());
        *schedule.answered(key("b")) = Some("r2".to_owned());
        assert!(due(&schedule, &[]).is_empty());
        assert_eq!(due(&schedule, &["b"]), [("b".to_owned(), None)]);
        schedule.hurry(&key("a"));
        assert_eq!(due(&schedule, &[]), [("a".to_owned(), Some("r1".to_owned()))]);
        schedule.forget_revisions();
        assert_eq!(due(&schedule, &[]), [("a".to_owned(), None)]);
        schedule.keep(&[key("b")]);
        assert_eq!(due(&schedule, &[]), [("a".to_owned(), None)]);
    }

    #[tokio::test]
    async fn unreached_service_is_asked_for_last() {
        let mut schedule = PollSchedule::new(Duration::from_secs(60));
        schedule.unreached(key("a"));
        let names: Vec<String> = due(&schedule, &[]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "a"]);
        schedule.failed(key("a"), true);
        assert_eq!(schedule.witness(&[]), None);
        *schedule.answered(key("b")) = None;
        assert!(due(&schedule, &[]).is_empty());
        assert_eq!(schedule.witness(&[]), Some(PollQuery { key: key("b"), revision: None }));
        assert_eq!(schedule.witness(&[(key("b"), String::new())]), None);
    }
}
