//! The parts of the provider's tokens that a login keeps, and the claims of a token without a check of its
//! signature.

use data_encoding::BASE64URL_NOPAD;
use jsonx::{Bounds, Exact};
use serde_json::Value;

use super::OpenidConnect;
use super::session::SessionLogin;
use super::settings::{OpenidConnectConfig, SessionContents};

/// The lifetime of an access token where neither the provider nor the configuration says one, in seconds.
const ACCESS_TOKEN_SECONDS: u64 = 3_600;

/// The parts of a login that the session holds.
pub(super) struct Stores {
    pub(super) access_token: bool,
    pub(super) id_token: bool,
    pub(super) raw_id_token: bool,
    pub(super) user: bool,
}

impl Stores {
    pub(super) fn of(config: &OpenidConnectConfig) -> Stores {
        let all = SessionContents { access_token: true, id_token: true, enc_id_token: true, user: true };
        let contents = config.session_contents.as_ref().unwrap_or(&all);
        Stores {
            // The scopes of a session are read from its access token.
            access_token: contents.access_token || config.required_scopes.is_some(),
            id_token: contents.id_token,
            raw_id_token: contents.enc_id_token || config.set_raw_id_token_header,
            user: contents.user,
        }
    }
}

impl OpenidConnect {
    /// Takes the tokens of an answer of the token endpoint, which was asked at `asked_s`, into a login.
    /// `claims` are those of its ID token, which was checked.
    pub(super) fn store_tokens(
        &self,
        login: &mut SessionLogin,
        tokens: &Value,
        claims: Option<Exact>,
        asked_s: u64,
    ) {
        let text = |name: &str| tokens[name].as_str().map(str::to_owned);
        if self.stores.access_token {
            login.access_token = text("access_token");
            login.expires_s = asked_s.saturating_add(self.lifetime_s(&tokens["expires_in"]));
            if let Some(token) = text("refresh_token") {
                login.refresh_token = Some(token);
            }
        }
        if let Some(claims) = claims {
            if self.stores.raw_id_token {
                login.raw_id_token = text("id_token");
            }
            // The signed token holds the claims as well: once is enough in a cookie.
            login.id_token = (self.stores.id_token && !self.stores.raw_id_token).then_some(claims);
        }
    }

    /// The seconds that an access token counts as valid. One is taken off for the way.
    fn lifetime_s(&self, expires_in: &Value) -> u64 {
        let said = expires_in.as_u64().or_else(|| expires_in.as_str()?.parse().ok());
        let lifetime_s = said.or(self.config.access_token_expires_in).unwrap_or(ACCESS_TOKEN_SECONDS);
        lifetime_s.saturating_sub(1).saturating_sub(self.config.access_token_expires_leeway)
    }
}

/// The claims of a token in compact form, without a check; none for another kind of token.
pub(super) fn claims_of(raw: &str) -> Option<Exact> {
    let mut segments = raw.split('.');
    let (_, claims, _, None) = (segments.next()?, segments.next()?, segments.next()?, segments.next()) else {
        return None;
    };
    let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?;
    Exact::parse(&claims, Bounds::SMALL).ok().filter(|claims| claims.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_keep_their_digits() {
        let claims = r#"{"sub":"7","uid":18446744073709551616,"l":[9007199254740993,1.50]}"#;
        let token = format!("e30.{}.x", BASE64URL_NOPAD.encode(claims.as_bytes()));
        assert_eq!(claims_of(&token).unwrap().text(), claims);
        for other in ["opaque", "e30.W10.x", "e30.e30.x.y"] {
            assert!(claims_of(other).is_none(), "{other}");
        }
    }
}
