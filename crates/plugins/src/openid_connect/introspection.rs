//! Introspection of bearer tokens (RFC 7662), with a table of the tokens that the provider has called active.
//! The table is shared by all workers, outlives configuration changes and is limited.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use exchange::Exchange;
use exchange::plugin::Build;
use jsonx::Exact;
use parking_lot::Mutex;
use serde_json::Value;

use super::OpenidConnect;
use super::bearer::TokenRefusal;
use super::provider::ProviderEndpoint;

/// The most tokens in the table.
const TOKENS_MAX: usize = 16_384;
/// The most bytes of answers in the table, as the provider has sent them.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest time that a token is in the table, in seconds, whatever the provider says.
const KEPT_SECONDS_MAX: u64 = 86_400;

/// See the module.
#[derive(Default)]
pub(super) struct Introspections(Mutex<IntrospectionTable>);

#[derive(Default)]
struct IntrospectionTable {
    tokens: HashMap<[u8; 32], ActiveToken>,
    bytes: usize,
}

struct ActiveToken {
    claims: Arc<Exact>,
    bytes: usize,
    until_s: u64,
}

impl Introspections {
    /// The table of the process.
    pub(super) fn keep(build: &Build<'_>) -> Arc<Introspections> {
        build.states.keep("openid-connect/introspections", Introspections::default)
    }

    fn find(&self, key: &[u8; 32], now_s: u64) -> Option<Arc<Exact>> {
        let table = self.0.lock();
        table.tokens.get(key).filter(|active| active.until_s > now_s).map(|active| active.claims.clone())
    }

    fn add(&self, key: [u8; 32], claims: Arc<Exact>, bytes: usize, until_s: u64, now_s: u64) {
        if bytes > BYTES_MAX / 64 {
            return;
        }
        let mut table = self.0.lock();
        if table.tokens.len() >= TOKENS_MAX || table.bytes + bytes > BYTES_MAX {
            table.tokens.retain(|_, active| active.until_s > now_s);
            table.bytes = table.tokens.values().map(|active| active.bytes).sum();
        }
        // Full of valid tokens: it begins anew, which costs one call for each of them.
        if table.tokens.len() >= TOKENS_MAX || table.bytes + bytes > BYTES_MAX {
            *table = IntrospectionTable::default();
        }
        table.bytes += bytes;
        if let Some(before) = table.tokens.insert(key, ActiveToken { claims, bytes, until_s }) {
            table.bytes -= before.bytes;
        }
    }
}

impl OpenidConnect {
    /// The provider's claims about a bearer token that is active.
    ///
    /// # Errors
    /// The token is not active, or the provider cannot be asked.
    pub(super) async fn introspect(
        &self,
        exchange: &Exchange,
        token: &str,
    ) -> Result<Arc<Exact>, TokenRefusal> {
        let local = exchange.local().clone();
        let (now_s, _) = local.wall_at(local.clock_ns());
        let fields = self.addon_fields(exchange);
        let key = self.introspection_key(token, &fields);
        if let Some(claims) = self.introspections.find(&key, now_s) {
            return Ok(claims);
        }
        let unavailable = |reason: String| TokenRefusal::kept(reason, "token introspection unavailable");
        let discovered;
        let endpoint: &ProviderEndpoint = match &self.introspection_endpoint {
            Some(endpoint) => endpoint,
            None => {
                discovered =
                    self.provider.discovery(&local, &self.client.calls).await.map_err(unavailable)?;
                let missing = || unavailable("no endpoint URI for introspection".to_owned());
                discovered.introspection.as_ref().ok_or_else(missing)?
            }
        };
        let form = vec![("token".into(), token.to_owned())];
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let method = &self.config.introspection_endpoint_auth_method;
        let answer = self.client.post(&local, endpoint, method, form, &fields).await.map_err(unavailable)?;
        let claims: Exact = crate::shared::api_call::parse_json_response(&answer, &endpoint.destination)
            .map_err(unavailable)?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(TokenRefusal::shown("invalid token"));
        }
        let claims = Arc::new(claims);
        if let Some(kept_s) = self.kept_seconds(&claims, now_s) {
            self.introspections.add(key, claims.clone(), answer.body.len(), now_s + kept_s, now_s);
        }
        Ok(claims)
    }

    /// How long an answer is kept: until the token expires, or for `introspection_interval` if that is less.
    /// None without the claim that says when it expires.
    fn kept_seconds(&self, claims: &Value, now_s: u64) -> Option<u64> {
        let name = self.config.introspection_expiry_claim.as_deref().unwrap_or("exp");
        let written = claims.get(name)?.as_f64()?;
        // `exp` is a time (RFC 7662 section 2.2); another claim is a number of seconds.
        let left = if name == "exp" { written - now_s as f64 } else { written };
        let interval = self.config.introspection_interval;
        let kept_s = if interval > 0 { left.min(interval as f64) } else { left };
        (kept_s >= 1.0).then(|| (kept_s as u64).min(KEPT_SECONDS_MAX))
    }

    /// The fields of the request that the endpoint receives.
    fn addon_fields(&self, exchange: &Exchange) -> Vec<(String, String)> {
        let names = self.config.introspection_addon_headers.iter().flatten();
        let found = names.filter_map(|name| {
            let value = exchange.request.headers.get(name)?;
            Some((name.clone(), str::from_utf8(value).ok()?.to_owned()))
        });
        found.collect()
    }

    /// The hash of all that an answer depends on: token, endpoint, client, and the fields that were sent
    /// along.
    fn introspection_key(&self, token: &str, fields: &[(String, String)]) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        let endpoint =
            self.introspection_endpoint.as_ref().map_or(&*self.config.discovery, ProviderEndpoint::url);
        let segment = self.config.cache_segment.as_deref().unwrap_or("DEFAULT");
        let parts = fields.iter().flat_map(|(name, value)| [&**name, &**value]);
        for part in [segment, endpoint, &self.client.id, token].into_iter().chain(parts) {
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_forgets_expired_tokens_and_is_limited() {
        let table = Introspections::default();
        let claims = Arc::new(Exact::from(Value::Null));
        table.add([1; 32], claims.clone(), 10, 100, 50);
        assert!(table.find(&[1; 32], 99).is_some());
        assert!(table.find(&[1; 32], 100).is_none());
        table.add([2; 32], claims.clone(), BYTES_MAX, 100, 50);
        assert!(table.find(&[2; 32], 51).is_none(), "an answer that would fill the table is not kept");
        for number in 0..=TOKENS_MAX {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            table.add(key, claims.clone(), 10, 1_000, 200);
        }
        let held = table.0.lock();
        assert!(held.tokens.len() <= TOKENS_MAX);
        assert_eq!(held.bytes, held.tokens.len() * 10);
    }
}
