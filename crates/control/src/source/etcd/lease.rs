//! Keys that expire unless their lease is renewed, and the version of etcd. It does not know the meaning of
//! the values.

use super::client::Etcd;
use super::message::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, PutRequest,
    PutResponse, StatusRequest, StatusResponse,
};
use super::{EtcdError, KeySpace};

/// A key that was written with a lease of its own.
#[derive(Debug)]
pub(crate) struct LeasedKey {
    lease: i64,
}

impl Etcd {
    /// Writes a key that expires after `ttl_s` seconds.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub(crate) async fn put_leased(
        &self,
        space: &KeySpace,
        path: &str,
        text: String,
        ttl_s: u64,
    ) -> Result<LeasedKey, EtcdError> {
        let lease = self.lease(i64::try_from(ttl_s).unwrap_or(i64::MAX)).await?;
        let request = PutRequest { key: space.key(path), value: text.into_bytes(), lease };
        let _: PutResponse = self.calls.call("/etcdserverpb.KV/Put", request).await?;
        Ok(LeasedKey { lease })
    }

    /// Renews the lease of a key, which makes no new revision; false: the lease has ended, and the key with
    /// it.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub(crate) async fn renew(&self, key: &LeasedKey) -> Result<bool, EtcdError> {
        let request = LeaseKeepAliveRequest { id: key.lease };
        // The call is one of streams; etcd answers each request by itself, so that one call renews once.
        let answer: LeaseKeepAliveResponse =
            self.calls.call("/etcdserverpb.Lease/LeaseKeepAlive", request).await?;
        Ok(answer.ttl > 0)
    }

    /// The version of the member that answers.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub(crate) async fn server_version(&self) -> Result<String, EtcdError> {
        let answer: StatusResponse =
            self.calls.call("/etcdserverpb.Maintenance/Status", StatusRequest {}).await?;
        Ok(answer.version)
    }

    /// A new lease.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub(super) async fn lease(&self, ttl_s: i64) -> Result<i64, EtcdError> {
        let request = LeaseGrantRequest { ttl: ttl_s.max(1) };
        let answer: LeaseGrantResponse = self.calls.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        Ok(answer.id)
    }
}
