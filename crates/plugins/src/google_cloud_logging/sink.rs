//! Google Cloud Logging: gets a token, posts entries. It knows no requests of clients.

use std::sync::Arc;

use exchange::plugin::batch::{BatchEntry, Delivery, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::services::Services;
use message::Method;
use tokio::sync::Mutex;

use super::account::Account;
use super::token::{GoogleAccessToken, Signer, claims};
use crate::shared::api_call::encode_form;
use crate::shared::logger::collector::{Calling, LogCollector, json_list};

/// Seconds for a call; the contract's data plane has no setting and waits so long.
const TIMEOUT_S: u64 = 60;
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The API, as one plugin instance reaches it.
pub(crate) struct CloudLogging {
    entries: LogCollector,
    tokens: LogCollector,
    signer: Option<Arc<Signer>>,
    email: Box<str>,
    token_uri: Box<str>,
    scope: Box<str>,
    /// Locked while a token is asked for, so that batches that are sent at the same time ask once.
    token: Mutex<Option<GoogleAccessToken>>,
}

impl CloudLogging {
    /// The API with the rights of `account`.
    ///
    /// # Errors
    /// Why a server cannot be reached.
    pub(super) fn new(
        services: &Services,
        account: &Account,
        verifies: bool,
    ) -> Result<CloudLogging, String> {
        let written = &account.written;
        let calling = Calling::within_s(TIMEOUT_S, verifies);
        let mut entries = LogCollector::new(services, [&*written.entries_uri], calling)?;
        entries.set("entries_uri", "Content-Type", "application/json")?;
        let mut tokens = LogCollector::new(services, [&*written.token_uri], calling)?;
        tokens.set("token_uri", "Content-Type", "application/x-www-form-urlencoded")?;
        Ok(CloudLogging {
            entries,
            tokens,
            signer: account.signer.clone(),
            email: (&*written.client_email).into(),
            token_uri: (&*written.token_uri).into(),
            scope: account.scope().into(),
            token: Mutex::default(),
        })
    }

    /// The value of Authorization.
    async fn authorization(&self, client: &HttpClient) -> Result<String, String> {
        let mut kept = self.token.lock().await;
        let now_s = now_s();
        if let Some(token) = kept.as_ref().filter(|token| token.is_fresh(now_s)) {
            return Ok(token.authorization.clone());
        }
        let signer = self.signer.as_ref().ok_or("the reference in private_key is not resolved")?;
        let claims = claims(&self.email, &self.token_uri, &self.scope, now_s);
        let assertion = signer.sign(&claims).ok_or("failed to sign the assertion")?;
        let body = encode_form([("grant_type", GRANT_TYPE), ("assertion", &assertion)]);
        let answer = self.tokens.post(client, body.into_bytes()).await?;
        if answer.status() != 200 {
            let (status, excerpt) = (answer.status(), answer.body_excerpt());
            return Err(format!("failed to refresh google oauth access token: status {status}, {excerpt}"));
        }
        let token = GoogleAccessToken::read(&answer.response.body, now_s)?;
        let authorization = token.authorization.clone();
        *kept = Some(token);
        Ok(authorization)
    }
}

/// The time now, in seconds of the Unix epoch: what tokens say of themselves.
fn now_s() -> u64 {
    stdx::clock::unix_time().as_secs()
}

impl Sink for CloudLogging {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let authorization = self.authorization(client).await;
            let authorization =
                authorization.map_err(|reason| format!("failed to get google oauth token: {reason}"))?;
            let mut headers = self.entries.headers().clone();
            let set = headers.set("Authorization", authorization.as_bytes());
            set.map_err(|error| format!("the token cannot be sent: {error}"))?;
            let body = [b"{\"entries\":", &*json_list(batch), b",\"partialSuccess\":false}"].concat();
            let endpoint = self.entries.endpoint();
            let request = (Method::Post, endpoint.target());
            let answer = self.entries.send(client, endpoint, request, headers, body).await?;
            if answer.status() == 200 {
                return Ok(());
            }
            if answer.status() == 401 {
                // The token was withdrawn before its end.
                *self.token.lock().await = None;
            }
            let (status, excerpt) = (answer.status(), answer.body_excerpt());
            Err(format!("failed to write log to google: status {status}, {excerpt}").into())
        })
    }
}
