//! The service account: from the configuration or from its file. It asks no server.

use std::sync::Arc;

use serde_json::Value;

use super::GoogleCloudLoggingConfig;
use super::token::Signer;
use crate::shared::attributes::{Attribute, attributes};
use crate::shared::logger::collector;
use crate::shared::{config, config_file};

attributes! {
    pub(crate) struct AuthConfig {
        /// The e-mail address of the service account.
        client_email: String, { "minLength": 1 };
        /// The private key of the service account, in PEM.
        private_key: String, { "minLength": 1 };
        /// The project that entries belong to.
        project_id: String;
        /// The endpoint for tokens.
        token_uri: String = "https://oauth2.googleapis.com/token".to_owned();
        /// The rights to ask for.
        scope: Vec<String> = default_scope(), { "minItems": 1, "uniqueItems": true };
        /// The rights to ask for, in place of `scope`.
        scopes: Option<Vec<String>>, { "minItems": 1, "uniqueItems": true };
        /// The endpoint for entries.
        entries_uri: String = "https://logging.googleapis.com/v2/entries:write".to_owned();
    }
}

/// The rights for logging: <https://developers.google.com/identity/protocols/oauth2/scopes#logging>.
fn default_scope() -> Vec<String> {
    ["logging.read", "logging.write", "logging.admin", "cloud-platform"]
        .map(|right| format!("https://www.googleapis.com/auth/{right}"))
        .into()
}

/// A service account that can sign.
pub(super) struct Account {
    pub(super) written: AuthConfig,
    /// Nothing while the key is a reference to a secret that is not resolved.
    pub(super) signer: Option<Arc<Signer>>,
}

impl Account {
    /// The account of a configuration; nothing while the name of its file is a reference to a secret.
    ///
    /// # Errors
    /// The field and its fault, without anything of the key.
    pub(super) fn of(config: &GoogleCloudLoggingConfig) -> Result<Option<Account>, String> {
        let (name, written) = match (&config.auth_config, &config.auth_file) {
            (Some(written), _) => ("auth_config", AuthConfig::read(written.write())?),
            (None, Some(path)) if config::is_reference(path) => return Ok(None),
            (None, Some(path)) => ("auth_file", from_file(path)?),
            (None, None) => return Err("configuration is not defined".to_owned()),
        };
        collector::check(&format!("{name}.token_uri"), &written.token_uri)?;
        collector::check(&format!("{name}.entries_uri"), &written.entries_uri)?;
        if config::is_reference(&written.private_key) {
            return Ok(Some(Account { written, signer: None }));
        }
        let signer = Signer::from_pem(&written.private_key)
            .map_err(|reason| format!("{name}.private_key: {reason}"))?;
        Ok(Some(Account { written, signer: Some(Arc::new(signer)) }))
    }

    /// The project that entries belong to.
    pub(super) fn project_id(&self) -> &str {
        &self.written.project_id
    }

    /// The rights to ask for, as one text.
    pub(super) fn scope(&self) -> String {
        self.written.scopes.as_ref().unwrap_or(&self.written.scope).join(" ")
    }
}

/// The account in a file as Google's console makes it; it has further fields.
fn from_file(path: &str) -> Result<AuthConfig, String> {
    let text = config_file::read_config_file("auth_file", path)?;
    let parsed: Value = serde_json::from_str(&text)
        .map_err(|error| format!("auth_file: {path}: line {}: it is not JSON", error.line()))?;
    let Value::Object(mut fields) = parsed else { return Err(format!("auth_file: {path}: it is no object")) };
    fields.retain(|name, _| AuthConfig::NAMES.contains(&&**name));
    // Only the scope may also be one text there.
    for name in ["scope", "scopes"] {
        if let Some(text) = fields.get(name).and_then(Value::as_str).map(str::to_owned) {
            fields.insert(name.to_owned(), Value::from(vec![text]));
        }
    }
    AuthConfig::read(Value::Object(fields)).map_err(|reason| format!("auth_file: {path}: {reason}"))
}
