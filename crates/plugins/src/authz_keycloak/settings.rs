//! The settings: the schema, the fields, and the rules that a schema cannot express.

use exchange::plugin::outbound::check_uri;
use serde_json::Value;

use crate::shared::attributes::{attributes, words};
use crate::shared::config::{self, is_reference};

attributes! {
    pub(super) struct AuthzKeycloakConfig {
        /// The longest body of a request for a token, in bytes; a longer one is refused.
        max_req_body_size: usize = 67_108_864, { "minimum": 1 };
        /// The URL of Keycloak's UMA discovery document.
        discovery: Option<String>, { "minLength": 1, "maxLength": 4096 };
        /// The URL of the token endpoint, in place of the discovered one.
        token_endpoint: Option<String>, { "minLength": 1, "maxLength": 4096 };
        /// The URL of the resource registration endpoint, in place of the discovered one.
        resource_registration_endpoint: Option<String>, { "minLength": 1, "maxLength": 4096 };
        /// The identifier of the resource server at Keycloak.
        client_id: String, { "minLength": 1, "maxLength": 100 };
        /// Its secret.
        client_secret: Option<String>, { "minLength": 1, "maxLength": 100 };
        /// The grant with which permissions are asked for.
        grant_type: Grant = Grant::UmaTicket, { "minLength": 1, "maxLength": 100 };
        /// The treatment of a request without a permission to ask for: ENFORCING refuses the request,
        /// PERMISSIVE asks without one.
        policy_enforcement_mode: EnforcementMode = EnforcementMode::Enforcing;
        /// The permissions that are asked for: resources, each with scopes behind a #.
        permissions: Vec<String> = Vec::new(), {
            "uniqueItems": true, "items": { "type": "string", "minLength": 1, "maxLength": 100 },
        };
        /// Asks Keycloak for the resources of the request's path, in place of `permissions`.
        lazy_load_paths: bool = false;
        /// Adds the method of the request to the scopes that are asked for.
        http_method_as_scope: bool = false;
        /// Milliseconds for a call to Keycloak.
        timeout: u64 = 3_000, { "minimum": 1_000 };
        /// Whether Keycloak's certificate is verified.
        ssl_verify: bool = true;
        /// Seconds that the discovery document and the token of the client are kept.
        cache_ttl_seconds: u64 = 86_400, { "minimum": 1 };
        /// Keeps connections for further requests.
        keepalive: bool = true;
        /// Milliseconds a connection is kept without use.
        keepalive_timeout: u64 = 60_000, { "minimum": 1_000 };
        /// The most connections kept by each worker.
        keepalive_pool: u32 = 5, { "minimum": 1 };
        /// Where a browser is sent that is refused, in place of the answer 403.
        access_denied_redirect_uri: Option<String>, { "minLength": 1, "maxLength": 2048 };
        /// Seconds that the token of the client is valid where Keycloak does not say.
        access_token_expires_in: u64 = 300, { "minimum": 1 };
        /// Seconds before its end at which the token of the client counts as expired.
        access_token_expires_leeway: u64 = 0, { "minimum": 0 };
        /// Accepted for APISIX's sake; an expired token is fetched anew, not refreshed.
        refresh_token_expires_in: u64 = 3_600, { "minimum": 1 };
        /// Accepted for APISIX's sake; an expired token is fetched anew, not refreshed.
        refresh_token_expires_leeway: u64 = 0, { "minimum": 0 };
        /// The URI at which a user's name and password are exchanged for a token.
        password_grant_token_generation_incoming_uri: Option<String>, { "minLength": 1, "maxLength": 4096 };
    }
    {
        "title": "Ask Keycloak for permissions",
        "encrypt_fields": ["client_secret"],
        "allOf": [
            { "anyOf": [{ "required": ["discovery"] }, { "required": ["token_endpoint"] }] },
            { "anyOf": [
                { "properties": { "lazy_load_paths": { "enum": [false] } } },
                {
                    "properties": { "lazy_load_paths": { "enum": [true] } },
                    "anyOf": [
                        { "required": ["discovery"] },
                        { "required": ["resource_registration_endpoint"] },
                    ],
                },
            ] },
        ],
    }
}

words! {
    pub(super) enum Grant {
        UmaTicket = "urn:ietf:params:oauth:grant-type:uma-ticket",
    }
}

words! {
    pub(super) enum EnforcementMode {
        Enforcing = "ENFORCING",
        Permissive = "PERMISSIVE",
    }
}

/// Checks a configuration that the schema accepts.
///
/// # Errors
/// The first rule that does not hold, a sentence.
pub(super) fn check(config: &Value) -> Result<(), String> {
    let config: AuthzKeycloakConfig = config::parse_config(config)?;
    let called = [
        ("discovery", &config.discovery),
        ("token_endpoint", &config.token_endpoint),
        ("resource_registration_endpoint", &config.resource_registration_endpoint),
    ];
    for (field, url) in called {
        if let Some(url) = url.as_deref().filter(|url| !is_reference(url)) {
            check_uri(url).map_err(|reason| format!("{field}: {reason}"))?;
        }
    }
    Ok(())
}
