//! Plain keys and values of etcd below a prefix: everything at one revision, then the changes of whole
//! revisions. It does not know the layout of the configuration, and does not write.

use std::time::Duration;

use tonic::Streaming;

use super::client::{EtcdClient, error_of_status};
use super::message::{Event, EventType, WatchCreateRequest, WatchRequest, WatchResponse};
use super::range::load_range;
use super::{EtcdConfig, EtcdError};

/// A reader of the keys below a prefix.
pub struct PlainReader {
    etcd: EtcdClient,
    prefix: Vec<u8>,
    timeout: Duration,
}

/// A key, and its value; none: it was deleted.
pub type PlainChange = (Vec<u8>, Option<Vec<u8>>);

/// An open watch.
pub struct PlainWatch {
    stream: Streaming<WatchResponse>,
    /// Events of a response that is not complete yet.
    parts: Vec<Event>,
}

impl PlainReader {
    /// A reader of the keys that begin with `config.prefix`. It must be created within a tokio runtime.
    ///
    /// # Errors
    /// See [`EtcdClient::new`].
    pub fn new(config: EtcdConfig) -> Result<PlainReader, EtcdError> {
        let (prefix, timeout) = (config.prefix.clone().into_bytes(), config.timeout);
        Ok(PlainReader { etcd: EtcdClient::new(config)?, prefix, timeout })
    }

    /// The endpoint that is asked.
    pub fn endpoint(&self) -> &str {
        self.etcd.endpoint()
    }

    /// Passes all keys with their values to `take`, and returns the revision that they are of.
    ///
    /// # Errors
    /// See [`EtcdError`]; more than [`MAX_KEYS`] keys are refused.
    pub async fn load(&self, mut take: impl FnMut(Vec<u8>, Vec<u8>)) -> Result<u64, EtcdError> {
        let mut count = 0;
        let range = (self.prefix.clone(), end_of(&self.prefix));
        let read = load_range(&self.etcd, range, 0, |kv| {
            count += 1;
            take(kv.key, kv.value);
            match count > MAX_KEYS {
                true => Err(EtcdError::Refused(too_many_keys())),
                false => Ok(()),
            }
        });
        Ok(read.await?.revision)
    }

    /// Watches every change after `revision`. etcd has confirmed the watch when this returns.
    ///
    /// # Errors
    /// See [`EtcdError`]; [`EtcdError::Compacted`] when etcd no longer keeps the changes after that revision.
    pub async fn watch(&self, revision: u64) -> Result<PlainWatch, EtcdError> {
        let create = WatchCreateRequest {
            key: self.prefix.clone(),
            range_end: end_of(&self.prefix),
            start_revision: i64::try_from(revision.saturating_add(1)).unwrap_or(i64::MAX),
            progress_notify: true,
            fragment: true,
        };
        let stream = self.etcd.watch(WatchRequest { create: Some(create) }).await?;
        let mut watch = PlainWatch { stream, parts: Vec::new() };
        let first = tokio::time::timeout(self.timeout, watch.response()).await;
        let first = first
            .map_err(|_| EtcdError::Unreachable(format!("no confirmed watch within {:?}", self.timeout)))??;
        self.etcd.refuse_canceled(&first)?;
        watch.parts.extend(first.events);
        Ok(watch)
    }

    /// The next changes of a watch; empty for a sign of progress.
    ///
    /// # Errors
    /// See [`EtcdError`]; the watch has ended then.
    pub async fn next(&self, watch: &mut PlainWatch) -> Result<Vec<PlainChange>, EtcdError> {
        loop {
            let response = watch.response().await?;
            self.etcd.refuse_canceled(&response)?;
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

impl PlainWatch {
    async fn response(&mut self) -> Result<WatchResponse, EtcdError> {
        match self.stream.message().await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(EtcdError::Unreachable("etcd ended the watch".to_owned())),
            Err(status) => Err(error_of_status(&status)),
        }
    }
}

/// The reason why more than [`MAX_KEYS`] keys are refused.
pub fn too_many_keys() -> String {
    format!("there are more than {MAX_KEYS} keys below the prefix")
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

/// Most keys below a prefix.
pub const MAX_KEYS: usize = 200_000;

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
