//! The logout: the session ends here, its tokens are revoked where it is configured (RFC 7009), and the
//! browser is sent to the provider's logout (OpenID Connect RP-Initiated Logout).

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::BufferedReply;

use super::OpenidConnect;
use super::browser::BrowserFault;
use super::client::FormFields;
use super::provider::DiscoveryDocument;
use super::session::{OpenidSession, SessionLogin};
use crate::shared::api_call;

impl OpenidConnect {
    /// Ends the session of a browser.
    ///
    /// # Errors
    /// The discovery document cannot be used.
    pub(super) async fn logout(
        &self,
        exchange: &mut Exchange,
        session: Option<OpenidSession>,
    ) -> Result<BufferedReply, BrowserFault> {
        let local = exchange.local().clone();
        let discovery = self.provider.discovery(&local, &self.client.calls).await;
        let discovery =
            discovery.map_err(|reason| BrowserFault::from(reason).with_reply(BufferedReply::status(503)))?;
        let login = session.and_then(|session| session.login).unwrap_or_default();
        if self.config.revoke_tokens_on_logout {
            self.revoke_all(&local, &discovery, &login).await;
        }
        let mut reply = self.after_logout(&discovery, &login);
        let sessions = self.sessions.as_ref().ok_or("there is no session configured")?;
        for line in sessions.remove(exchange).await? {
            reply = reply.with_header("Set-Cookie", line);
        }
        Ok(reply)
    }

    fn after_logout(&self, discovery: &DiscoveryDocument, login: &SessionLogin) -> BufferedReply {
        let back = self.config.post_logout_redirect_uri.as_deref();
        let url = match (&discovery.end_session, back) {
            (Some(end_session), back) => {
                let hint = login.raw_id_token.as_deref().map(|token| ("id_token_hint", token));
                let back = back.map(|url| ("post_logout_redirect_uri", url));
                api_call::with_query(end_session, hint.into_iter().chain(back))
            }
            (None, Some(back)) => api_call::with_query(back, [("post_logout_redirect_uri", back)]),
            (None, None) => {
                return BufferedReply::status(200)
                    .with_header("Content-Type", "text/html")
                    .with_body(&b"<html><body>Logged Out</body></html>\n"[..]);
            }
        };
        BufferedReply::status(302).with_header("Location", url)
    }

    /// Revokes the tokens of a login. A failure is logged; the browser is logged out all the same.
    async fn revoke_all(&self, local: &WorkerLocal, discovery: &DiscoveryDocument, login: &SessionLogin) {
        let Some(endpoint) = &discovery.revocation else { return };
        let tokens = [("refresh_token", &login.refresh_token), ("access_token", &login.access_token)];
        for (kind, token) in tokens {
            let Some(token) = token else { continue };
            let form: FormFields =
                vec![("token".into(), token.clone()), ("token_type_hint".into(), kind.to_owned())];
            let method = self.client.token_method(discovery);
            let revoked = match self.client.post(local, endpoint, method, form, &[]).await {
                Ok(answer) if answer.status == 200 => continue,
                Ok(answer) => format!("{} answered with status {}", endpoint.url(), answer.status),
                Err(reason) => reason,
            };
            self.log(local, &format!("revocation of {kind} unsuccessful: {revoked}"));
        }
    }
}
