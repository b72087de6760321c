//! Issued certificates as `ssls` objects: written to the store or to etcd like a write of the Admin API, or
//! kept beside a resource file, which only its owner writes.

use std::sync::Arc;
use std::time::Duration;

use model::ObjectKey;
use serde_json::{Map, Value, json};

use super::order::Issued;
use crate::reconcile::{Reconcile, Write, WriteRefusal};
use crate::sealing::Sealer;
use crate::shared_state::SharedState;

/// The way to the objects in force.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) reconcile: Reconcile,
    pub(super) shared: SharedState,
    pub(super) sealer: Sealer,
    /// The configuration is a file: objects are kept beside it.
    pub(super) beside_file: bool,
}

impl Objects {
    /// Brings a certificate into force; it is tried again for a while, because a certificate that is lost
    /// costs another order.
    ///
    /// # Errors
    /// Why the object cannot be written.
    pub(super) async fn put(
        &self,
        key: &ObjectKey,
        issued: &Issued,
        names: &[String],
        host: &str,
    ) -> Result<(), String> {
        let body = body(key, issued, names, host);
        let mut pause = FIRST_PAUSE;
        loop {
            let fault = match self.write(key, &body).await {
                Ok(()) => return Ok(()),
                Err(WriteRefusal::Store(reason)) => reason,
                Err(refused) => return Err(format!("{refused:?}")),
            };
            if pause > LONGEST_PAUSE {
                return Err(fault);
            }
            tracing::warn!(certificate = %key.id, %fault, "an issued certificate is not stored yet");
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn write(&self, key: &ObjectKey, body: &Map<String, Value>) -> Result<(), WriteRefusal> {
        if self.beside_file {
            let text = Value::Object(body.clone()).to_string();
            let path = format!("{FOLDER}{}", key.id);
            let kept = self.shared.put(&path, &self.sealer.seal_text(&text), None).await;
            kept.map_err(WriteRefusal::Store)?;
            self.show_beside_file().await;
            return Ok(());
        }
        let write = Write::Put { key: key.clone(), body: body.clone(), ttl_s: None };
        self.reconcile.write(write, Arc::from(AUTHOR)).await.map(drop)
    }

    /// Brings the objects that are kept beside a file into force.
    async fn show_beside_file(&self) {
        let objects = read_objects_beside_file(&self.shared, &self.sealer);
        // The thread is busy or ends: the objects come into force with the next start.
        let _ = self.reconcile.run(move |reconciler| reconciler.set_beside_file(objects)).await;
    }
}

/// The objects that are kept beside a file. One that cannot be read is reported and left out.
pub(super) fn read_objects_beside_file(shared: &SharedState, sealer: &Sealer) -> Vec<(ObjectKey, Arc<str>)> {
    let object = |(id, text): (String, Arc<str>)| {
        let opened = sealer.open_text(&text);
        let opened = opened.inspect_err(|fault| tracing::error!(id, %fault, "a certificate cannot be read"));
        Some((super::names::key_of(&id)?, Arc::from(opened.ok()?)))
    };
    shared.list(FOLDER).into_iter().filter_map(object).collect()
}

/// The object of a certificate.
fn body(key: &ObjectKey, issued: &Issued, names: &[String], host: &str) -> Map<String, Value> {
    let body = json!({
        "id": key.id,
        "cert": issued.chain,
        "key": issued.key,
        "snis": names,
        "labels": { "managed-by": "acme", "authority": host },
    });
    let Value::Object(body) = body else { return Map::new() };
    body
}

/// The author of these writes in the history.
const AUTHOR: &str = "acme";
/// The folder of objects that are kept beside a file.
const FOLDER: &str = "objects/";
/// Between two tries to write.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The tries end after about as long.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
