//! The place of the data that only Weir uses: notes of versions, keys of session tickets, the state of ACME.
//! It is beside the objects, so that other readers of the objects do not see it; where etcd grants the user
//! nothing but the prefix of the objects, it is below that prefix, among the reports of data planes, which
//! APISIX and Weir leave out. It does not know the data.

use std::sync::atomic::{AtomicU8, Ordering};

use super::message::{
    Compare, CompareResult, CompareTarget, Compared, PutRequest, RequestOp, RequestOpKind, TxnRequest,
    TxnResponse,
};
use super::{Etcd, EtcdError};

/// The place as far as it is known.
#[derive(Debug, Default)]
pub(super) struct OwnPlace(AtomicU8);

const UNKNOWN: u8 = 0;
const BESIDE: u8 = 1;
const BELOW: u8 = 2;

/// The prefix of Weir's own keys beside the objects below `prefix`.
pub(super) fn beside(prefix: &str) -> String {
    format!("/weir{prefix}")
}

/// The prefix of Weir's own keys below that of the objects.
pub(super) fn build_own_prefix(prefix: &str) -> String {
    format!("{prefix}/data_plane/weir")
}

impl Etcd {
    /// The prefix of Weir's own keys for the objects below `prefix`. etcd is asked once.
    ///
    /// # Errors
    /// See [`EtcdError`]; it is not known then.
    pub(crate) async fn own_prefix(&self, prefix: &str) -> Result<String, EtcdError> {
        match self.own_place.0.load(Ordering::Relaxed) {
            BESIDE => return Ok(beside(prefix)),
            BELOW => return Ok(build_own_prefix(prefix)),
            _ => {}
        }
        // The write of a transaction with a condition that never holds: etcd does nothing, and says whether
        // it would be allowed to.
        let key = format!("{}/probe", beside(prefix)).into_bytes();
        let never = Compare {
            result: CompareResult::Less as i32,
            target: CompareTarget::Create as i32,
            key: key.clone(),
            compared: Some(Compared::CreateRevision(0)),
            range_end: Vec::new(),
        };
        let put = PutRequest { key, value: Vec::new(), lease: 0 };
        let success = vec![RequestOp { request: Some(RequestOpKind::Put(put)) }];
        let request = TxnRequest { compare: vec![never], success, ..TxnRequest::default() };
        let answer: Result<TxnResponse, EtcdError> = self.calls.call("/etcdserverpb.KV/Txn", request).await;
        match answer {
            Ok(_) => {
                self.own_place.0.store(BESIDE, Ordering::Relaxed);
                Ok(beside(prefix))
            }
            Err(error) if error.is_denied() => {
                if self.own_place.0.swap(BELOW, Ordering::Relaxed) != BELOW {
                    tracing::info!(
                        "etcd grants this user no keys below {}/: versions and shared state \
                         are kept below {}/",
                        beside(prefix),
                        build_own_prefix(prefix)
                    );
                }
                Ok(build_own_prefix(prefix))
            }
            Err(error) => Err(error),
        }
    }

    /// Lets etcd be asked again if the place was beside the objects, after a refusal of a write there;
    /// whether it was.
    pub(super) fn doubts_own_place(&self) -> bool {
        self.own_place.0.compare_exchange(BESIDE, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
