//! Calls of Nacos: the login, the signature, and the list of a service's instances by the API that the server
//! has. It does not know when to ask.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use http::Method;
use model::discovery::ServiceKey;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answer::{self, NacosRules};
use crate::http::{HttpClient, RegistryRequest, RegistryResponse};
use crate::parts::encoded;
use crate::poll::{PollAnswer, PollFailure, PollResult};
use crate::publish::{ServiceLookup, is_grpc};

/// A client of one cluster of Nacos.
pub(super) struct NacosClient {
    client: HttpClient,
    /// The path of the first API, with a slash at both ends.
    prefix: String,
    /// The path of the third API.
    third: String,
    user: Option<(String, String)>,
    keys: Option<(String, String)>,
    rules: NacosRules,
    /// Whether the server has removed the first API.
    is_third: AtomicBool,
    session: Mutex<NacosSession>,
}

/// The service that a call is about; signatures hold both names.
#[derive(Clone, Copy)]
pub(super) struct NacosService<'a> {
    pub(super) group: &'a str,
    pub(super) name: &'a str,
}

/// The login.
#[derive(Default)]
struct NacosSession {
    /// The token, and the time of its renewal.
    token: Option<(String, Instant)>,
    /// The last login because of a refused token.
    refused_at: Option<Instant>,
}

impl NacosClient {
    pub(super) fn new(
        client: HttpClient,
        prefix: &str,
        user: Option<(String, String)>,
        keys: Option<(String, String)>,
        rules: NacosRules,
    ) -> NacosClient {
        let prefix = format!("/{}/", prefix.trim_matches('/'));
        let third = format!("{}v3/", prefix.strip_suffix("v1/").unwrap_or("/nacos/"));
        let is_third = AtomicBool::new(false);
        NacosClient { client, prefix, third, user, keys, rules, is_third, session: Mutex::default() }
    }

    /// Asks for the instances of a service.
    pub(super) async fn ask(&self, key: &ServiceKey) -> PollResult {
        let group = if key.group.is_empty() { "DEFAULT_GROUP" } else { &key.group };
        let reply = self
            .send(NacosService { group, name: &key.service }, &|is_third| self.list(is_third, key))
            .await?;
        let body = match (reply.status, answer::is_unknown(&reply.body)) {
            (_, true) => return Ok(PollAnswer::Whole(ServiceLookup::Unknown, None)),
            // Rights belong to a namespace, so that a refusal concerns this service only.
            (401 | 403 | 404 | 410, _) => return Err(PollFailure::Service(refusal(&reply))),
            (502..=504, _) => return Err(PollFailure::Registry(refusal(&reply))),
            _ => reply.ok().map_err(PollFailure::Service)?,
        };
        let rules = NacosRules { is_grpc: is_grpc(key), ..self.rules };
        let (instances, reason) = answer::read_nacos_instances(body, rules).map_err(PollFailure::Service)?;
        Ok(PollAnswer::Whole(ServiceLookup::Instances(instances, reason), None))
    }

    /// Sends the call that `call` makes for the first API (false) or the third (true); once more with another
    /// token if the server refuses the first one and [`NacosClient::token`] has another one. The target of
    /// the call has a query.
    pub(super) async fn send(
        &self,
        service: NacosService<'_>,
        call: &(dyn Fn(bool) -> RegistryRequest + Send + Sync),
    ) -> Result<RegistryResponse, PollFailure> {
        let token = self.token(None).await?;
        let mut reply = self.by_either(service, call, token.as_deref()).await?;
        if token.is_some() && matches!(reply.status, 401 | 403) {
            let other = self.token(token.as_deref()).await?;
            if other != token {
                reply = self.by_either(service, call, other.as_deref()).await?;
            }
        }
        Ok(reply)
    }

    /// Sends the call by the API that answered last, and by the other one if the server does not have that.
    async fn by_either(
        &self,
        service: NacosService<'_>,
        call: &(dyn Fn(bool) -> RegistryRequest + Send + Sync),
        token: Option<&str>,
    ) -> Result<RegistryResponse, PollFailure> {
        let is_third = self.is_third.load(Ordering::Relaxed);
        let reply = self.by(call(is_third), service, token).await?;
        if !matches!(reply.status, 404 | 410) || answer::is_unknown(&reply.body) {
            return Ok(reply);
        }
        let other = self.by(call(!is_third), service, token).await?;
        if matches!(other.status, 404 | 410) && !answer::is_unknown(&other.body) {
            return Ok(reply);
        }
        self.is_third.store(!is_third, Ordering::Relaxed);
        Ok(other)
    }

    async fn by(
        &self,
        mut call: RegistryRequest,
        service: NacosService<'_>,
        token: Option<&str>,
    ) -> Result<RegistryResponse, PollFailure> {
        if let Some(token) = token {
            call.target.push_str(&format!("&accessToken={}", encoded(token)));
        }
        if let Some((id, secret)) = &self.keys {
            let now = stdx::clock::unix_time();
            call.target.push_str(&signature(now.as_millis(), service.group, service.name, id, secret));
        }
        self.client.call(&call).await.map_err(PollFailure::Registry)
    }

    /// The path of the list of all services.
    pub(super) fn list_path(&self, is_third: bool) -> String {
        match is_third {
            true => format!("{}admin/ns/service/list", self.third),
            false => format!("{}ns/service/list", self.prefix),
        }
    }

    /// The path of a call of instances.
    pub(super) fn path(&self, is_third: bool, rest: &str) -> String {
        match is_third {
            true => format!("{}client/{rest}", self.third),
            false => format!("{}{rest}", self.prefix),
        }
    }

    /// The call for the instances of a service.
    fn list(&self, is_third: bool, key: &ServiceKey) -> RegistryRequest {
        let namespace = if key.namespace.is_empty() { "public" } else { &key.namespace };
        let group = if key.group.is_empty() { "DEFAULT_GROUP" } else { &key.group };
        let path = self.path(is_third, "ns/instance/list");
        RegistryRequest::get(format!(
            "{path}?healthyOnly=true&serviceName={}&namespaceId={}&groupName={}",
            encoded(&key.service),
            encoded(namespace),
            encoded(group)
        ))
    }

    /// The token for calls of a push connection.
    ///
    /// # Errors
    /// The reason of a login that failed.
    pub(super) async fn push_token(&self) -> Result<Option<String>, String> {
        self.token(None).await.map_err(Into::into)
    }

    /// The token for calls; none where no user is set. `refused` is a token that the server has refused: it
    /// is replaced, but at most once within [`REFUSAL_INTERVAL`], because a refusal may also mean that the
    /// user has no right to the service.
    async fn token(&self, refused: Option<&str>) -> Result<Option<String>, PollFailure> {
        let Some((user, password)) = &self.user else { return Ok(None) };
        // The lock is held during the login, so that calls at the same time wait for one login.
        let mut session = self.session.lock().await;
        let now = Instant::now();
        if let Some((token, renewal)) = &session.token
            && now < *renewal
        {
            let is_refused = Some(token.as_str()) == refused;
            if !is_refused || session.refused_at.is_some_and(|at| now < at + REFUSAL_INTERVAL) {
                return Ok(Some(token.clone()));
            }
            session.refused_at = Some(now);
        }
        session.token = None;
        let form = format!("username={}&password={}", encoded(user), encoded(password));
        let first = format!("{}auth/login", self.prefix);
        let third = format!("{}auth/user/login", self.third);
        let targets = if self.is_third.load(Ordering::Relaxed) { [third, first] } else { [first, third] };
        let mut reply = self.login(&targets[0], &form).await?;
        if matches!(reply.status, 404 | 410) {
            reply = self.login(&targets[1], &form).await?;
        }
        let token = reply.ok().and_then(answer::read_nacos_token);
        let token = token
            .map_err(|reason| PollFailure::Registry(format!("the login of `{user}` failed: {reason}")))?;
        session.token = Some((token.text.clone(), Instant::now() + token.lifetime * 9 / 10));
        Ok(Some(token.text))
    }

    async fn login(&self, target: &str, form: &str) -> Result<RegistryResponse, PollFailure> {
        let call =
            RegistryRequest::with_body(Method::POST, target, "application/x-www-form-urlencoded", form);
        self.client.call(&call).await.map_err(PollFailure::Registry)
    }
}

/// Shortest time between two logins because of a refused token.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(60);

/// The reason of a refusal.
fn refusal(reply: &RegistryResponse) -> String {
    let reason = reply.ok().err().unwrap_or_default();
    match reply.status {
        404 | 410 => format!("neither the API at `prefix` nor that of version 3 is there: {reason}"),
        _ => reason,
    }
}

/// The parameters of a signed call, as APISIX signs it.
fn signature(now_ms: u128, group: &str, service: &str, id: &str, secret: &str) -> String {
    // A call that is about no service signs the time only.
    let text = match service {
        "" => now_ms.to_string(),
        service => format!("{now_ms}@@{group}@@{service}"),
    };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    let signature = BASE64.encode(hmac::sign(&key, text.as_bytes()).as_ref());
    format!("&ak={}&data={}&signature={}", encoded(id), encoded(&text), encoded(&signature))
}

#[cfg(test)]
mod tests {
    use super::signature;

    #[test]
    fn signature_is_an_hmac_of_time_and_name() {
        // Computed with `openssl dgst -sha1 -hmac secret`.
        let expected =
            "&ak=id&data=1700000000000%40%40DEFAULT_GROUP%40%40a&signature=DbDKd3Ey4iYwIDfy4CxhRLjldL4%3D";
        let signed = signature(1_700_000_000_000, "DEFAULT_GROUP", "a", "id", "secret");
        assert_eq!(signed, expected);
    }
}
