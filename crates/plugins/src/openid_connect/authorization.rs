//! Sending the browser to the provider (OpenID Connect Core section 3.1.2.1): each login has a state that is
//! bound to the browser by its session. Its way back is in [`super::login`].

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::BufferedReply;
use message::FieldId;
use serde_json::Value;

use super::OpenidConnect;
use super::browser::BrowserFault;
use super::client::FormFields;
use super::provider::DiscoveryDocument;
use super::session::{OpenidSession, PendingLogin};
use crate::shared::api_call;
use crate::shared::uri::{encode_path, encode_uri};

/// The end of the redirect URI where none is configured.
const REDIRECT_SUFFIX: &str = "/.apisix/redirect";

impl OpenidConnect {
    /// The path that the provider sends browsers back to, encoded; with the configured URL as a whole where
    /// it is absolute.
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

    /// The absolute redirect URI. Scheme and host are those of the client, or those that a trusted proxy
    /// names.
    pub(super) fn redirect_uri(&self, exchange: &Exchange) -> String {
        let target = self.redirect_target(exchange);
        if !target.starts_with('/') {
            return target;
        }
        let scheme = scheme(exchange);
        let authority = || String::from_utf8_lossy(exchange.request.authority()).into_owned();
        let host = named(exchange, FieldId::XForwardedHost).map_or_else(authority, str::to_owned);
        format!("{scheme}://{host}{target}")
    }

    /// Sends the browser to the provider; `prompt` is that parameter of the request.
    ///
    /// # Errors
    /// The provider or its discovery document cannot be used.
    pub(super) async fn begin(
        &self,
        exchange: &mut Exchange,
        session: Option<OpenidSession>,
        prompt: Option<&str>,
    ) -> Result<BufferedReply, BrowserFault> {
        let local = exchange.local().clone();
        let discovery = self.provider.discovery(&local, &self.client.calls).await?;
        let authorization =
            discovery.authorization.as_ref().ok_or("the discovery document has no authorization_endpoint")?;
        let pending = self.new_login(exchange, read_wall_clock_s(&local))?;
        let mut parameters = self.parameters(exchange, &pending, prompt);
        if self.config.par.as_ref().is_some_and(|par| par.enabled) {
            parameters = self.push(&local, &discovery, parameters).await?;
        }
        let url =
            api_call::with_query(authorization, parameters.iter().map(|(name, value)| (&**name, &**value)));
        let mut session = session.unwrap_or_else(|| OpenidSession::new(read_wall_clock_s(&local)));
        session.begin(pending);
        let reply = redirect(&url).with_header("Cache-Control", "no-cache, no-store, max-age=0");
        self.with_session(exchange, reply, &mut session).await
    }

    fn new_login(&self, exchange: &Exchange, now_s: u64) -> Result<PendingLogin, BrowserFault> {
        let config = &self.config;
        let state = HEXLOWER.encode(&random::<16>()?);
        let nonce = if config.use_nonce { Some(HEXLOWER.encode(&random::<16>()?)) } else { None };
        let verifier = if config.use_pkce { Some(BASE64URL_NOPAD.encode(&random::<32>()?)) } else { None };
        Ok(PendingLogin { state, nonce, verifier, original: original(exchange), begun_s: now_s })
    }

    fn parameters(
        &self,
        exchange: &Exchange,
        pending: &PendingLogin,
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

    /// Sends the parameters to the provider before the browser is sent there (RFC 9126); gives those that are
    /// left for the browser.
    async fn push(
        &self,
        local: &WorkerLocal,
        discovery: &DiscoveryDocument,
        parameters: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, BrowserFault> {
        let endpoint = self.par_endpoint.as_ref().or(discovery.par.as_ref());
        let endpoint = endpoint.ok_or("no endpoint URI for pushed authorization requests")?;
        let configured = self.config.par.as_ref().and_then(|par| par.endpoint_auth_method.as_deref());
        let method = configured.unwrap_or_else(|| self.client.token_method(discovery));
        let form: FormFields = parameters.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let answer = self.client.ask(local, endpoint, method, form, &[]).await?;
        let request_uri =
            answer["request_uri"].as_str().ok_or("the answer of the PAR endpoint has no request_uri")?;
        Ok(vec![
            ("client_id".to_owned(), self.client.id.clone()),
            ("request_uri".to_owned(), request_uri.to_owned()),
        ])
    }
}

/// Path and query that the client asked for, as a reference to the same host: the canonical path begins with
/// one slash, because browsers take two for the beginning of a host.
fn original(exchange: &Exchange) -> String {
    let mut target = Vec::new();
    encode_path(exchange, exchange.path(), &mut target);
    if let Some(query) = exchange.request.query() {
        target.push(b'?');
        encode_uri(query, None, &mut target);
    }
    let target = String::from_utf8_lossy(&target);
    format!("/{}", target.trim_start_matches(['/', '\\']))
}

/// The scheme of the client, or that which a trusted proxy names.
pub(super) fn scheme(exchange: &Exchange) -> &str {
    named(exchange, FieldId::XForwardedProto).unwrap_or_else(|| exchange.connection.scheme.as_str())
}

/// The first value of a field that a trusted proxy has set.
fn named(exchange: &Exchange, id: FieldId) -> Option<&str> {
    let value = str::from_utf8(exchange.request.headers.get_known(id)?).ok()?;
    Some(value.split(',').next().unwrap_or_default().trim())
}

pub(super) fn redirect(url: &str) -> BufferedReply {
    BufferedReply::status(302).with_header("Location", url)
}

pub(super) fn read_wall_clock_s(local: &WorkerLocal) -> u64 {
    local.wall_at(local.clock_ns()).0
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], BrowserFault> {
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
