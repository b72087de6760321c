//! The ID token: its signature and its claims (OpenID Connect Core section 3.1.3.7). Errors name the claim
//! and hold no value.

use exchange::local::WorkerLocal;
use jsonx::Exact;
use serde_json::{Map, Value};

use super::OpenidConnect;
use super::keys::algorithm_of;
use super::provider::DiscoveryDocument;
use crate::shared::jwt::{JwtAlgorithm, VerifiedTokens};

impl OpenidConnect {
    /// The claims of an ID token of the token endpoint, after signature and claims were checked.
    ///
    /// # Errors
    /// Why the token is not accepted, a sentence for the log.
    pub(super) async fn id_token_claims(
        &self,
        local: &WorkerLocal,
        discovery: &DiscoveryDocument,
        raw: &str,
        nonce: Option<&str>,
    ) -> Result<Exact, String> {
        let verified = VerifiedTokens::of(local);
        let token =
            verified.read(raw.as_bytes()).map_err(|fault| format!("invalid jwt: {}", fault.reason()))?;
        let name = algorithm_of(raw).unwrap_or_default();
        let expected = discovery.id_token_algorithms.as_ref();
        match JwtAlgorithm::from_name(&name) {
            None if name == "none" && self.config.accept_none_alg => {}
            None if name == "none" => {
                return Err("token uses \"none\" alg but accept_none_alg is not enabled".to_owned());
            }
            _ if expected.is_some_and(|listed| !listed.contains(&name)) => {
                return Err(
                    "token is signed by an algorithm that the discovery document does not list".to_owned()
                );
            }
            None if self.config.accept_unsupported_alg => {}
            None => return Err("token is signed using an algorithm that is not supported".to_owned()),
            Some(algorithm) if algorithm.is_symmetric() => {
                let key = self.secret_keys.iter().find(|(own, _)| *own == algorithm);
                let (_, key) = key.ok_or("token is signed with HMAC and there is no client_secret")?;
                verified.verify(&token, raw.as_bytes(), key).map_err(|fault| unverified(&fault.reason()))?;
            }
            Some(_) => self.verify_with_keys(local, &token, raw).await?,
        }
        let (now_s, _) = local.wall_at(local.clock_ns());
        let rules = IdTokenRules {
            issuer: &discovery.issuer,
            client_id: &self.client.id,
            nonce,
            slack_s: self.config.iat_slack,
        };
        rules.check(&token.claims, now_s)?;
        Ok(Exact::from(&*token.exact))
    }
}

pub(super) fn unverified(reason: &str) -> String {
    format!("jwt signature verification failed: {reason}")
}

/// The rules for the claims of an ID token.
struct IdTokenRules<'r> {
    issuer: &'r str,
    client_id: &'r str,
    nonce: Option<&'r str>,
    slack_s: u64,
}

impl IdTokenRules<'_> {
    fn check(&self, claims: &Map<String, Value>, now_s: u64) -> Result<(), String> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let seconds = |name: &str| {
            let found = claims.get(name).and_then(Value::as_f64);
            found.ok_or_else(|| format!("no \"{name}\" claim found in id_token"))
        };
        if text("iss") != Some(self.issuer) {
            return Err(
                "issuer in id_token is not equal to the issuer from the discovery document".to_owned()
            );
        }
        if text("sub").is_none() {
            return Err("no \"sub\" claim found in id_token".to_owned());
        }
        if self.nonce.is_some() && text("nonce") != self.nonce {
            return Err("nonce in id_token is not equal to the nonce that was sent in the request".to_owned());
        }
        let (now, slack) = (now_s as f64, self.slack_s as f64);
        if seconds("iat")? > now + slack {
            return Err("id_token not yet valid".to_owned());
        }
        if seconds("exp")? + slack < now {
            return Err("token expired".to_owned());
        }
        match claims.get("aud") {
            None => Err("no \"aud\" claim found in id_token".to_owned()),
            Some(Value::Array(listed)) if listed.iter().any(|one| one == self.client_id) => Ok(()),
            Some(Value::String(one)) if one == self.client_id => Ok(()),
            Some(_) => Err("token audience does not match the client_id".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_checked() {
        let rules = IdTokenRules { issuer: "https://op", client_id: "gw", nonce: Some("n"), slack_s: 10 };
        let good =
            json!({"iss": "https://op", "sub": "1", "nonce": "n", "iat": 1_000, "exp": 1_100, "aud": "gw"});
        let check = |name: &str, value: Value, expected: Option<&str>| {
            let mut claims = good.as_object().unwrap().clone();
            if value.is_null() {
                claims.shift_remove(name);
            } else {
                claims.insert(name.to_owned(), value);
            }
            match (rules.check(&claims, 1_000), expected) {
                (Ok(()), None) => {}
                (Err(reason), Some(part)) => assert!(reason.contains(part), "{name}: {reason}"),
                (got, _) => panic!("{name}: {got:?}"),
            }
        };
        check("more", json!(1), None);
        check("iss", json!("https://op/"), Some("issuer"));
        check("iss", Value::Null, Some("issuer"));
        check("sub", Value::Null, Some("\"sub\""));
        check("nonce", json!("m"), Some("nonce"));
        check("nonce", Value::Null, Some("nonce"));
        check("iat", json!(1_010), None);
        check("iat", json!(1_011), Some("not yet valid"));
        check("iat", json!("1000"), Some("\"iat\""));
        check("exp", json!(990), None);
        check("exp", json!(989), Some("expired"));
        check("exp", Value::Null, Some("\"exp\""));
        check("aud", json!(["x", "gw"]), None);
        check("aud", json!(["x"]), Some("audience"));
        check("aud", json!("gw2"), Some("audience"));
        check("aud", json!(5), Some("audience"));
        check("aud", Value::Null, Some("\"aud\""));
    }
}
