//! The way back of the browser from the provider with a code (OpenID Connect Core sections 3.1.2.5 and
//! 3.1.3): its state is used once, the code is exchanged for tokens, and the login is kept in a new session.

use std::rc::Rc;
use std::sync::Arc;

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::BufferedReply;
use jsonx::Exact;
use message::Method;
use serde_json::Value;

use super::OpenidConnect;
use super::authorization::{read_wall_clock_s, redirect};
use super::browser::BrowserFault;
use super::client::FormFields;
use super::provider::DiscoveryDocument;
use super::session::{OpenidSession, PendingLogin, SessionLogin};
use crate::shared::api_call;
use message::query::{arguments, decode};

/// How often in a row a failed callback begins the login anew, as in APISIX: a fault that stays must not send
/// the browser in circles.
const RESTARTS_MAX: u32 = 3;

impl OpenidConnect {
    /// The way back of a browser from the provider.
    ///
    /// # Errors
    /// The callback belongs to no login under way that can be gone on with, or the provider does not hand out
    /// tokens.
    pub(super) async fn callback(
        &self,
        exchange: &mut Exchange,
        session: Option<OpenidSession>,
    ) -> Result<BufferedReply, BrowserFault> {
        let Some(mut session) = session else {
            return Err(BrowserFault::from(
                "request to the redirect_uri path but there's no session state found",
            ));
        };
        let arguments = CallbackArguments::of(exchange);
        let local = exchange.local().clone();
        let (Some(code), Some(state)) = (&arguments.code, &arguments.state) else {
            let pending = match &arguments.state {
                Some(state) if arguments.error.as_deref() == Some("temporarily_unavailable") => {
                    session.take_pending(state, read_wall_clock_s(&local))
                }
                _ => None,
            };
            let fault = match &arguments.error {
                Some(_) => "unhandled request to the redirect_uri: the provider reports an error",
                None => "unhandled request to the redirect_uri: no code or no state",
            };
            return match pending {
                Some(pending) => self.restart(exchange, session, Some(pending.original), fault).await,
                None => Err(BrowserFault::from(fault)),
            };
        };
        let Some(pending) = session.take_pending(state, read_wall_clock_s(&local)) else {
            let original = session.original.clone();
            let fault = "state from argument does not match state restored from session";
            return self.restart(exchange, session, original, fault).await;
        };
        match self.exchange_code(exchange, &local, &arguments, code, &pending).await {
            Ok(login) => {
                // A new session, so that nothing of the one before the login lives on in it, nor its
                // identifier.
                if let (Some(sessions), Some(id)) = (&self.sessions, session.id) {
                    sessions.forget(&local, id).await?;
                }
                let mut fresh = OpenidSession::new(read_wall_clock_s(&local));
                fresh.pending = session.pending;
                fresh.original = Some(pending.original.clone());
                fresh.login = Some(login);
                self.with_session(exchange, redirect(&pending.original), &mut fresh).await
            }
            // The state is used up, also where the login has failed.
            Err(fault) => Err(fault
                .with_reply(self.with_session(exchange, BufferedReply::status(500), &mut session).await?)),
        }
    }

    /// Sends the browser back to where it began, so that it logs in anew; only a few times in a row.
    async fn restart(
        &self,
        exchange: &mut Exchange,
        mut session: OpenidSession,
        original: Option<String>,
        reason: &str,
    ) -> Result<BufferedReply, BrowserFault> {
        let Some(original) = original.filter(|_| exchange.request.method == Method::Get) else {
            return Err(BrowserFault::from(reason));
        };
        if session.restarts >= RESTARTS_MAX {
            return Err(BrowserFault::from(format!(
                "{reason} (giving up after {RESTARTS_MAX} restarts of the authentication flow)"
            )));
        }
        session.restarts += 1;
        self.warn(exchange, &format!("{reason}, restarting the authentication flow"));
        self.with_session(exchange, redirect(&original), &mut session).await
    }

    /// The login that the provider confirms for a code.
    async fn exchange_code(
        &self,
        exchange: &Exchange,
        local: &Rc<WorkerLocal>,
        arguments: &CallbackArguments,
        code: &str,
        pending: &PendingLogin,
    ) -> Result<SessionLogin, BrowserFault> {
        let discovery = self.provider.discovery(local, &self.client.calls).await?;
        if arguments.iss.as_ref().is_some_and(|iss| *iss != discovery.issuer) {
            return Err(BrowserFault::from("iss from argument does not match expected issuer"));
        }
        if arguments.client_id.as_ref().is_some_and(|id| *id != self.client.id) {
            return Err(BrowserFault::from("client_id from argument does not match expected client_id"));
        }
        let mut form: FormFields = vec![
            ("grant_type".into(), "authorization_code".to_owned()),
            ("code".into(), code.to_owned()),
            ("redirect_uri".into(), self.redirect_uri(exchange)),
        ];
        form.extend(pending.verifier.clone().map(|verifier| ("code_verifier".into(), verifier)));
        let asked_s = read_wall_clock_s(local);
        let tokens = self.tokens(local, &discovery, form).await?;
        let raw = tokens["id_token"].as_str().ok_or("the answer of the token endpoint has no id_token")?;
        let claims = self.id_token_claims(local, &discovery, raw, pending.nonce.as_deref()).await?;
        let access_token = tokens["access_token"].as_str();
        let user = match access_token {
            Some(token) if self.stores.user => self.user(local, &discovery, token, &claims["sub"]).await,
            _ => None,
        };
        let mut login = SessionLogin { user, authenticated_s: asked_s, ..SessionLogin::default() };
        self.store_tokens(&mut login, &tokens, Some(claims), asked_s);
        Ok(login)
    }

    /// Tokens of the token endpoint.
    pub(super) async fn tokens(
        &self,
        local: &WorkerLocal,
        discovery: &Arc<DiscoveryDocument>,
        form: FormFields,
    ) -> Result<Value, BrowserFault> {
        let endpoint = discovery.token.as_ref().ok_or("no endpoint URI for token")?;
        let method = self.client.token_method(discovery);
        Ok(self.client.ask(local, endpoint, method, form, &[]).await?)
    }

    /// The user's data; none where the provider gives none, or those of another user.
    async fn user(
        &self,
        local: &WorkerLocal,
        discovery: &DiscoveryDocument,
        token: &str,
        subject: &Value,
    ) -> Option<Exact> {
        let endpoint = discovery.userinfo.as_ref()?;
        let bearer = format!("Bearer {token}");
        let fields = [("Authorization", &*bearer)];
        let asked = api_call::get(local, &endpoint.destination, None, &self.client.calls, &fields).await;
        let user = asked.and_then(|answer| api_call::parse_json_response(&answer, &endpoint.destination));
        let user = user.and_then(|user: Exact| match user.get("sub") == Some(subject) {
            true => Ok(user),
            false => Err("the \"sub\" claims of id_token and userinfo differ".to_owned()),
        });
        user.map_err(|reason| self.log(local, &format!("error calling userinfo endpoint: {reason}"))).ok()
    }
}

#[derive(Default)]
struct CallbackArguments {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
    client_id: Option<String>,
}

impl CallbackArguments {
    fn of(exchange: &Exchange) -> CallbackArguments {
        let mut found = CallbackArguments::default();
        for (_, name, value) in arguments(exchange.request.query().unwrap_or_default()) {
            let place = match name {
                b"code" => &mut found.code,
                b"state" => &mut found.state,
                b"error" => &mut found.error,
                b"iss" => &mut found.iss,
                b"client_id" => &mut found.client_id,
                _ => continue,
            };
            place.get_or_insert_with(|| String::from_utf8_lossy(&decode(value)).into_owned());
        }
        found
    }
}
