//! The rules that a schema cannot express. What the plugin cannot do is refused here, with the field and the
//! reason.

use exchange::plugin::outbound::check_uri;
use model::validate::UserSchema;
use serde_json::Value;

use super::super::assertion::SigningKey;
use super::objects::Storage;
use super::{AssertionAlgorithm, OpenidConnectConfig};
use crate::shared::config::{self, is_reference};

/// Checks a configuration that the schema accepts.
///
/// # Errors
/// The first rule that does not hold, in the words of APISIX where it has the rule.
pub(in super::super) fn check(written: &Value) -> Result<(), String> {
    let config: OpenidConnectConfig = config::parse_config(written)?;
    if !config.bearer_only && config.session.is_none() {
        return Err("property \"session.secret\" is required when \"bearer_only\" is false".to_owned());
    }
    if !has_credential(&config) {
        return Err("property \"client_secret\" is required".to_owned());
    }
    check_urls(&config)?;
    check_supported(&config)?;
    if let Some(schema) = &config.claim_schema {
        let compiled = UserSchema::compile(&Value::Object(schema.clone()));
        compiled.map_err(|reason| format!("check claim_schema failed: {reason}"))?;
    }
    check_methods(&config)?;
    check_assertion(&config)
}

/// Whether the client can authenticate in the flow that the configuration selects.
fn has_credential(config: &OpenidConnectConfig) -> bool {
    let is_optional = if config.bearer_only {
        config.verifies_bearer() || config.introspection_endpoint_auth_method == "private_key_jwt"
    } else {
        config.token_endpoint_auth_method == "private_key_jwt" || config.use_pkce
    };
    is_optional || config.client_secret.is_some()
}

fn check_urls(config: &OpenidConnectConfig) -> Result<(), String> {
    let par = config.par.as_ref().and_then(|par| par.endpoint.as_deref());
    let called = [
        ("discovery", Some(&*config.discovery)),
        ("introspection_endpoint", config.introspection_endpoint.as_deref()),
        ("par.endpoint", par),
    ];
    for (field, url) in called {
        if let Some(url) = url.filter(|url| !is_reference(url)) {
            check_uri(url).map_err(|reason| format!("{field}: {reason}"))?;
        }
    }
    let redirect = config.redirect_uri.as_deref().filter(|uri| !is_reference(uri));
    if redirect.is_some_and(|uri| !uri.starts_with('/') && check_uri(uri).is_err()) {
        return Err("redirect_uri: write a path or an absolute http or https URL".to_owned());
    }
    if !config.logout_path.starts_with('/') {
        return Err("logout_path: a path begins with a slash".to_owned());
    }
    Ok(())
}

/// Refuses features that this gateway does not have.
fn check_supported(config: &OpenidConnectConfig) -> Result<(), String> {
    if config.dpop.as_ref().is_some_and(|dpop| dpop.enabled) {
        return Err("dpop.enabled: proofs of possession are not supported; set it to false".to_owned());
    }
    let proxy = config.proxy_opts.as_ref();
    if proxy.is_some_and(|proxy| proxy.http_proxy.is_some() || proxy.https_proxy.is_some()) {
        return Err("proxy_opts: calls through a proxy are not supported; the provider has to be \
                    reachable directly"
            .to_owned());
    }
    let session = config.session.as_ref().filter(|session| session.storage == Storage::Redis);
    match session.map(|session| session.redis.as_ref()) {
        Some(None) => {
            Err("session.redis: the storage redis needs a server; write an object with its host".to_owned())
        }
        Some(Some(redis)) if redis.server_name.is_some() => Err(
            "session.redis.server_name: another name than that of the host is not supported; write it as \
             session.redis.host"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// The ways in which a client authenticates, with the field of the credential that each needs.
const METHODS: [(&str, Option<&str>); 4] = [
    ("client_secret_basic", None),
    ("client_secret_post", None),
    ("private_key_jwt", Some("client_rsa_private_key")),
    ("client_secret_jwt", Some("client_secret")),
];

fn has(config: &OpenidConnectConfig, credential: &str) -> bool {
    match credential {
        "client_rsa_private_key" => config.client_rsa_private_key.is_some(),
        _ => config.client_secret.is_some(),
    }
}

fn check_methods(config: &OpenidConnectConfig) -> Result<(), String> {
    let written = [
        ("token_endpoint_auth_method", &config.token_endpoint_auth_method),
        ("introspection_endpoint_auth_method", &config.introspection_endpoint_auth_method),
    ];
    for (field, method) in written {
        if !is_reference(method) && !METHODS.iter().any(|(name, _)| name == method) {
            let known = METHODS.map(|(name, _)| name).join(", ");
            return Err(format!("{field}: {method} is none of {known}"));
        }
    }
    for (field, method) in reachable(config) {
        let credential = METHODS.iter().find(|(name, _)| *name == method).and_then(|(_, needs)| *needs);
        if let Some(credential) = credential.filter(|credential| !has(config, credential)) {
            return Err(format!("property \"{field}\" \"{method}\" requires \"{credential}\""));
        }
    }
    Ok(())
}

/// The endpoints that the configuration can reach: the field that selects the method, and the method.
fn reachable(config: &OpenidConnectConfig) -> Vec<(&'static str, &str)> {
    let mut reachable = Vec::new();
    if !config.verifies_bearer() && config.takes_bearer() {
        let method = &*config.introspection_endpoint_auth_method;
        reachable.push(("introspection_endpoint_auth_method", method));
    }
    if !config.bearer_only {
        reachable.push(("token_endpoint_auth_method", &*config.token_endpoint_auth_method));
        let par = config.par.as_ref().filter(|par| par.enabled);
        if let Some(method) = par.and_then(|par| par.endpoint_auth_method.as_deref()) {
            reachable.push(("par.endpoint_auth_method", method));
        }
    }
    reachable
}

/// Client assertions: one algorithm for all endpoints, which has to fit the methods and the key.
fn check_assertion(config: &OpenidConnectConfig) -> Result<(), String> {
    let reachable = reachable(config);
    let selects = |method: &str| reachable.iter().find(|(_, own)| *own == method).map(|(field, _)| *field);
    let (asymmetric, symmetric) = (selects("private_key_jwt"), selects("client_secret_jwt"));
    if let Some(algorithm) = config.client_jwt_assertion_alg {
        let name = algorithm.word();
        if let (Some(asymmetric), Some(symmetric)) = (asymmetric, symmetric) {
            return Err(format!(
                "property \"client_jwt_assertion_alg\" is a single algorithm, but \"{asymmetric}\" selects \
                 private_key_jwt and \"{symmetric}\" selects client_secret_jwt"
            ));
        }
        if let Some(field) = asymmetric.filter(|_| algorithm.is_symmetric()) {
            return Err(format!(
                "property \"client_jwt_assertion_alg\" \"{name}\" is symmetric and cannot be used with the \
                 private_key_jwt selected by \"{field}\""
            ));
        }
        if let Some(field) = symmetric.filter(|_| !algorithm.is_symmetric()) {
            return Err(format!(
                "property \"client_jwt_assertion_alg\" \"{name}\" is asymmetric and cannot be used with the \
                 client_secret_jwt selected by \"{field}\""
            ));
        }
    }
    let key = config.client_rsa_private_key.as_deref().filter(|key| !is_reference(key));
    match key.filter(|_| asymmetric.is_some()) {
        Some(key) => {
            let algorithm = config.client_jwt_assertion_alg.unwrap_or(AssertionAlgorithm::Rs256);
            SigningKey::from_pem(algorithm, key).map(drop)
        }
        None => Ok(()),
    }
}
