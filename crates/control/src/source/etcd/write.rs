//! Writes to etcd: under conditions, so that changes of other writers are not lost, and several in one
//! transaction where they arrive together. It does not know the meaning of the values.

use std::collections::{HashMap, HashSet};

use outbound::etcd::message::{KeyValue, RangeRequest};

use super::client::Etcd;
use super::message::{
    Compare, CompareResult, CompareTarget, Compared, DeleteRangeRequest, PutRequest, PutResponse, RequestOp,
    RequestOpKind, TxnRequest, TxnResponse,
};
use super::{EtcdError, KeySpace};

/// One write of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdOperation {
    /// The key without its prefix.
    pub path: String,
    /// The prefix of the key.
    pub place: KeyPrefix,
    /// The value; none deletes the key.
    pub text: Option<String>,
    /// The condition for the key.
    pub expect: Expected,
    /// Seconds until the key expires.
    pub ttl_s: Option<i64>,
}

/// The prefix of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPrefix {
    /// The prefix of the objects.
    Data,
    /// The prefix of keys that only Weir uses.
    Own,
}

/// The condition for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The revision that changed the key last; 0: the key does not exist.
    At(u64),
    /// The key is unchanged since an earlier operation of the same call. If that operation was not done, this
    /// one is not done either.
    AsWrittenBefore,
}

/// The result of operations in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdWriteOutcome {
    /// The revision of etcd afterwards, whether they were done or not.
    pub revision: u64,
    /// Whether they were done; if not, some key did not meet its condition.
    pub done: bool,
}

/// The error of a call. It may be unknown whether the write was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdWriteError(pub EtcdError);

impl Etcd {
    /// A revision that no other caller gets, used as the number of a new object.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn new_id(&self, space: &KeySpace) -> Result<u64, EtcdError> {
        let request = PutRequest { key: space.key("gen_id"), value: b"1".to_vec(), lease: 0 };
        let answer: PutResponse = self.calls.call("/etcdserverpb.KV/Put", request).await?;
        Ok(answer.header.unwrap_or_default().revision.unsigned_abs())
    }

    /// Does groups of operations in order, each group as a whole or not at all. Groups are joined into one
    /// transaction where they fit; if a key in it does not meet its condition, each group is tried alone.
    pub async fn write(
        &self,
        space: &KeySpace,
        groups: &[Vec<EtcdOperation>],
    ) -> Vec<Result<EtcdWriteOutcome, EtcdWriteError>> {
        let mut outcomes = Vec::with_capacity(groups.len());
        // The keys that this call has written so far, each with its revision.
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
                        outcomes.extend(together.iter().map(|_| Err(EtcdWriteError(error.clone()))));
                        continue;
                    }
                }
            }
            for group in together {
                let Some(operations) = settled(group, &written) else {
                    outcomes.push(Ok(EtcdWriteOutcome { revision: 0, done: false }));
                    continue;
                };
                let outcome = self.transact_in_parts(space, &operations).await;
                if let Ok(EtcdWriteOutcome { revision, done: true }) = outcome {
                    note(&operations, revision, &mut written);
                }
                outcomes.push(outcome.map_err(EtcdWriteError));
            }
        }
        outcomes
    }

    /// Does one group. A group that is larger than etcd accepts is done in parts, and the result is that of
    /// the last part.
    async fn transact_in_parts(
        &self,
        space: &KeySpace,
        group: &[EtcdOperation],
    ) -> Result<EtcdWriteOutcome, EtcdError> {
        let mut last = EtcdWriteOutcome { revision: 0, done: true };
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

    /// Does all operations in one transaction, if no key of these collections is newer than `revision`.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn write_whole(
        &self,
        space: &KeySpace,
        operations: &[EtcdOperation],
        collections: &[&str],
        revision: u64,
    ) -> Result<EtcdWriteOutcome, EtcdError> {
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
        operations: &[EtcdOperation],
        conditions: &[Compare],
    ) -> Result<EtcdWriteOutcome, EtcdError> {
        let outcome = self.transact_once(space, operations, conditions).await;
        let has_own = operations.iter().any(|operation| operation.place == KeyPrefix::Own);
        match &outcome {
            // Rights that were there at the last write may have been taken away.
            Err(error) if error.is_denied() && has_own && self.doubts_own_place() => {
                self.transact_once(space, operations, conditions).await
            }
            _ => outcome,
        }
    }

    async fn transact_once(
        &self,
        space: &KeySpace,
        operations: &[EtcdOperation],
        conditions: &[Compare],
    ) -> Result<EtcdWriteOutcome, EtcdError> {
        let mut request = TxnRequest { compare: conditions.to_vec(), ..TxnRequest::default() };
        for operation in operations {
            let key = match operation.place {
                KeyPrefix::Data => space.key(&operation.path),
                KeyPrefix::Own => {
                    format!("{}/{}", self.own_prefix(space.prefix()).await?, operation.path).into_bytes()
                }
            };
            if let Expected::At(revision) = operation.expect {
                request.compare.push(unchanged_since(key.clone(), revision));
            }
            let look = RangeRequest { key: key.clone(), ..RangeRequest::default() };
            request.failure.push(RequestOp { request: Some(RequestOpKind::Range(look)) });
            let done = match &operation.text {
                Some(text) => {
                    let lease = match operation.ttl_s {
                        Some(ttl) => self.lease(ttl).await?,
                        None => 0,
                    };
                    RequestOpKind::Put(PutRequest { key, value: text.clone().into_bytes(), lease })
                }
                None => RequestOpKind::DeleteRange(DeleteRangeRequest { key, range_end: Vec::new() }),
            };
            request.success.push(RequestOp { request: Some(done) });
        }
        let answer: TxnResponse = self.calls.call("/etcdserverpb.KV/Txn", request).await?;
        let revision = answer.header.unwrap_or_default().revision.unsigned_abs();
        if answer.succeeded {
            return Ok(EtcdWriteOutcome { revision, done: true });
        }
        let found: Vec<Option<KeyValue>> =
            answer.responses.into_iter().map(|response| response.range?.kvs.into_iter().next()).collect();
        Ok(EtcdWriteOutcome { revision, done: is_there_already(operations, &found) })
    }
}

/// The operations with a revision in every condition; none where one of them builds on an operation that was
/// not done.
fn settled(operations: &[EtcdOperation], written: &HashMap<String, u64>) -> Option<Vec<EtcdOperation>> {
    let settle = |operation: &EtcdOperation| {
        let expect = match operation.expect {
            Expected::At(revision) => revision,
            Expected::AsWrittenBefore => *written.get(&operation.path)?,
        };
        Some(EtcdOperation { expect: Expected::At(expect), ..operation.clone() })
    };
    operations.iter().map(settle).collect()
}

/// Records the new revision of each written key; 0 for a deleted one.
fn note(operations: &[EtcdOperation], revision: u64, written: &mut HashMap<String, u64>) {
    for operation in operations {
        let now = if operation.text.is_some() { revision } else { 0 };
        written.insert(operation.path.clone(), now);
    }
}

/// Whether the keys already have the values of the operations, at a newer revision than expected. An endpoint
/// has then done the operations and its answer was lost, so that they were sent again.
fn is_there_already(operations: &[EtcdOperation], found: &[Option<KeyValue>]) -> bool {
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

/// Count of the first groups that fit into one transaction. etcd accepts no key twice, and limits operations
/// and bytes.
fn fitting(groups: &[Vec<EtcdOperation>]) -> usize {
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

/// Below etcd's default of `max-txn-ops`, which is 128.
pub(crate) const MAX_OPERATIONS: usize = 100;
/// Below etcd's default of `max-request-bytes`, which is 1.5 MiB. Keys occur three times in a request.
pub(crate) const MAX_TRANSACTION_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &str, text: &str, expect: u64) -> EtcdOperation {
        EtcdOperation {
            path: path.to_owned(),
            place: KeyPrefix::Data,
            text: Some(text.to_owned()),
            expect: Expected::At(expect),
            ttl_s: None,
        }
    }

    #[test]
    fn fitting_groups_share_a_transaction() {
        let check = |groups: &[Vec<EtcdOperation>], expected: usize| assert_eq!(fitting(groups), expected);
        check(&[vec![put("a", "1", 0)]], 1);
        check(&[vec![put("a", "1", 0)], vec![put("b", "1", 0)]], 2);
        check(&[vec![put("a", "1", 0)], vec![put("a", "2", 0)]], 1);
        let large = "x".repeat(MAX_TRANSACTION_BYTES);
        check(&[vec![put("a", &large, 0)], vec![put("b", "", 0)]], 1);
        let many: Vec<Vec<EtcdOperation>> =
            (0..MAX_OPERATIONS + 5).map(|n| vec![put(&n.to_string(), "", 0)]).collect();
        check(&many, MAX_OPERATIONS);
    }

    #[test]
    fn operation_builds_on_earlier_one_of_same_call() {
        let later = |text: Option<&str>| EtcdOperation {
            path: "a".to_owned(),
            place: KeyPrefix::Data,
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
    fn write_with_a_lost_answer_is_recognised() {
        let kv = |value: &str, mod_revision| {
            Some(KeyValue {
                key: b"a".to_vec(),
                create_revision: 1,
                mod_revision,
                value: value.into(),
                lease: 0,
            })
        };
        let check = |operation: EtcdOperation, found: Option<KeyValue>, expected: bool| {
            assert_eq!(is_there_already(&[operation], &[found]), expected);
        };
        check(put("a", "1", 5), kv("1", 6), true);
        check(put("a", "1", 5), kv("2", 6), false);
        check(put("a", "1", 0), kv("1", 6), true);
        check(put("a", "1", 7), None, false);
        let gone = EtcdOperation {
            path: "a".to_owned(),
            place: KeyPrefix::Data,
            text: None,
            expect: Expected::At(5),
            ttl_s: None,
        };
        check(gone.clone(), None, true);
        check(gone, kv("1", 6), false);
    }
}
