//! Checks of registered claims (RFC 7519 section 4.1). A claim that is there is always checked; rules say
//! which must be there.

use serde_json::{Map, Value};

use super::token::TokenFault;
use crate::shared::attributes::words;

words! {
    /// A claim that bounds the time of a token.
    pub(crate) enum TimeClaim {
        Exp = "exp",
        Nbf = "nbf",
    }
}

/// The rules that the claims of a token have to fulfil.
#[derive(Clone, Copy, Default)]
pub(crate) struct ClaimRules<'r> {
    /// Time claims that must be there.
    pub(crate) required: &'r [TimeClaim],
    /// How far the clocks of issuer and gateway may be apart, in seconds.
    pub(crate) leeway_s: u64,
    /// `iss` must be there and be one of these; empty: it is not looked at.
    pub(crate) issuers: &'r [String],
    /// `aud` must be there and name one of these; empty: it is not looked at.
    pub(crate) audiences: &'r [String],
}

impl ClaimRules<'_> {
    /// Checks `claims` at `now_s` seconds since the Unix epoch.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self, claims: &Map<String, Value>, now_s: u64) -> Result<(), TokenFault> {
        let (now, leeway) = (now_s as f64, self.leeway_s as f64);
        if let Some(until) = self.time(claims, TimeClaim::Exp)?
            && until <= now - leeway
        {
            return Err(TokenFault::Expired);
        }
        if let Some(from) = self.time(claims, TimeClaim::Nbf)?
            && from > now + leeway
        {
            return Err(TokenFault::NotYet);
        }
        if !self.issuers.is_empty() {
            let issuer = claims.get("iss").ok_or(TokenFault::Missing("iss"))?;
            let issuer = issuer.as_str().ok_or(TokenFault::Type("iss"))?;
            if !self.issuers.iter().any(|expected| expected == issuer) {
                return Err(TokenFault::Issuer);
            }
        }
        if !self.audiences.is_empty() {
            self.check_audience(claims.get("aud").ok_or(TokenFault::Missing("aud"))?)?;
        }
        Ok(())
    }

    /// One audience or a list of them.
    fn check_audience(&self, written: &Value) -> Result<(), TokenFault> {
        let named = match written {
            Value::String(_) => std::slice::from_ref(written),
            Value::Array(named) => &**named,
            _ => return Err(TokenFault::Type("aud")),
        };
        let is_expected = |name: &Value| self.audiences.iter().any(|expected| name == expected.as_str());
        if named.iter().any(is_expected) { Ok(()) } else { Err(TokenFault::Audience) }
    }

    fn time(&self, claims: &Map<String, Value>, claim: TimeClaim) -> Result<Option<f64>, TokenFault> {
        match claims.get(claim.word()) {
            None if self.required.contains(&claim) => Err(TokenFault::Missing(claim.word())),
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(TokenFault::Type(claim.word())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(rules: ClaimRules<'_>, claims: Value, expected: Result<(), TokenFault>) {
        assert_eq!(rules.check(claims.as_object().unwrap(), 1_000), expected, "{claims}");
    }

    #[test]
    fn times_are_checked_where_they_are_present() {
        let rules = |leeway_s| ClaimRules { leeway_s, ..ClaimRules::default() };
        check(rules(0), json!({}), Ok(()));
        check(rules(0), json!({"exp": 1_001, "nbf": 1_000}), Ok(()));
        check(rules(0), json!({"exp": 1_000}), Err(TokenFault::Expired));
        check(rules(10), json!({"exp": 991.5}), Ok(()));
        check(rules(10), json!({"exp": 990}), Err(TokenFault::Expired));
        check(rules(0), json!({"nbf": 1_001}), Err(TokenFault::NotYet));
        check(rules(10), json!({"nbf": 1_010}), Ok(()));
        check(rules(10), json!({"nbf": 1_011}), Err(TokenFault::NotYet));
        check(rules(0), json!({"exp": "2000"}), Err(TokenFault::Type("exp")));
        check(rules(0), json!({"exp": null}), Err(TokenFault::Type("exp")));
        check(rules(0), json!({"exp": -5}), Err(TokenFault::Expired));
        check(rules(u64::MAX), json!({"exp": 1, "nbf": 1e300}), Err(TokenFault::NotYet));
    }

    #[test]
    fn required_times_must_be_there() {
        let rules = ClaimRules { required: &[TimeClaim::Exp, TimeClaim::Nbf], ..ClaimRules::default() };
        check(rules, json!({"exp": 2_000, "nbf": 1}), Ok(()));
        check(rules, json!({"nbf": 1}), Err(TokenFault::Missing("exp")));
        check(rules, json!({"exp": 2_000}), Err(TokenFault::Missing("nbf")));
    }

    #[test]
    fn issuer_and_audience_must_be_expected_ones() {
        let (issuers, audiences) = (["https://a".to_owned()], ["x".to_owned(), "y".to_owned()]);
        let rules = ClaimRules { issuers: &issuers, audiences: &audiences, ..ClaimRules::default() };
        check(rules, json!({"iss": "https://a", "aud": "y"}), Ok(()));
        check(rules, json!({"iss": "https://a", "aud": ["z", "x"]}), Ok(()));
        check(rules, json!({"aud": "x"}), Err(TokenFault::Missing("iss")));
        check(rules, json!({"iss": ["https://a"], "aud": "x"}), Err(TokenFault::Type("iss")));
        check(rules, json!({"iss": "https://a/", "aud": "x"}), Err(TokenFault::Issuer));
        check(rules, json!({"iss": "https://a"}), Err(TokenFault::Missing("aud")));
        check(rules, json!({"iss": "https://a", "aud": []}), Err(TokenFault::Audience));
        check(rules, json!({"iss": "https://a", "aud": ["z"]}), Err(TokenFault::Audience));
        check(rules, json!({"iss": "https://a", "aud": {"x": 1}}), Err(TokenFault::Type("aud")));
    }
}
