//! One round of calls: the due services, a bounded number at the same time, and the decision whether calls
//! without an answer concern single services or the registry.

use model::discovery::ServiceKey;
use tokio::task::JoinSet;

use super::schedule::PollSchedule;
use super::{PollAnswer, PollFailure, PollQuery, PollResult};
use crate::Services;
use crate::publish::publish;

/// Calls in a row without an answer of the registry.
struct Unanswered {
    calls: Vec<(ServiceKey, String)>,
    /// Whether the registry has answered a call of this round.
    has_answered: bool,
}

impl Unanswered {
    /// Whether the registry may be down, so that no further call begins.
    fn is_doubtful(&self) -> bool {
        self.calls.len() >= if self.has_answered { MAX_IN_A_ROW } else { 1 }
    }

    /// The registry answers, so that these calls concern their services only.
    fn are_of_services(&mut self, services: &Services, schedule: &mut PollSchedule) {
        for (key, reason) in self.calls.drain(..) {
            publish(services, &key, Err(reason));
            schedule.failed(key, true);
        }
    }
}

/// Asks for these services. Calls in flight are finished in any case. If the registry has not answered, a
/// service that it has answered for before is asked for as well, so that one faulty service that is due alone
/// does not count as a failure of the registry.
///
/// # Errors
/// The registry does not answer, so that the other services were not asked for.
pub(super) async fn round<A>(
    services: &Services,
    due: Vec<PollQuery>,
    ask: &impl Fn(PollQuery) -> A,
    schedule: &mut PollSchedule,
) -> Result<(), String>
where
    A: Future<Output = PollResult> + Send + 'static,
{
    let mut waiting = due.into_iter();
    let mut asked = JoinSet::new();
    let mut unanswered = Unanswered { calls: Vec::new(), has_answered: false };
    let mut is_witness_asked = false;
    loop {
        while !unanswered.is_doubtful()
            && asked.len() < MAX_AT_ONCE
            && let Some(question) = waiting.next()
        {
            spawn(&mut asked, ask, question);
        }
        if asked.is_empty()
            && unanswered.is_doubtful()
            && !std::mem::replace(&mut is_witness_asked, true)
            && let Some(question) = schedule.witness(&unanswered.calls)
        {
            spawn(&mut asked, ask, question);
        }
        let (key, answer) = match asked.join_next().await {
            None => break,
            Some(Ok(answered)) => answered,
            // A task ends without a value only by a panic, which the thread of the registries handles.
            Some(Err(error)) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return Err("a call was cancelled".to_owned()),
            },
        };
        match answer {
            Err(PollFailure::Registry(reason)) => {
                unanswered.calls.push((key, reason));
                continue;
            }
            Err(PollFailure::Service(reason)) => {
                publish(services, &key, Err(reason));
                schedule.failed(key, false);
            }
            Ok(PollAnswer::Unchanged) => drop(schedule.answered(key)),
            Ok(PollAnswer::Whole(found, revision)) => {
                publish(services, &key, Ok(found));
                *schedule.answered(key) = revision;
            }
        }
        is_witness_asked = false;
        unanswered.has_answered = true;
        unanswered.are_of_services(services, schedule);
    }
    if !unanswered.is_doubtful() {
        unanswered.are_of_services(services, schedule);
        return Ok(());
    }
    let first = unanswered.calls.first().map(|(_, reason)| reason.clone()).unwrap_or_default();
    unanswered.calls.into_iter().for_each(|(key, _)| schedule.unreached(key));
    Err(first)
}

fn spawn<A>(asked: &mut JoinSet<(ServiceKey, PollResult)>, ask: &impl Fn(PollQuery) -> A, question: PollQuery)
where
    A: Future<Output = PollResult> + Send + 'static,
{
    let key = question.key.clone();
    let answer = ask(question);
    asked.spawn(async move { (key, answer.await) });
}

/// Calls at the same time, each over its own connection.
const MAX_AT_ONCE: usize = 8;
/// Calls in a row without an answer after which no further call begins until the registry has answered again,
/// although it has answered before in the same round.
const MAX_IN_A_ROW: usize = 32;
