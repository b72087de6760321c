//! What a secret manager has to say: which request to make for a path, and what an answer holds. Sockets, retries and
//! caching are done for it.

use serde_json::Value;

use super::cache::{Failure, Fields};
use super::client::{Get, Got};
use super::environment::Environment;

/// A kind of secret manager.
pub(super) trait SecretManager: Sync {
    /// The name in references and in the ids of secret objects (`vault` in `vault/1`).
    fn name(&self) -> &'static str;

    /// The request for the document at `path`. `manager` is the secret object as it is written.
    ///
    /// # Errors
    /// What in the manager object, or in the path, makes it impossible.
    fn request(&self, manager: &Value, path: &str, environment: Environment) -> Result<Get, Failure>;

    /// What an answer holds.
    ///
    /// # Errors
    /// Why it holds no secrets.
    fn read(&self, got: &Got) -> Result<Fields, Failure>;
}
