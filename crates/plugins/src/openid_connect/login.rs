//! The authorization code flow (OpenID Connect Core section 3.1): sending the browser to the provider, and its way back with
//! a code. Each login under way has a state that is bound to the browser by its session and used once.

use std::rc::Rc;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use exchange::Exchange;
use exchange::local::Local;
use exchange::plugin::Reply;
use message::{FieldId, Method};
use serde_json::Value;

use super::OpenidConnect;
use super::browser::Fault;
use super::client::Form;
use super::provider::Discovery;
use super::session::{Login, Pending, Session};
use crate::shared::api_call;
use crate::shared::query::{arguments, decode};
use crate::shared::uri::{encode_path, location};

/// How often in a row a failed callback begins the login anew, as in APISIX: a fault that stays must not send the browser in
/// circles.
const RESTARTS_MAX: u32 = 3;
/// The end of the redirect URI where none is configured.
const REDIRECT_SUFFIX: &str = "/.apisix/redirect";

impl OpenidConnect {
    /// The path that the provider sends browsers back to, encoded; with the configured URL as a whole where it is absolute.
    fn redirect_target(&self, exchange: &Exchange) -> String {
        if let Some(configured) = &self.config.redirect_uri {
            return configured.clone();
        }
        let mut path = Vec::new();
        encode_path(exchange, exchange.path(), &mut path);
        let path = String::from_utf8_lossy(&path);
        match path.ends_with(REDIRECT_SUFFIX) {
            true => path.into_owned(),
            false => format!("{}{REDIRECT_SUFFIX}", path.strip_suffix('/').unwrap_or(&path)),
        }
    }

    /// Whether the request is for the redirect URI.
    pub(super) fn is_callback(&self, exchange: &Exchange) -> bool {
        match &self.redirect_path {
            Some(path) => exchange.path() == path.as_bytes(),
            None => exchange.path().ends_with(REDIRECT_SUFFIX.as_bytes()),
        }
    }

    /// The absolute redirect URI. Scheme and host are those of the client, or those that a trusted proxy names.
    fn redirect_uri(&self, exchange: &Exchange) -> String {
        let target = self.redirect_target(exchange);
        if !target.starts_with('/') {
            return target;
        }
        let headers = &exchange.request.headers;
        let named = |id: FieldId| {
            let value = str::from_utf8(headers.get_known(id)?).ok()?;
            Some(value.split(',').next().unwrap_or_default().trim().to_owned())
        };
        let scheme =
            named(FieldId::XForwardedProto).unwrap_or_else(|| exchange.connection.scheme.as_str().to_owned());
        let authority = || String::from_utf8_lossy(exchange.request.authority()).into_owned();
        let host = named(FieldId::XForwardedHost).unwrap_or_else(authority);
        format!("{scheme}://{host}{target}")
    }

    /// Sends the browser to the provider; `prompt` is that parameter of the request.
    ///
    /// # Errors
    /// The provider or its discovery document cannot be used.
    pub(super) async fn begin(
        &self,
        exchange: &mut Exchange,
        session: Option<Session>,
        prompt: Option<&str>,
    ) -> Result<Reply, Fault> {
        let local = exchange.local().clone();
        let discovery = self.provider.discovery(&local, &self.client.limits).await?;
        let authorization =
            discovery.authorization.as_ref().ok_or("the discovery document has no authorization_endpoint")?;
        let pending = self.new_login(exchange, now_s(&local))?;
        let mut parameters = self.parameters(exchange, &pending, prompt);
        if self.config.par.as_ref().is_some_and(|par| par.enabled) {
            parameters = self.push(&local, &discovery, parameters).await?;
        }
        let url =
            api_call::with_query(authorization, parameters.iter().map(|(name, value)| (&**name, &**value)));
        let mut session = session.unwrap_or_else(|| Session::new(now_s(&local)));
        session.begin(pending);
        let reply = redirect(&url).with_header("Cache-Control", "no-cache, no-store, max-age=0");
        self.with_session(exchange, reply, &mut session).await
    }

    fn new_login(&self, exchange: &Exchange, now_s: u64) -> Result<Pending, Fault> {
        let config = &self.config;
        let state = HEXLOWER.encode(&random::<16>()?);
        let nonce = if config.use_nonce { Some(HEXLOWER.encode(&random::<16>()?)) } else { None };
        let verifier = if config.use_pkce { Some(BASE64URL_NOPAD.encode(&random::<32>()?)) } else { None };
        Ok(Pending { state, nonce, verifier, original: original(exchange), begun_s: now_s })
    }

    fn parameters(
        &self,
        exchange: &Exchange,
        pending: &Pending,
        prompt: Option<&str>,
    ) -> Vec<(String, String)> {
        let challenge = pending
            .verifier
            .as_ref()
            .map(|verifier| BASE64URL_NOPAD.encode(digest(&SHA256, verifier.as_bytes()).as_ref()));
        let own = [
            ("client_id", Some(self.client.id.clone())),
            ("response_type", Some("code".to_owned())),
            ("scope", Some(self.config.scope.clone())),
            ("redirect_uri", Some(self.redirect_uri(exchange))),
            ("state", Some(pending.state.clone())),
            ("nonce", pending.nonce.clone()),
            ("prompt", prompt.map(str::to_owned)),
            ("code_challenge_method", challenge.as_ref().map(|_| "S256".to_owned())),
            ("code_challenge", challenge),
        ];
        let extra = self.config.authorization_params.iter().flatten();
        let extra: Vec<(String, String)> = extra.map(|(name, value)| (name.clone(), text(value))).collect();
        let is_replaced = |name: &str| extra.iter().any(|(other, _)| other == name);
        let own = own.into_iter().filter(|(name, _)| !is_replaced(name));
        let mut all: Vec<(String, String)> =
            own.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        all.extend(extra);
        all
    }

    /// Sends the parameters to the provider before the browser is sent there (RFC 9126); gives those that are left for the
    /// browser.
    async fn push(
        &self,
        local: &Local,
        discovery: &Discovery,
        parameters: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, Fault> {
        let endpoint = self.par_endpoint.as_ref().or(discovery.par.as_ref());
        let endpoint = endpoint.ok_or("no endpoint URI for pushed authorization requests")?;
        let configured = self.config.par.as_ref().and_then(|par| par.endpoint_auth_method.as_deref());
        let method = configured.unwrap_or_else(|| self.client.token_method(discovery));
        let form: Form = parameters.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let answer = self.client.ask(local, endpoint, method, form, &[]).await?;
        let request_uri =
            answer["request_uri"].as_str().ok_or("the answer of the PAR endpoint has no request_uri")?;
        Ok(vec![
            ("client_id".to_owned(), self.client.id.clone()),
            ("request_uri".to_owned(), request_uri.to_owned()),
        ])
    }

    /// The way back of a browser from the provider.
    ///
    /// # Errors
    /// The callback belongs to no login under way that can be gone on with, or the provider does not hand out tokens.
    pub(super) async fn callback(
        &self,
        exchange: &mut Exchange,
        session: Option<Session>,
    ) -> Result<Reply, Fault> {
        let Some(mut session) = session else {
            return Err(Fault::from("request to the redirect_uri path but there's no session state found"));
        };
        let arguments = Arguments::of(exchange);
        let local = exchange.local().clone();
        let (Some(code), Some(state)) = (&arguments.code, &arguments.state) else {
            let pending = match &arguments.state {
                Some(state) if arguments.error.as_deref() == Some("temporarily_unavailable") => {
                    session.take_pending(state, now_s(&local))
                }
                _ => None,
            };
            let fault = match &arguments.error {
                Some(_) => "unhandled request to the redirect_uri: the provider reports an error",
                None => "unhandled request to the redirect_uri: no code or no state",
            };
            return match pending {
                Some(pending) => self.restart(exchange, session, Some(pending.original), fault).await,
                None => Err(Fault::from(fault)),
            };
        };
        let Some(pending) = session.take_pending(state, now_s(&local)) else {
            let original = session.original.clone();
            let fault = "state from argument does not match state restored from session";
            return self.restart(exchange, session, original, fault).await;
        };
        match self.exchange_code(exchange, &local, &arguments, code, &pending).await {
            Ok(login) => {
                // A new session, so that nothing of the one before the login lives on in it, nor its identifier.
                if let (Some(sessions), Some(id)) = (&self.sessions, session.id) {
                    sessions.forget(&local, id).await?;
                }
                let mut fresh = Session::new(now_s(&local));
                fresh.pending = session.pending;
                fresh.original = Some(pending.original.clone());
                fresh.login = Some(login);
                self.with_session(exchange, redirect(&pending.original), &mut fresh).await
            }
            // The state is used up, also where the login has failed.
            Err(fault) => {
                Err(fault.with_reply(self.with_session(exchange, Reply::status(500), &mut session).await?))
            }
        }
    }

    /// Sends the browser back to where it began, so that it logs in anew; only a few times in a row.
    async fn restart(
        &self,
        exchange: &mut Exchange,
        mut session: Session,
        original: Option<String>,
        reason: &str,
    ) -> Result<Reply, Fault> {
        let Some(original) = original.filter(|_| exchange.request.method == Method::Get) else {
            return Err(Fault::from(reason));
        };
        if session.restarts >= RESTARTS_MAX {
            return Err(Fault::from(format!(
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
        local: &Rc<Local>,
        arguments: &Arguments,
        code: &str,
        pending: &Pending,
    ) -> Result<Login, Fault> {
        let discovery = self.provider.discovery(local, &self.client.limits).await?;
        if arguments.iss.as_ref().is_some_and(|iss| *iss != discovery.issuer) {
            return Err(Fault::from("iss from argument does not match expected issuer"));
        }
        if arguments.client_id.as_ref().is_some_and(|id| *id != self.client.id) {
            return Err(Fault::from("client_id from argument does not match expected client_id"));
        }
        let mut form: Form = vec![
            ("grant_type".into(), "authorization_code".to_owned()),
            ("code".into(), code.to_owned()),
            ("redirect_uri".into(), self.redirect_uri(exchange)),
        ];
        form.extend(pending.verifier.clone().map(|verifier| ("code_verifier".into(), verifier)));
        let asked_s = now_s(local);
        let tokens = self.tokens(local, &discovery, form).await?;
        let raw = tokens["id_token"].as_str().ok_or("the answer of the token endpoint has no id_token")?;
        let claims = self.id_token_claims(local, &discovery, raw, pending.nonce.as_deref()).await?;
        let access_token = tokens["access_token"].as_str();
        let user = match access_token {
            Some(token) if self.stores.user => self.user(local, &discovery, token, &claims["sub"]).await,
            _ => None,
        };
        let mut login = Login { user, authenticated_s: asked_s, ..Login::default() };
        self.store_tokens(&mut login, &tokens, Some(claims), asked_s);
        Ok(login)
    }

    /// Tokens of the token endpoint.
    pub(super) async fn tokens(
        &self,
        local: &Local,
        discovery: &Arc<Discovery>,
        form: Form,
    ) -> Result<Value, Fault> {
        let endpoint = discovery.token.as_ref().ok_or("no endpoint URI for token")?;
        let method = self.client.token_method(discovery);
        Ok(self.client.ask(local, endpoint, method, form, &[]).await?)
    }

    /// The user's data; none where the provider gives none, or those of another user.
    async fn user(
        &self,
        local: &Local,
        discovery: &Discovery,
        token: &str,
        subject: &Value,
    ) -> Option<Value> {
        let endpoint = discovery.userinfo.as_ref()?;
        let bearer = format!("Bearer {token}");
        let fields = [("Authorization", &*bearer)];
        let asked = api_call::get(local, &endpoint.destination, None, &self.client.limits, &fields).await;
        let user = asked.and_then(|answer| api_call::json(&answer, &endpoint.destination));
        let user = user.and_then(|user| match user.get("sub") == Some(subject) {
            true => Ok(user),
            false => Err("the \"sub\" claims of id_token and userinfo differ".to_owned()),
        });
        user.map_err(|reason| self.log(local, &format!("error calling userinfo endpoint: {reason}"))).ok()
    }
}

/// The arguments of a callback, decoded.
#[derive(Default)]
struct Arguments {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
    client_id: Option<String>,
}

impl Arguments {
    fn of(exchange: &Exchange) -> Arguments {
        let mut found = Arguments::default();
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

/// Path and query that the client asked for, as a reference to the same host: the canonical path begins with one slash,
/// because browsers take two for the beginning of a host.
fn original(exchange: &Exchange) -> String {
    let mut target = Vec::new();
    encode_path(exchange, exchange.path(), &mut target);
    if let Some(query) = exchange.request.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let target = location(&target);
    format!("/{}", target.trim_start_matches(['/', '\\']))
}

fn redirect(url: &str) -> Reply {
    Reply::status(302).with_header("Location", url)
}

pub(super) fn now_s(local: &Local) -> u64 {
    local.wall_at(local.clock_ns()).0
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], Fault> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).map_err(|_| "the library has no random numbers")?;
    Ok(bytes)
}

/// A parameter as it is written in a query.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use exchange::testing::Scene;

    use super::*;

    #[test]
    fn original_url_stays_on_the_same_host() {
        let check = |target: &str, expected: &str| {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut scene = Scene::new();
            let exchange = scene.exchange(head.as_bytes());
            assert_eq!(original(&exchange), expected, "{target}");
        };
        check("/a/b?c=d&e", "/a/b?c=d&e");
        check("/", "/");
        check("//evil.example/x", "/evil.example/x");
        check("/a%20b", "/a%20b");
    }
}
