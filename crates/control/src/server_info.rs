//! Reports of this instance to etcd, as APISIX's plugin `server-info` makes them: the key
//! `data_plane/server_info/ID` with a lease, which is renewed while the instance runs. It does not know the
//! configuration.

use std::sync::Arc;
use std::time::Duration;

use model::instance::InstanceInfo;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::source::etcd::{EtcdError, KeySpace, LeasedKey, SharedEtcd};

/// Time until a report that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Shortest life of a report, in seconds (APISIX's `report_ttl`).
const TTL_MIN_S: u64 = 3;

/// The task that reports; it ends when this is dropped. The key outlives it by its lease.
pub(crate) struct ServerInfoReport(JoinHandle<()>);

impl ServerInfoReport {
    /// Reports `instance` below `prefix` from now on; each report lives for `ttl_s` seconds and is renewed
    /// after half of it.
    pub(crate) fn start(
        etcd: SharedEtcd,
        prefix: &str,
        instance: Arc<InstanceInfo>,
        ttl_s: u64,
        handle: &Handle,
    ) -> ServerInfoReport {
        tracing::warn!("the reports of server-info are deprecated in APISIX, and will be removed there");
        let space = KeySpace::new(prefix);
        let ttl_s = ttl_s.max(TTL_MIN_S);
        ServerInfoReport(handle.spawn(report(etcd, space, instance, ttl_s)))
    }
}

impl Drop for ServerInfoReport {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn report(etcd: SharedEtcd, space: KeySpace, instance: Arc<InstanceInfo>, ttl_s: u64) {
    let mut key: Option<LeasedKey> = None;
    let mut has_failed = false;
    loop {
        let wait = match turn(&etcd, &space, &instance, ttl_s, &mut key).await {
            Ok(()) => {
                has_failed = false;
                Duration::from_millis(ttl_s * 1000 / 2)
            }
            Err(error) => {
                key = None;
                // Once for each outage, because the source of the configuration reports it as well.
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(%error, "server-info cannot be reported to etcd; it is tried again");
                }
                AGAIN_AFTER
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Writes the key, or renews its lease where it is written.
async fn turn(
    etcd: &SharedEtcd,
    space: &KeySpace,
    instance: &InstanceInfo,
    ttl_s: u64,
    key: &mut Option<LeasedKey>,
) -> Result<(), EtcdError> {
    if instance.etcd_version.get().is_none() {
        let version = etcd.server_version().await?;
        // No other task sets it.
        let _ = instance.etcd_version.set(version);
    }
    if let Some(written) = key
        && etcd.renew(written).await?
    {
        return Ok(());
    }
    let path = format!("data_plane/server_info/{}", instance.id);
    *key = Some(etcd.put_leased(space, &path, instance.shown().to_string(), ttl_s).await?);
    Ok(())
}
