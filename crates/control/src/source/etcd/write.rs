//! Writes to etcd: under conditions, so that nothing that changed meanwhile is lost, several in one transaction where they
//! came together. It refuses to know what is written.

use std::collections::{HashMap, HashSet};

use super::client::Etcd;
use super::message::{
    Compare, CompareResult, CompareTarget, Compared, DeleteRangeRequest, KeyValue, LeaseGrantRequest,
    LeaseGrantResponse, PutRequest, PutResponse, RangeRequest, Request, RequestOp, TxnRequest, TxnResponse,
};
use super::{EtcdError, KeySpace};

/// One write of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Below the prefix.
    pub path: String,
    /// Below which one.
    pub place: Place,
    /// The value; none deletes the key.
    pub text: Option<String>,
    /// What the key must be like.
    pub expect: Expected,
    /// Seconds until the key ends by itself.
    pub ttl_s: Option<i64>,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Among the objects.
    Data,
    /// Beside them, where only this program looks.
    Beside,
}

/// What a key must be like for an operation on it to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Changed last by this revision; 0: there is no such key.
    At(u64),
    /// As an earlier operation of the same call has left it. Where that was not done, this one is not either.
    AsWrittenBefore,
}

/// What became of operations that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The revision that etcd had after it, whether it was done or not.
    pub revision: u64,
    /// Whether it was done; if not, some key was not as expected.
    pub done: bool,
}

/// Why it is not known, or known not to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(pub EtcdError);

impl Etcd {
    /// A revision that nobody else has got: the number of a new object.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn new_id(&self, space: &KeySpace) -> Result<u64, EtcdError> {
        let request = PutRequest { key: space.key("gen_id"), value: b"1".to_vec(), lease: 0 };
        let answer: PutResponse = self.call("/etcdserverpb.KV/Put", request).await?;
        Ok(answer.header.unwrap_or_default().revision.unsigned_abs())
    }

    /// Does groups of operations, each group wholly or not at all, in order. Groups are joined into one transaction where
    /// they fit; if that meets a key that is not as expected, each group is tried alone.
    pub async fn write(&self, space: &KeySpace, groups: &[Vec<Operation>]) -> Vec<Result<Outcome, Failed>> {
        let mut outcomes = Vec::with_capacity(groups.len());
        // What this call has written so far, and at which revision.
        let mut written: HashMap<String, u64> = HashMap::new();
        let mut rest = groups;
        while !rest.is_empty() {
            let count = fitting(rest);
            let (together, behind) = rest.split_at(count);
            rest = behind;
            if count > 1
                && let Some(operations) = settled(&together.concat(), &written)
            {
                match self.transact(space, &operations, &[]).await {
                    Ok(outcome) if outcome.done => {
                        note(&operations, outcome.revision, &mut written);
                        outcomes.extend(together.iter().map(|_| Ok(outcome.clone())));
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        outcomes.extend(together.iter().map(|_| Err(Failed(error.clone()))));
                        continue;
                    }
                }
            }
            for group in together {
                let Some(operations) = settled(group, &written) else {
                    outcomes.push(Ok(Outcome { revision: 0, done: false }));
                    continue;
                };
                let outcome = self.transact_in_parts(space, &operations).await;
                if let Ok(Outcome { revision, done: true }) = outcome {
                    note(&operations, revision, &mut written);
                }
                outcomes.push(outcome.map_err(Failed));
            }
        }
        outcomes
    }

    /// One group; one that is larger than etcd takes at once is done in parts, the last of which decides.
    async fn transact_in_parts(&self, space: &KeySpace, group: &[Operation]) -> Result<Outcome, EtcdError> {
        let mut last = Outcome { revision: 0, done: true };
        for (number, part) in group.chunks(MAX_OPERATIONS).enumerate() {
            last = self.transact(space, part, &[]).await.map_err(|error| match error {
                // The parts before this one are written.
                EtcdError::NotConnected(reason) if number > 0 => EtcdError::Unreachable(reason),
                error => error,
            })?;
            if !last.done {
                break;
            }
        }
        Ok(last)
    }

    /// Does all operations in one transaction, if nothing in these collections is newer than `revision`.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn write_whole(
        &self,
        space: &KeySpace,
        operations: &[Operation],
        collections: &[&str],
        revision: u64,
    ) -> Result<Outcome, EtcdError> {
        let newest = i64::try_from(revision).unwrap_or(i64::MAX).saturating_add(1);
        let unchanged = |collection: &&str| {
            let (key, range_end) = space.collection(collection);
            Compare {
                result: CompareResult::Less as i32,
                target: CompareTarget::Mod as i32,
                key,
                compared: Some(Compared::ModRevision(newest)),
                range_end,
            }
        };
        let conditions: Vec<Compare> = collections.iter().map(unchanged).collect();
        self.transact(space, operations, &conditions).await
    }

    async fn transact(
        &self,
        space: &KeySpace,
        operations: &[Operation],
        conditions: &[Compare],
    ) -> Result<Outcome, EtcdError> {
        let mut request = TxnRequest { compare: conditions.to_vec(), ..TxnRequest::default() };
        for operation in operations {
            let key = match operation.place {
                Place::Data => space.key(&operation.path),
                Place::Beside => space.beside(&operation.path).0,
            };
            if let Expected::At(revision) = operation.expect {
                request.compare.push(unchanged_since(key.clone(), revision));
            }
            let look = RangeRequest { key: key.clone(), ..RangeRequest::default() };
            request.failure.push(RequestOp { request: Some(Request::Range(look)) });
            let done = match &operation.text {
                Some(text) => {
                    let lease = match operation.ttl_s {
                        Some(ttl) => self.lease(ttl).await?,
                        None => 0,
                    };
                    Request::Put(PutRequest { key, value: text.clone().into_bytes(), lease })
                }
                None => Request::DeleteRange(DeleteRangeRequest { key, range_end: Vec::new() }),
            };
            request.success.push(RequestOp { request: Some(done) });
        }
        let answer: TxnResponse = self.call("/etcdserverpb.KV/Txn", request).await?;
        let revision = answer.header.unwrap_or_default().revision.unsigned_abs();
        if answer.succeeded {
            return Ok(Outcome { revision, done: true });
        }
        let found: Vec<Option<KeyValue>> =
            answer.responses.into_iter().map(|response| response.range?.kvs.into_iter().next()).collect();
        Ok(Outcome { revision, done: is_there_already(operations, &found) })
    }

    async fn lease(&self, ttl: i64) -> Result<i64, EtcdError> {
        let request = LeaseGrantRequest { ttl: ttl.max(1) };
        let answer: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        Ok(answer.id)
    }
}

/// The operations with every expectation a revision; none where one builds on what was not done.
fn settled(operations: &[Operation], written: &HashMap<String, u64>) -> Option<Vec<Operation>> {
    let settle = |operation: &Operation| {
        let expect = match operation.expect {
            Expected::At(revision) => revision,
            Expected::AsWrittenBefore => *written.get(&operation.path)?,
        };
        Some(Operation { expect: Expected::At(expect), ..operation.clone() })
    };
    operations.iter().map(settle).collect()
}

/// Remembers what was written: a key that was deleted is there no more.
fn note(operations: &[Operation], revision: u64, written: &mut HashMap<String, u64>) {
    for operation in operations {
        let now = if operation.text.is_some() { revision } else { 0 };
        written.insert(operation.path.clone(), now);
    }
}

/// Whether the keys are as the operations would have left them, and newer than what was expected: an endpoint did them
/// and its answer was lost, so that they were asked for once more.
fn is_there_already(operations: &[Operation], found: &[Option<KeyValue>]) -> bool {
    operations.len() == found.len()
        && operations.iter().zip(found).all(|(operation, found)| match (&operation.text, found) {
            (Some(text), Some(kv)) => {
                kv.value == text.as_bytes()
                    && matches!(operation.expect, Expected::At(before) if kv.mod_revision.unsigned_abs() > before)
            }
            (None, None) => true,
            _ => false,
        })
}

fn unchanged_since(key: Vec<u8>, revision: u64) -> Compare {
    let revision = i64::try_from(revision).unwrap_or(i64::MAX);
    let (target, compared) = if revision == 0 {
        (CompareTarget::Create, Compared::CreateRevision(0))
    } else {
        (CompareTarget::Mod, Compared::ModRevision(revision))
    };
    Compare {
        result: CompareResult::Equal as i32,
        target: target as i32,
        key,
        compared: Some(compared),
        range_end: Vec::new(),
    }
}

/// How many of the first groups fit into one transaction: etcd takes no key twice, and bounds operations and bytes.
fn fitting(groups: &[Vec<Operation>]) -> usize {
    let mut keys = HashSet::new();
    let (mut operations, mut bytes) = (0, 0);
    let mut count = 0;
    for group in groups {
        operations += group.len();
        bytes +=
            group.iter().map(|one| one.path.len() + one.text.as_ref().map_or(0, String::len)).sum::<usize>();
        let fits = operations <= MAX_OPERATIONS
            && bytes <= MAX_TRANSACTION_BYTES
            && group.iter().all(|one| keys.insert(one.path.as_str()));
        if !fits {
            break;
        }
        count += 1;
    }
    count.max(1)
}

/// etcd's `max-txn-ops` is 128 unless told otherwise.
pub(crate) const MAX_OPERATIONS: usize = 100;
/// etcd's `max-request-bytes` is 1.5 MiB unless told otherwise; keys stand in a request three times.
pub(crate) const MAX_TRANSACTION_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &str, text: &str, expect: u64) -> Operation {
        Operation {
            path: path.to_owned(),
            place: Place::Data,
            text: Some(text.to_owned()),
            expect: Expected::At(expect),
            ttl_s: None,
        }
    }

    #[test]
    fn groups_that_fit_together() {
        let check = |groups: &[Vec<Operation>], expected: usize| assert_eq!(fitting(groups), expected);
        check(&[vec![put("a", "1", 0)]], 1);
        check(&[vec![put("a", "1", 0)], vec![put("b", "1", 0)]], 2);
        check(&[vec![put("a", "1", 0)], vec![put("a", "2", 0)]], 1);
        let large = "x".repeat(MAX_TRANSACTION_BYTES);
        check(&[vec![put("a", &large, 0)], vec![put("b", "", 0)]], 1);
        let many: Vec<Vec<Operation>> =
            (0..MAX_OPERATIONS + 5).map(|n| vec![put(&n.to_string(), "", 0)]).collect();
        check(&many, MAX_OPERATIONS);
    }

    #[test]
    fn operation_builds_on_earlier_one_of_same_call() {
        let later = |text: Option<&str>| Operation {
            path: "a".to_owned(),
            place: Place::Data,
            text: text.map(str::to_owned),
            expect: Expected::AsWrittenBefore,
            ttl_s: None,
        };
        let mut written = HashMap::new();
        assert_eq!(settled(&[later(Some("2"))], &written), None, "the earlier one was not done");
        note(&[put("a", "1", 5)], 9, &mut written);
        assert_eq!(settled(&[later(Some("2"))], &written).unwrap(), [put("a", "2", 9)]);
        note(&[later(None)], 10, &mut written);
        assert_eq!(settled(&[later(Some("3"))], &written).unwrap(), [put("a", "3", 0)]);
    }

    #[test]
    fn a_write_whose_answer_was_lost_is_recognised() {
        let kv = |value: &str, mod_revision| {
            Some(KeyValue {
                key: b"a".to_vec(),
                create_revision: 1,
                mod_revision,
                value: value.into(),
                lease: 0,
            })
        };
        let check = |operation: Operation, found: Option<KeyValue>, expected: bool| {
            assert_eq!(is_there_already(&[operation], &[found]), expected);
        };
        check(put("a", "1", 5), kv("1", 6), true);
        check(put("a", "1", 5), kv("2", 6), false);
        check(put("a", "1", 0), kv("1", 6), true);
        check(put("a", "1", 7), None, false);
        let gone = Operation {
            path: "a".to_owned(),
            place: Place::Data,
            text: None,
            expect: Expected::At(5),
            ttl_s: None,
        };
        check(gone.clone(), None, true);
        check(gone, kv("1", 6), false);
    }
}
