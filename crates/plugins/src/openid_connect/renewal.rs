//! Renewal of access tokens with refresh tokens (RFC 6749 section 6). A browser sends several requests at
//! once when a token has expired: one of them asks the provider, and the others, which still bring the old
//! refresh token, receive the same answer, because many providers accept a refresh token once only. The call
//! runs apart from the requests, so that its answer is not lost if the client of the request leaves.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use exchange::local::WorkerLocal;
use exchange::plugin::Build;
use exchange::plugin::outbound::OutboundResponse;
use jsonx::Bounds;
use net::env;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::OpenidConnect;
use super::authorization::read_wall_clock_s;
use super::browser::BrowserFault;
use super::client::{FormFields, OpenidClient};
use super::provider::DiscoveryDocument;
use super::session::SessionLogin;
use crate::shared::api_call;
use crate::shared::fetched::Fetched;

/// Milliseconds that an answer is kept for further requests with the old refresh token.
const ANSWER_KEPT_MS: u64 = 60_000;
/// The most answers that are kept. Beyond, the oldest are forgotten, and their browsers may have to log in
/// again.
const ANSWERS_MAX: usize = 4_096;

type SharedRenewal = Arc<Fetched<Value>>;

/// The answers for recent refresh tokens, by the tokens' SHA-256. The table is shared by all workers.
#[derive(Default)]
pub(super) struct Renewals(Mutex<RenewalTable>);

#[derive(Default)]
struct RenewalTable {
    answers: HashMap<[u8; 32], (SharedRenewal, u64)>,
}

impl Renewals {
    /// The table of the process.
    pub(super) fn keep(build: &Build<'_>) -> Arc<Renewals> {
        build.states.keep("openid-connect/renewals", Renewals::default)
    }

    /// The answer for a refresh token, which the first request fetches.
    fn of(&self, client_id: &str, token: &str, now_ms: u64) -> SharedRenewal {
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, format!("{client_id}\0{token}").as_bytes()).as_ref());
        let mut table = self.0.lock();
        if table.answers.len() >= ANSWERS_MAX && !table.answers.contains_key(&key) {
            table.answers.retain(|_, (_, since_ms)| now_ms.saturating_sub(*since_ms) < ANSWER_KEPT_MS);
            if table.answers.len() >= ANSWERS_MAX {
                table.answers.clear();
            }
        }
        table.answers.entry(key).or_insert_with(|| (Arc::default(), now_ms)).0.clone()
    }
}

impl OpenidConnect {
    /// Renews the access token of a login. A refresh token that the provider refuses is removed from the
    /// login, so that it is not sent again.
    ///
    /// # Errors
    /// It is not renewed; the login has no valid access token then.
    pub(super) async fn renew(
        &self,
        local: &Rc<WorkerLocal>,
        login: &mut SessionLogin,
    ) -> Result<(), BrowserFault> {
        if !self.config.renew_access_token_on_expiry {
            return Err(BrowserFault::from("token expired"));
        }
        let refresh_token = login.refresh_token.clone();
        let refresh_token = refresh_token.ok_or("token expired and no refresh token available")?;
        let discovery = self.provider.discovery(local, &self.client.calls).await?;
        let answer = self.answer_for(local, &discovery, refresh_token).await?;
        if answer["is_refused"] == true {
            login.refresh_token = None;
            return Err(BrowserFault::from("token expired and the provider refuses the refresh token"));
        }
        let (tokens, asked_s) = (&answer["tokens"], answer["asked_s"].as_u64().unwrap_or_default());
        if !tokens["access_token"].is_string() {
            return Err(BrowserFault::from("the answer of the token endpoint has no access_token"));
        }
        let claims = match tokens["id_token"].as_str() {
            Some(raw) => Some(self.id_token_claims(local, &discovery, raw, None).await?),
            None => None,
        };
        // The token must not make another user out of the browser's.
        if let (Some(new), Some(old)) = (&claims, login.subject())
            && new.get("sub").and_then(Value::as_str) != Some(&*old)
        {
            return Err(BrowserFault::from("the renewed id_token is of another user"));
        }
        self.store_tokens(login, tokens, claims, asked_s);
        Ok(())
    }

    /// The answer for a refresh token, from a task of its own, which the limits of the call bound: the
    /// provider uses the token up, so that a request which ends meanwhile must not end the call.
    async fn answer_for(
        &self,
        local: &Rc<WorkerLocal>,
        discovery: &Arc<DiscoveryDocument>,
        token: String,
    ) -> Result<Arc<Value>, BrowserFault> {
        let answer = self.renewals.of(&self.client.id, &token, local.now_ms());
        let (client, local, discovery) = (self.client.clone(), local.clone(), discovery.clone());
        let form: FormFields = vec![
            ("grant_type".into(), "refresh_token".to_owned()),
            ("refresh_token".into(), token),
            ("scope".into(), self.config.scope.clone()),
        ];
        let (sender, receiver) = oneshot::channel();
        env::spawn(async move {
            let fetched = answer.get(ANSWER_KEPT_MS, fetch(&client, &local, &discovery, form)).await;
            // Fails if the request has ended; the table keeps the answer for the next one.
            let _ = sender.send(fetched);
        });
        let fetched = receiver.await.map_err(|_| "the renewal was broken off")?;
        Ok(fetched.map_err(|reason| reason.to_string())?)
    }
}

/// Asks the token endpoint; gives its answer with the time of the call, because an answer may be used by a
/// later request.
async fn fetch(
    client: &OpenidClient,
    local: &WorkerLocal,
    discovery: &DiscoveryDocument,
    form: FormFields,
) -> Result<Value, String> {
    let endpoint = discovery.token.as_ref().ok_or("no endpoint URI for token")?;
    let asked_s = read_wall_clock_s(local);
    let answer = client.post(local, endpoint, client.token_method(discovery), form, &[]).await?;
    if is_refusal(&answer) {
        return Ok(json!({ "is_refused": true }));
    }
    let tokens: Value = api_call::parse_json_response(&answer, &endpoint.destination)?;
    Ok(json!({ "tokens": tokens, "asked_s": asked_s }))
}

/// Whether the provider says that the refresh token is not valid any more (RFC 6749 section 5.2). Other
/// errors are of the client or of the provider, and may pass.
fn is_refusal(answer: &OutboundResponse) -> bool {
    let body = || jsonx::read::<Value>(&answer.body, Bounds::SMALL).unwrap_or_default();
    answer.status == 400 && body()["error"] == "invalid_grant"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invalid_grant_is_a_refusal() {
        let check = |status: u16, body: &str, expected: bool| {
            let answer = OutboundResponse { status, headers: message::Headers::new(), body: body.into() };
            assert_eq!(is_refusal(&answer), expected, "{status} {body}");
        };
        check(400, r#"{"error": "invalid_grant", "error_description": "Token is not active"}"#, true);
        check(400, r#"{"error": "invalid_client"}"#, false);
        check(503, r#"{"error": "invalid_grant"}"#, false);
        check(400, "<html>", false);
    }

    #[test]
    fn answers_are_shared_by_token_and_limited() {
        let renewals = Renewals::default();
        let first = renewals.of("gw", "a", 0);
        assert!(Arc::ptr_eq(&first, &renewals.of("gw", "a", 1)));
        assert!(!Arc::ptr_eq(&first, &renewals.of("other", "a", 1)));
        for number in 0..ANSWERS_MAX {
            renewals.of("gw", &number.to_string(), 2);
        }
        assert!(renewals.0.lock().answers.len() <= ANSWERS_MAX);
    }
}
