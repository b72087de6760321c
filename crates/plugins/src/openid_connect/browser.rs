//! A request of a browser: its session is opened, its tokens are renewed in time, and what the login says
//! goes to the upstream; without a session, `unauth_action` decides.

use std::rc::Rc;

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::{BufferedReply, PhaseDecision};
use jsonx::Exact;
use serde_json::{Map, Value, json};

use super::OpenidConnect;
use super::authorization::read_wall_clock_s;
use super::bearer::require_scopes;
use super::session::{OpenidSession, SessionLogin};
use super::sessions::Sessions;
use super::settings::UnauthAction;
use super::token_parts::claims_of;

/// Why a login or a logout does not go on, and the answer to the browser.
pub(super) struct BrowserFault {
    reason: String,
    reply: BufferedReply,
}

impl BrowserFault {
    /// The same fault with another answer.
    pub(super) fn with_reply(self, reply: BufferedReply) -> BrowserFault {
        BrowserFault { reply, ..self }
    }
}

impl From<String> for BrowserFault {
    fn from(reason: String) -> BrowserFault {
        BrowserFault { reason, reply: BufferedReply::status(500) }
    }
}

impl From<&str> for BrowserFault {
    fn from(reason: &str) -> BrowserFault {
        BrowserFault::from(reason.to_owned())
    }
}

impl OpenidConnect {
    /// Decides about a request without a bearer token.
    pub(super) async fn browser(&self, exchange: &mut Exchange, sessions: &Sessions) -> PhaseDecision {
        let local = exchange.local().clone();
        let session = match sessions.open(exchange, read_wall_clock_s(&local)).await {
            Ok(session) => session,
            Err(reason) => return self.answer(&local, Err(BrowserFault::from(reason))),
        };
        let answered = if self.is_callback(exchange) {
            self.callback(exchange, session).await
        } else if exchange.path() == self.config.logout_path.as_bytes() {
            self.logout(exchange, session).await
        } else {
            return self.with_login(exchange, &local, sessions, session).await;
        };
        self.answer(&local, answered)
    }

    fn answer(&self, local: &WorkerLocal, answered: Result<BufferedReply, BrowserFault>) -> PhaseDecision {
        let reply = answered.unwrap_or_else(|fault| {
            self.log(local, &format!("OIDC authentication failed: {}", fault.reason));
            fault.reply
        });
        PhaseDecision::Reply(Box::new(reply))
    }

    async fn with_login(
        &self,
        exchange: &mut Exchange,
        local: &Rc<WorkerLocal>,
        sessions: &Sessions,
        session: Option<OpenidSession>,
    ) -> PhaseDecision {
        let mut session = session;
        let mut changed = false;
        let login = session.as_mut().and_then(|session| session.login.as_mut());
        let mut is_valid = login.is_some();
        if let Some(login) = login
            && self.stores.access_token
            && login.expires_s <= read_wall_clock_s(local)
        {
            let had_refresh_token = login.refresh_token.is_some();
            match self.renew(local, login).await {
                Ok(()) => changed = true,
                Err(fault) => {
                    self.log(local, &format!("lost access token: {}", fault.reason));
                    // Without renewal an expired token is no reason for a new login; the upstream does not
                    // receive it.
                    is_valid = !self.config.renew_access_token_on_expiry;
                    login.access_token = None;
                    changed = had_refresh_token && login.refresh_token.is_none();
                }
            }
        }
        if !is_valid || self.config.force_reauthorize {
            return self.without_login(exchange, local, session, changed).await;
        }
        let Some(mut session) = session else {
            return self.without_login(exchange, local, None, false).await;
        };
        let login = session.login.clone().unwrap_or_default();
        if let Some(interval_s) = self.config.refresh_session_interval
            && login.authenticated_s.saturating_add(interval_s) < read_wall_clock_s(local)
        {
            let begun = self.begin(exchange, Some(session), Some("none")).await;
            return self.answer(local, begun);
        }
        if let Err((reply, reason)) = self.authorize_login(&login) {
            self.log(local, &format!("OIDC authentication failed: {reason}"));
            return PhaseDecision::Reply(Box::new(reply));
        }
        self.forward_login(exchange, &login);
        if session.restarts > 0 {
            (session.restarts, changed) = (0, true);
        }
        if sessions.jar.lifetimes.touch(&mut session, read_wall_clock_s(local)) || changed {
            self.write_later(exchange, sessions, &mut session).await;
        }
        PhaseDecision::Continue
    }

    /// Decides about a request without a valid login; its session is written if it has changed.
    async fn without_login(
        &self,
        exchange: &mut Exchange,
        local: &WorkerLocal,
        session: Option<OpenidSession>,
        has_changed: bool,
    ) -> PhaseDecision {
        let mut changed = session.clone().filter(|_| has_changed);
        match self.config.unauth_action {
            UnauthAction::Pass => {
                if let (Some(sessions), Some(session)) = (&self.sessions, &mut changed) {
                    self.write_later(exchange, sessions, session).await;
                }
                PhaseDecision::Continue
            }
            UnauthAction::Deny => {
                let denied = match &mut changed {
                    Some(session) => self.with_session(exchange, BufferedReply::status(401), session).await,
                    None => Ok(BufferedReply::status(401)),
                };
                self.answer(local, denied)
            }
            UnauthAction::Auth => {
                let begun = self.begin(exchange, session, None).await;
                self.answer(local, begun)
            }
        }
    }

    /// Checks the schema of claims and the scopes of a login.
    fn authorize_login(&self, login: &SessionLogin) -> Result<(), (BufferedReply, String)> {
        if self.claim_schema.is_some() {
            let mut parts = Map::new();
            parts.extend(login.user.clone().map(|user| ("user".to_owned(), user.into_value())));
            parts.extend(login.access_token.clone().map(|token| ("access_token".to_owned(), token.into())));
            parts.extend(id_token_of(login).map(|claims| ("id_token".to_owned(), claims.into_value())));
            self.check_claims(&Value::Object(parts))?;
        }
        let Some(required) = &self.config.required_scopes else { return Ok(()) };
        let scope = |claims: Option<Exact>| claims?.get("scope")?.as_str().map(str::to_owned);
        let granted = scope(login.access_token.as_deref().and_then(claims_of));
        match granted.or_else(|| scope(id_token_of(login))) {
            Some(granted) => require_scopes(required, &granted),
            None => {
                let reply = BufferedReply::json(403, &json!({ "error": "required scopes not present" }));
                Err((reply, "the scopes granted to the session are unknown".to_owned()))
            }
        }
    }

    /// Tells the upstream about the login.
    fn forward_login(&self, exchange: &mut Exchange, login: &SessionLogin) {
        self.forward_token(exchange, login.access_token.as_deref());
        let config = &self.config;
        if config.set_id_token_header
            && let Some(claims) = id_token_of(login)
        {
            self.forward_json(exchange, "X-ID-Token", &claims);
        }
        if config.set_userinfo_header
            && let Some(user) = &login.user
        {
            self.forward_json(exchange, "X-Userinfo", user);
        }
        if config.set_refresh_token_header
            && let Some(token) = &login.refresh_token
        {
            self.forward(exchange, "X-Refresh-Token", token);
        }
        if config.set_raw_id_token_header
            && let Some(token) = &login.raw_id_token
        {
            self.forward(exchange, "X-Raw-ID-Token", token);
        }
    }

    /// `reply`, with the session written to the browser.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(super) async fn with_session(
        &self,
        exchange: &Exchange,
        mut reply: BufferedReply,
        session: &mut OpenidSession,
    ) -> Result<BufferedReply, BrowserFault> {
        let sessions = self.sessions.as_ref().ok_or("there is no session configured")?;
        sessions.jar.lifetimes.renew(session, read_wall_clock_s(exchange.local()));
        let mut lines = sessions.write(exchange, session).await?;
        if lines.is_none() {
            // The session has ended; a login under way goes on in a new one.
            (session.id, session.login) = (None, None);
            lines = sessions.write(exchange, session).await?;
        }
        for line in lines.into_iter().flatten() {
            reply = reply.with_header("Set-Cookie", line);
        }
        Ok(reply)
    }

    /// Writes the session to the browser with the response of the upstream. One that a logout has ended
    /// meanwhile is left.
    async fn write_later(&self, exchange: &mut Exchange, sessions: &Sessions, session: &mut OpenidSession) {
        sessions.jar.lifetimes.renew(session, read_wall_clock_s(exchange.local()));
        let written = sessions.write(exchange, session).await.and_then(|lines| {
            let mut lines = lines.into_iter().flatten();
            lines.try_for_each(|line| {
                exchange.add_response_field("Set-Cookie", &line).map_err(|error| error.to_string())
            })
        });
        if let Err(reason) = written {
            self.warn(exchange, &format!("failed to save session: {reason}"));
        }
    }
}

/// The claims of the ID token: those in the session, or those of the signed token there, which were checked
/// when it came.
fn id_token_of(login: &SessionLogin) -> Option<Exact> {
    login.id_token.clone().or_else(|| claims_of(login.raw_id_token.as_deref()?))
}
