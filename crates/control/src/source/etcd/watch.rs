//! One watch: every change below the prefix from a revision on, in whole revisions only. It does not know the
//! first load, and does not reopen itself.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use outbound::etcd::client::error_of_status;
use outbound::etcd::message::{Event, EventType, WatchCreateRequest, WatchRequest, WatchResponse};
use tokio_stream::Stream;
use tonic::Streaming;

use super::space::KeyContent;
use super::{Etcd, EtcdError, KeySpace, Stray};
use crate::source::store::StoredRecord;

/// A change of one key; no record: the key was deleted.
pub type EtcdKeyChange = (String, Result<Option<StoredRecord>, Stray>);

/// Changes of some whole revisions, in order.
#[derive(Debug, Default)]
pub(super) struct WatchBatch {
    /// The last of those revisions.
    pub(super) revision: u64,
    pub(super) changes: Vec<EtcdKeyChange>,
}

/// An open watch.
pub(super) struct EtcdWatch {
    stream: Streaming<WatchResponse>,
    /// Events of a response that is not complete yet.
    parts: Vec<Event>,
}

/// The values of etcd's answer to the request for a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchHeader {
    pub(super) cluster_id: u64,
    pub(super) revision: u64,
}

impl EtcdWatch {
    /// Watches everything below the prefix from `revision` on.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub(super) async fn open(
        etcd: &Etcd,
        space: &KeySpace,
        revision: u64,
    ) -> Result<(EtcdWatch, WatchHeader), EtcdError> {
        let (key, range_end) = space.range();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: i64::try_from(revision).unwrap_or(i64::MAX),
            progress_notify: true,
            fragment: true,
        };
        let stream = etcd.calls.watch(WatchRequest { create: Some(create) }).await?;
        let mut watch = EtcdWatch { stream, parts: Vec::new() };
        let first = watch.response().await?;
        etcd.calls.refuse_canceled(&first)?;
        let header = first.header.unwrap_or_default();
        Ok((watch, WatchHeader { cluster_id: header.cluster_id, revision: header.revision.unsigned_abs() }))
    }

    /// The next changes: those that have arrived, of at most [`MAX_RESPONSES`] responses. Without changes
    /// only the revision is newer.
    ///
    /// # Errors
    /// See [`EtcdError`]; the watch has ended then.
    pub(super) async fn next(&mut self, etcd: &Etcd, space: &KeySpace) -> Result<WatchBatch, EtcdError> {
        let mut all = WatchBatch::default();
        let mut response = self.response().await?;
        for _ in 0..MAX_RESPONSES {
            etcd.calls.refuse_canceled(&response)?;
            self.take(response, space, &mut all);
            match self.arrived().await {
                Some(next) => response = next?,
                None => break,
            }
        }
        Ok(all)
    }

    fn take(&mut self, response: WatchResponse, space: &KeySpace, all: &mut WatchBatch) {
        let progress = response.events.is_empty() && !response.fragment && self.parts.is_empty();
        let header_revision = response.header.unwrap_or_default().revision.unsigned_abs();
        self.parts.extend(response.events);
        if response.fragment {
            return;
        }
        if progress {
            // No change up to that revision concerns this prefix.
            all.revision = all.revision.max(header_revision);
        }
        for event in self.parts.drain(..) {
            let is_gone = event.kind == EventType::Delete as i32;
            let Some(kv) = event.kv else { continue };
            all.revision = all.revision.max(kv.mod_revision.unsigned_abs());
            if is_gone {
                all.changes.extend(space.path(&kv.key).map(|path| (path, Ok(None))));
                continue;
            }
            match space.read(kv) {
                KeyContent::Record(path, record) => all.changes.push((path, Ok(Some(record)))),
                KeyContent::Stray(stray) => all.changes.push((stray.path.clone(), Err(stray))),
                KeyContent::Other => {}
            }
        }
    }

    async fn response(&mut self) -> Result<WatchResponse, EtcdError> {
        match self.stream.message().await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(EtcdError::Unreachable("etcd ended the watch".to_owned())),
            Err(status) => Err(error_of_status(&status)),
        }
    }

    /// A response that has already arrived.
    async fn arrived(&mut self) -> Option<Result<WatchResponse, EtcdError>> {
        poll_fn(|cx| match Pin::new(&mut self.stream).poll_next(cx) {
            Poll::Ready(Some(Ok(response))) => Poll::Ready(Some(Ok(response))),
            Poll::Ready(Some(Err(status))) => Poll::Ready(Some(Err(error_of_status(&status)))),
            Poll::Ready(None) => {
                Poll::Ready(Some(Err(EtcdError::Unreachable("etcd ended the watch".to_owned()))))
            }
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

/// Limit of responses that become one change of the configuration, so that a burst of writes is not compiled
/// one by one.
const MAX_RESPONSES: usize = 256;
