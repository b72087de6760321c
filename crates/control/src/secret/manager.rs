//! The interface of a secret manager: the request for a path, and the content of an answer. Sockets, retries
//! and caching are elsewhere.

use outbound::bounded_request::{BoundedAnswer, BoundedRequest};
use serde_json::Value;

use super::cache::{SecretFailure, SecretFields};
use super::environment::SecretEnvironment;

/// A kind of secret manager.
pub(super) trait SecretManager: Sync {
    /// The name in references and in the ids of secret objects (`vault` in `vault/1`).
    fn name(&self) -> &'static str;

    /// The request for the document at `path`. `manager` is the secret object as it is written.
    ///
    /// # Errors
    /// A fault of the manager object or of the path.
    fn request(
        &self,
        manager: &Value,
        path: &str,
        environment: SecretEnvironment,
    ) -> Result<BoundedRequest, SecretFailure>;

    /// The content of an answer.
    ///
    /// # Errors
    /// The reason why it holds no secrets.
    fn read(&self, got: &BoundedAnswer) -> Result<SecretFields, SecretFailure>;
}
