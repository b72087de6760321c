//! A consumer's key for `jwt-auth`: its schema, its check, and its compiled form.

use std::any::Any;
use std::sync::Arc;

use data_encoding::{BASE64, BASE64_NOPAD};
use serde_json::{Value, json};

use crate::shared::attributes::Attribute;
use crate::shared::config::is_reference;
use crate::shared::jwt::{JwtAlgorithm, VerifyingKey};

/// The key that verifies a consumer's tokens.
pub(super) struct Credential {
    pub(super) key: VerifyingKey,
    /// `lifetime_grace_period`, in seconds.
    pub(super) leeway_s: u64,
}

/// The schema as APISIX has it, with `public_key` among the properties.
pub(super) fn schema() -> Value {
    let names = |symmetric: bool| -> Vec<&str> {
        let wanted = |algorithm: &JwtAlgorithm| algorithm.is_symmetric() == symmetric;
        JwtAlgorithm::ALL.into_iter().filter(wanted).map(JwtAlgorithm::word).collect()
    };
    let mut algorithm = JwtAlgorithm::schema();
    algorithm["default"] = "HS256".into();
    algorithm["description"] = "The algorithm that the consumer's tokens must name.".into();
    json!({
        "type": "object",
        "title": "A consumer's key for signed tokens",
        "properties": {
            "key": {
                "type": "string",
                "minLength": 1,
                "description": "The value of the claim key_claim_name. No two consumers may have the same."
            },
            "secret": { "type": "string", "minLength": 1, "description": "The secret of HS256, HS384 and HS512." },
            "public_key": {
                "type": "string",
                "minLength": 1,
                "description": "The key of the other algorithms: PEM of a public key or certificate, or a JWK."
            },
            "algorithm": algorithm,
            "exp": {
                "type": "integer",
                "minimum": 1,
                "default": 86400,
                "description": "Accepted for compatibility; Weir issues no tokens."
            },
            "base64_secret": { "type": "boolean", "default": false, "description": "The secret is base64." },
            "lifetime_grace_period": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "Seconds that the clocks of issuer and gateway may be apart."
            }
        },
        "dependencies": {
            "algorithm": {
                "oneOf": [
                    { "properties": { "algorithm": { "enum": names(true), "default": "HS256" } } },
                    {
                        "properties": {
                            "public_key": { "type": "string", "minLength": 1 },
                            "algorithm": { "enum": names(false) }
                        },
                        "required": ["public_key"]
                    }
                ]
            }
        },
        "encrypt_fields": ["secret"],
        "required": ["key"]
    })
}

/// Checks a configuration that the schema accepts. A reference to a secret is checked when it is resolved.
pub(super) fn check(config: &Value) -> Result<(), String> {
    let text = |name: &str| config.get(name).and_then(Value::as_str);
    let is_open = ["secret", "public_key"].into_iter().filter_map(text).any(is_reference);
    let key = read_key(config);
    if is_open { Ok(()) } else { key.map(drop) }
}

/// Compiles a configuration for use at each request.
pub(super) fn compile_jwt_credential(config: &Value) -> Result<Arc<dyn Any + Send + Sync>, String> {
    let leeway_s = config.get("lifetime_grace_period").and_then(Value::as_u64).unwrap_or_default();
    Ok(Arc::new(Credential { key: read_key(config)?, leeway_s }))
}

fn read_key(config: &Value) -> Result<VerifyingKey, String> {
    let text = |name: &str| config.get(name).and_then(Value::as_str);
    let algorithm = match config.get("algorithm") {
        None => JwtAlgorithm::Hs256,
        Some(written) => {
            JwtAlgorithm::read(written.clone()).map_err(|reason| format!("algorithm: {reason}"))?
        }
    };
    if !algorithm.is_symmetric() {
        let public_key = text("public_key").ok_or("missing valid public key")?;
        return VerifyingKey::from_text(algorithm, public_key)
            .map_err(|reason| format!("public_key: {reason}"));
    }
    let secret =
        text("secret").ok_or("property \"secret\" is required when using HS based algorithms")?.as_bytes();
    let key = if config.get("base64_secret").and_then(Value::as_bool).unwrap_or_default() {
        let decoded = BASE64.decode(secret).or_else(|_| BASE64_NOPAD.decode(secret));
        let decoded = decoded.map_err(|_| "base64_secret required but the secret is not in base64 format")?;
        VerifyingKey::from_secret(algorithm, &decoded)
    } else {
        VerifyingKey::from_secret(algorithm, secret)
    };
    key.map_err(|reason| format!("secret: {reason}"))
}
