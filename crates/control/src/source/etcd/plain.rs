//! Plain keys and values of etcd below a prefix: everything at one revision, then the changes of whole revisions. It does
//! not know the layout of the configuration, and does not write.

use tonic::Streaming;

use super::client::error;
use super::load::RANGE;
use super::message::{
    Event, EventType, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use super::{Etcd, EtcdConfig, EtcdError};

/// A reader of the keys below a prefix.
pub(crate) struct PlainReader {
    etcd: Etcd,
    prefix: Vec<u8>,
}

/// A key, and its value; none: it was deleted.
pub(crate) type PlainChange = (Vec<u8>, Option<Vec<u8>>);

/// An open watch.
pub(crate) struct PlainWatch {
    stream: Streaming<WatchResponse>,
    /// Events of a response that is not complete yet.
    parts: Vec<Event>,
}

impl PlainReader {
    /// A reader of the keys that begin with `config.prefix`. It must be created within a tokio runtime.
    ///
    /// # Errors
    /// See [`Etcd::new`].
    pub(crate) fn new(config: EtcdConfig) -> Result<PlainReader, EtcdError> {
        let prefix = config.prefix.clone().into_bytes();
        Ok(PlainReader { etcd: Etcd::new(config)?, prefix })
    }

    /// The endpoint that is asked.
    pub(crate) fn endpoint(&self) -> &str {
        self.etcd.endpoint()
    }

    /// Uses another endpoint from now on.
    pub(crate) fn turn_away(&self) {
        self.etcd.turn_away();
    }

    /// All keys with their values, and the revision that they are of.
    ///
    /// # Errors
    /// See [`EtcdError`]; more than [`MAX_KEYS`] keys are refused.
    pub(crate) async fn load(&self) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, i64), EtcdError> {
        let (mut key, mut revision, mut all) = (self.prefix.clone(), 0, Vec::new());
        loop {
            let request = RangeRequest {
                key: key.clone(),
                range_end: end_of(&self.prefix),
                limit: PAGE_KEYS,
                revision,
                ..RangeRequest::default()
            };
            let page: RangeResponse = self.etcd.call(RANGE, request).await?;
            if revision == 0 {
                revision = page.header.unwrap_or_default().revision;
            }
            let more = page.more;
            for kv in page.kvs {
                key.clone_from(&kv.key);
                all.push((kv.key, kv.value));
            }
            if all.len() > MAX_KEYS {
                return Err(EtcdError::Refused(format!(
                    "there are more than {MAX_KEYS} keys below the prefix"
                )));
            }
            if !more {
                return Ok((all, revision));
            }
            // The next page begins directly after the last key of this one.
            key.push(0);
        }
    }

    /// Watches every change after `revision`.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub(crate) async fn watch(&self, revision: i64) -> Result<PlainWatch, EtcdError> {
        let create = WatchCreateRequest {
            key: self.prefix.clone(),
            range_end: end_of(&self.prefix),
            start_revision: revision.saturating_add(1),
            progress_notify: true,
            fragment: true,
        };
        let stream = self.etcd.watch(WatchRequest { create: Some(create) }).await?;
        Ok(PlainWatch { stream, parts: Vec::new() })
    }

    /// The next changes of a watch; empty for a sign of progress.
    ///
    /// # Errors
    /// See [`EtcdError`]; the watch has ended then.
    pub(crate) async fn next(&self, watch: &mut PlainWatch) -> Result<Vec<PlainChange>, EtcdError> {
        loop {
            let response = match watch.stream.message().await {
                Ok(Some(response)) => response,
                Ok(None) => return Err(EtcdError::Unreachable("etcd ended the watch".to_owned())),
                Err(status) => return Err(error(&status)),
            };
            super::watch::refuse_canceled(&response, &self.etcd)?;
            watch.parts.extend(response.events);
            if watch.parts.len() > MAX_KEYS {
                return Err(EtcdError::Refused(format!("one revision changes more than {MAX_KEYS} keys")));
            }
            if !response.fragment {
                return Ok(watch.parts.drain(..).filter_map(change).collect());
            }
        }
    }
}

fn change(event: Event) -> Option<PlainChange> {
    let is_gone = event.kind == EventType::Delete as i32;
    event.kv.map(|kv| (kv.key, (!is_gone).then_some(kv.value)))
}

/// The first key after all keys with the prefix; a zero byte stands for no end.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|byte| *byte != u8::MAX) else { return vec![0] };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

/// Keys in one page; values of instances are small.
const PAGE_KEYS: i64 = 2000;
/// Most keys below a prefix.
const MAX_KEYS: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn end_of_a_prefix_is_its_successor() {
        assert_eq!(end_of(b"/a/"), b"/a0");
        assert_eq!(end_of(&[1, 255]), [2]);
        assert_eq!(end_of(&[255, 255]), [0]);
        assert_eq!(end_of(b""), [0]);
    }
}
