//! Calls of the service-center: the login, and the instances of a microservice with the revision of the
//! answer that is in force. It does not know when to ask.

use http::{HeaderName, Method, header};
use model::discovery::ServiceKey;
use serde_json::json;
use tokio::sync::Mutex;

use super::answer::{self, ServiceCombRules};
use crate::http::{HttpClient, RegistryRequest, RegistryResponse};
use crate::parts::encoded;
use crate::poll::{PollAnswer, PollFailure, PollQuery, PollResult};
use crate::publish::{ServiceLookup, is_secure};

/// The place of services that name none.
#[derive(Debug)]
pub(super) struct ServiceCombScope {
    pub(super) domain: String,
    pub(super) project: String,
    pub(super) app_id: String,
}

/// A client of one service-center.
pub(super) struct ServiceCombClient {
    client: HttpClient,
    place: ServiceCombScope,
    user: Option<(String, String)>,
    weight: u32,
    token: Mutex<Option<String>>,
}

impl ServiceCombClient {
    pub(super) fn new(
        client: HttpClient,
        place: ServiceCombScope,
        user: Option<(String, String)>,
        weight: u32,
    ) -> ServiceCombClient {
        ServiceCombClient { client, place, user, weight, token: Mutex::default() }
    }

    /// Asks for the instances of a service.
    pub(super) async fn ask(&self, question: &PollQuery) -> PollResult {
        let (key, revision) = (&question.key, question.revision.as_deref());
        let reply = self.send(self.instances(key, revision)).await?;
        match reply.status {
            304 if revision.is_some() => return Ok(PollAnswer::Unchanged),
            200 => {}
            401 | 403 => return Err(PollFailure::Service(reply.ok().err().unwrap_or_default())),
            502..=504 => return Err(PollFailure::Registry(reply.ok().err().unwrap_or_default())),
            status => {
                let (is_unknown, reason) = answer::read_servicecomb_refusal(status, &reply.body);
                return match is_unknown {
                    true => Ok(PollAnswer::Whole(ServiceLookup::Unknown, None)),
                    false => Err(PollFailure::Service(reason)),
                };
            }
        }
        let rules = ServiceCombRules { is_secure: is_secure(key), default_weight: self.weight };
        let (instances, reason) =
            answer::read_servicecomb_instances(&reply.body, rules).map_err(PollFailure::Service)?;
        let revision = reply.field("x-resource-revision");
        let revision = revision.filter(|revision| revision.len() <= MAX_REVISION_BYTES).map(str::to_owned);
        Ok(PollAnswer::Whole(ServiceLookup::Instances(instances, reason), revision))
    }

    /// Asks for all microservices, whatever their application.
    pub(super) async fn microservices(&self) -> Result<RegistryResponse, PollFailure> {
        self.send(format!("/v4/{}/registry/microservices", self.place.project)).await
    }

    /// The application of services that name none.
    pub(super) fn app_id(&self) -> &str {
        &self.place.app_id
    }

    /// Gets the target; once more with another token if the server refuses the first one.
    async fn send(&self, target: String) -> Result<RegistryResponse, PollFailure> {
        let token = self.token(None).await?;
        let reply = self.get(&target, token.as_deref()).await?;
        if token.is_none() || reply.status != 401 {
            return Ok(reply);
        }
        let other = self.token(token.as_deref()).await?;
        self.get(&target, other.as_deref()).await
    }

    async fn get(&self, target: &str, token: Option<&str>) -> Result<RegistryResponse, PollFailure> {
        let mut call = RegistryRequest::get(target).with(DOMAIN, &self.place.domain);
        if let Some(token) = token {
            call = call.with(header::AUTHORIZATION, &format!("Bearer {token}"));
        }
        self.client.call(&call).await.map_err(PollFailure::Registry)
    }

    /// The target of a call for the instances of a service.
    fn instances(&self, key: &ServiceKey, revision: Option<&str>) -> String {
        let argument = |name: &str| key.args.get(name).map(|value| &**value);
        let mut target = format!(
            "/v4/{}/registry/instances?appId={}&serviceName={}&version={}",
            self.place.project,
            encoded(argument("app_id").unwrap_or(&self.place.app_id)),
            encoded(&key.service),
            // The microservice's versions from 0 on.
            encoded(argument("version").unwrap_or("0+"))
        );
        if let Some(environment) = argument("environment") {
            target.push_str(&format!("&env={}", encoded(environment)));
        }
        if let Some(revision) = revision {
            target.push_str(&format!("&rev={}", encoded(revision)));
        }
        target
    }

    /// The token for calls; none where no user is set. `refused` is a token that the server has refused.
    async fn token(&self, refused: Option<&str>) -> Result<Option<String>, PollFailure> {
        let Some((user, password)) = &self.user else { return Ok(None) };
        // The lock is held during the login, so that calls at the same time wait for one login.
        let mut held = self.token.lock().await;
        if held.is_some() && held.as_deref() != refused {
            return Ok(held.clone());
        }
        *held = None;
        let body = json!({"name": user, "password": password}).to_string();
        let call = RegistryRequest::with_body(Method::POST, "/v4/token", "application/json", body);
        let reply =
            self.client.call(&call.with(DOMAIN, &self.place.domain)).await.map_err(PollFailure::Registry)?;
        let token = reply.ok().and_then(answer::read_servicecomb_token);
        *held =
            Some(token.map_err(|reason| {
                PollFailure::Registry(format!("the login of `{user}` failed: {reason}"))
            })?);
        Ok(held.clone())
    }
}

const DOMAIN: HeaderName = HeaderName::from_static("x-domain-name");
/// Limit of a revision, which is a hash; a service with a longer one is always asked for in whole.
const MAX_REVISION_BYTES: usize = 128;
