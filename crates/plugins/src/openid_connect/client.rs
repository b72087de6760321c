//! The client as it authenticates at the endpoints of the provider (RFC 6749 section 2.3, OpenID Connect Core
//! section 9), and its calls to them.

use std::borrow::Cow;

use data_encoding::BASE64;
use exchange::local::WorkerLocal;
use exchange::plugin::call_failures::CallFailures;
use exchange::plugin::outbound::OutboundResponse;
use serde_json::Value;

use super::assertion::SigningKey;
use super::provider::{DiscoveryDocument, ProviderEndpoint};
use super::settings::{AssertionAlgorithm, OpenidConnectConfig};
use crate::shared::api_call::{self, Calls};

/// The fields of a form.
pub(super) type FormFields = Vec<(Cow<'static, str>, String)>;

/// See the module.
pub(super) struct OpenidClient {
    pub(super) id: String,
    secret: Option<String>,
    /// The value of Authorization for `client_secret_basic`.
    basic: Option<String>,
    private_key: Option<SigningKey>,
    secret_key: Option<SigningKey>,
    key_id: Option<String>,
    audience: Option<String>,
    assertion_lifetime_s: u64,
    token_method: String,
    pub(super) calls: Calls,
}

impl OpenidClient {
    /// # Errors
    /// The private key cannot be used, a sentence.
    pub(super) fn new(config: &OpenidConnectConfig, failures: CallFailures) -> Result<OpenidClient, String> {
        let algorithm = config.client_jwt_assertion_alg;
        let asymmetric = algorithm.filter(|algorithm| !algorithm.is_symmetric());
        let symmetric = algorithm.filter(|algorithm| algorithm.is_symmetric());
        let uses = |method: &str| {
            let par = config.par.as_ref().and_then(|par| par.endpoint_auth_method.as_deref());
            config.token_endpoint_auth_method == method
                || config.introspection_endpoint_auth_method == method
                || par == Some(method)
        };
        let private_key = match &config.client_rsa_private_key {
            Some(pem) if uses("private_key_jwt") => {
                Some(SigningKey::from_pem(asymmetric.unwrap_or(AssertionAlgorithm::Rs256), pem)?)
            }
            _ => None,
        };
        let secret = config.client_secret.clone();
        let basic = secret.as_ref().map(|secret| {
            let pair = format!(
                "{}:{}",
                api_call::encode_form_text(&config.client_id),
                api_call::encode_form_text(secret)
            );
            format!("Basic {}", BASE64.encode(pair.as_bytes()))
        });
        Ok(OpenidClient {
            id: config.client_id.clone(),
            basic,
            private_key,
            secret_key: secret.as_deref().and_then(|secret| {
                SigningKey::from_secret(symmetric.unwrap_or(AssertionAlgorithm::Hs256), secret)
            }),
            secret,
            key_id: config.client_rsa_private_key_id.clone(),
            audience: config.client_jwt_assertion_audience.clone(),
            assertion_lifetime_s: config.client_jwt_assertion_expires_in,
            token_method: config.token_endpoint_auth_method.clone(),
            calls: Calls::new(config.timeout_ms(), failures),
        })
    }

    /// The method at the token endpoint: the configured one, or, where the provider does not list it, the
    /// first one that it lists and the client can use.
    pub(super) fn token_method<'a>(&'a self, discovery: &'a DiscoveryDocument) -> &'a str {
        let Some(listed) = &discovery.auth_methods else { return &self.token_method };
        if listed.contains(&self.token_method) {
            return &self.token_method;
        }
        let usable = listed.iter().find(|method| self.can_use(method));
        usable.map_or(&self.token_method, String::as_str)
    }

    fn can_use(&self, method: &str) -> bool {
        match method {
            "client_secret_basic" | "client_secret_post" => self.secret.is_some(),
            "client_secret_jwt" => self.secret_key.is_some(),
            "private_key_jwt" => self.private_key.is_some(),
            _ => false,
        }
    }

    /// Posts a form to an endpoint; the client authenticates by `method`.
    ///
    /// # Errors
    /// There was no answer, a sentence for the log.
    pub(super) async fn post(
        &self,
        local: &WorkerLocal,
        endpoint: &ProviderEndpoint,
        method: &str,
        mut form: FormFields,
        fields: &[(&str, &str)],
    ) -> Result<OutboundResponse, String> {
        let authorization = self.authenticate(local, endpoint.url(), method, &mut form)?;
        let mut fields = fields.to_vec();
        fields.extend(authorization.map(|value| ("Authorization", value)));
        let body = api_call::encode_form(form.iter().map(|(name, value)| (&**name, &**value)));
        api_call::post_form(local, &endpoint.destination, &self.calls, body, &fields).await
    }

    /// As [`OpenidClient::post`], for an endpoint that answers with a JSON object.
    ///
    /// # Errors
    /// There was no answer, or one that is not as expected, a sentence for the log.
    pub(super) async fn ask(
        &self,
        local: &WorkerLocal,
        endpoint: &ProviderEndpoint,
        method: &str,
        form: FormFields,
        fields: &[(&str, &str)],
    ) -> Result<Value, String> {
        let answer = self.post(local, endpoint, method, form, fields).await?;
        api_call::parse_json_response(&answer, &endpoint.destination)
    }

    /// Adds the client's credential to the form, or gives the value of Authorization. A client without a
    /// secret names itself in the form (RFC 6749 section 3.2.1).
    fn authenticate(
        &self,
        local: &WorkerLocal,
        url: &str,
        method: &str,
        form: &mut FormFields,
    ) -> Result<Option<&str>, String> {
        let key = match method {
            "private_key_jwt" => &self.private_key,
            "client_secret_jwt" => &self.secret_key,
            "client_secret_post" => {
                self.name_itself(form);
                form.extend(self.secret.clone().map(|secret| ("client_secret".into(), secret)));
                return Ok(None);
            }
            _ => {
                if self.basic.is_none() {
                    self.name_itself(form);
                }
                return Ok(self.basic.as_deref());
            }
        };
        let key = key.as_ref().ok_or_else(|| format!("{method} needs a key that is not configured"))?;
        let audience = self.audience.as_deref().unwrap_or(url);
        let (now_s, _) = local.wall_at(local.clock_ns());
        let assertion =
            key.assertion(self.key_id.as_deref(), &self.id, audience, now_s, self.assertion_lifetime_s);
        self.name_itself(form);
        form.push(("client_assertion_type".into(), ASSERTION_TYPE.to_owned()));
        form.push(("client_assertion".into(), assertion.ok_or("the client assertion cannot be signed")?));
        Ok(None)
    }

    /// Adds the client's identifier, unless the form has it as a parameter of a pushed authorization request:
    /// a parameter must not be there twice (RFC 6749 section 3.2).
    fn name_itself(&self, form: &mut FormFields) {
        if !form.iter().any(|(name, _)| name == "client_id") {
            form.push(("client_id".into(), self.id.clone()));
        }
    }
}

/// The type of assertions that are JSON Web Tokens (RFC 7523 section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[cfg(test)]
mod tests {
    use exchange::testing::Scene;
    use serde_json::json;

    use super::*;
    use crate::shared::config;

    #[test]
    fn form_names_the_client_once() {
        let mut scene = Scene::new();
        let exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let check = |secret: Option<&str>, method: &str| {
            let config: OpenidConnectConfig = config::parse_config(&json!({
                "client_id": "gw", "client_secret": secret, "discovery": "https://op",
                "token_endpoint_auth_method": method,
            }))
            .unwrap();
            let client = OpenidClient::new(&config, CallFailures::default()).unwrap();
            for own in [vec![], vec![("client_id".into(), "gw".to_owned())]] {
                let mut form: FormFields = own.clone();
                let authorization =
                    client.authenticate(exchange.local(), "https://op/par", method, &mut form).unwrap();
                let named = form.iter().filter(|(name, _)| name == "client_id").count();
                let expected = usize::from(authorization.is_none() || !own.is_empty());
                assert_eq!(named, expected, "{method} {form:?}");
            }
        };
        let secret = Some("a-secret-of-more-than-thirty-two-bytes");
        check(secret, "client_secret_basic");
        check(secret, "client_secret_post");
        check(secret, "client_secret_jwt");
        check(None, "client_secret_basic");
        check(None, "client_secret_post");
    }
}
