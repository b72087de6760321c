//! The settings: the schema and the fields, as in APISIX. The rules that a schema cannot express are in
//! [`check`].

pub(super) mod check;
pub(super) mod objects;

use serde_json::{Map, Value};

use crate::shared::attributes::{attributes, words};
pub(super) use objects::{ClaimValidator, Dpop, Par, ProxyOptions, SessionContents, SessionSettings};

attributes! {
    pub(super) struct OpenidConnectConfig {
        /// The identifier of the client at the provider.
        client_id: String, { "minLength": 1 };
        /// The secret of the client at the provider.
        client_secret: Option<String>, { "minLength": 1 };
        /// The URL of the provider's discovery document.
        discovery: String;
        /// The scopes that are asked for, separated by spaces.
        scope: String = "openid".to_owned();
        /// Whether the certificates of the provider are verified.
        ssl_verify: bool = true;
        /// Seconds for a whole call to the provider; a multiple of 1000 counts as milliseconds.
        timeout: u64 = 3, { "minimum": 1 };
        /// The URL of the introspection endpoint; without it, that of the discovery document.
        introspection_endpoint: Option<String>;
        /// How the client authenticates at the introspection endpoint.
        introspection_endpoint_auth_method: String = "client_secret_basic".to_owned();
        /// How the client authenticates at the token endpoint.
        token_endpoint_auth_method: String = "client_secret_basic".to_owned();
        /// Accepts requests with a bearer token only, and sends no browser to the provider.
        bearer_only: bool = false;
        /// The session of a browser.
        session: Option<SessionSettings>;
        /// The realm that WWW-Authenticate names.
        realm: String = "apisix".to_owned(), { "pattern": "^[^\"\\\\\\x00-\\x1f\\x7f]*$" };
        /// Further rules for the claims of a bearer token.
        claim_validator: Option<ClaimValidator>;
        /// The path that ends a session.
        logout_path: String = "/logout".to_owned();
        /// Where the provider sends browsers back to: a path or a URL; without it, the path of the request
        /// and `/.apisix/redirect`.
        redirect_uri: Option<String>;
        /// Where the provider sends browsers to after the logout.
        post_logout_redirect_uri: Option<String>;
        /// The treatment of a request without a token or session: auth sends the browser to the provider,
        /// deny answers 401, pass forwards the request.
        unauth_action: UnauthAction = UnauthAction::Auth;
        /// The key, in PEM, that verifies bearer tokens.
        public_key: Option<String>;
        /// Verifies bearer tokens with the keys of the provider, where `public_key` is not set.
        use_jwks: bool = false;
        /// The only algorithm that bearer tokens may be signed with.
        token_signing_alg_values_expected: Option<String>;
        /// Uses PKCE with S256 in the authorization code flow.
        use_pkce: bool = false;
        /// Pushed authorization requests (RFC 9126).
        par: Option<Par>;
        /// Proofs of possession (RFC 9449).
        dpop: Option<Dpop>;
        /// Whether the upstream receives the access token.
        set_access_token_header: bool = true;
        /// Sends the access token in Authorization in place of X-Access-Token.
        access_token_in_authorization_header: bool = false;
        /// Whether the upstream receives the claims of the ID token in X-ID-Token.
        set_id_token_header: bool = true;
        /// Whether the upstream receives the signed ID token in X-Raw-ID-Token.
        set_raw_id_token_header: bool = false;
        /// Whether the upstream receives the user's data in X-Userinfo.
        set_userinfo_header: bool = true;
        /// Whether the upstream receives the refresh token in X-Refresh-Token.
        set_refresh_token_header: bool = false;
        /// The proxy in front of the provider.
        proxy_opts: Option<ProxyOptions>;
        /// Further parameters of the authorization request.
        authorization_params: Option<Map<String, Value>>;
        /// The private key of the client, in PEM, for private_key_jwt.
        client_rsa_private_key: Option<String>, { "minLength": 1 };
        /// The identifier of that key, which assertions name as kid.
        client_rsa_private_key_id: Option<String>;
        /// Seconds that a client assertion is valid.
        client_jwt_assertion_expires_in: u64 = 60;
        /// The algorithm that signs client assertions.
        client_jwt_assertion_alg: Option<AssertionAlgorithm>;
        /// The audience of client assertions; without it, the URL of the endpoint that is called.
        client_jwt_assertion_audience: Option<String>;
        /// Renews an expired access token with the refresh token.
        renew_access_token_on_expiry: bool = true;
        /// Seconds that an access token is valid where the provider does not say.
        access_token_expires_in: Option<u64>;
        /// Seconds after which a session is renewed at the provider, without asking the user.
        refresh_session_interval: Option<u64>;
        /// Seconds that the clocks of the provider and of this gateway may be apart.
        iat_slack: u64 = 120;
        /// Accepts ID tokens and bearer tokens with the algorithm none, which proves nothing about their
        /// origin.
        accept_none_alg: bool = false;
        /// Accepts an ID token of the token endpoint with an algorithm that is not supported, without its
        /// signature.
        accept_unsupported_alg: bool = true;
        /// Seconds before its end at which an access token counts as expired.
        access_token_expires_leeway: u64 = 0;
        /// Sends every browser to the provider, one with a session too.
        force_reauthorize: bool = false;
        /// Binds the ID token to the browser by a nonce.
        use_nonce: bool = false;
        /// Revokes the tokens of a session at its logout.
        revoke_tokens_on_logout: bool = false;
        /// Seconds that the keys of the provider are kept.
        jwk_expires_in: u64 = 86_400, { "minimum": 1 };
        /// Accepted for APISIX's sake; the claims of a token are checked at every request in any case.
        jwt_verification_cache_ignore: bool = false;
        /// A name that separates cached introspections from those of other routes.
        cache_segment: Option<String>;
        /// The most seconds that an introspection is kept; 0 keeps it until the token expires.
        introspection_interval: u64 = 0;
        /// The member of an introspection that says when the token expires.
        introspection_expiry_claim: Option<String>;
        /// Fields of the request that are sent along to the introspection endpoint.
        introspection_addon_headers: Option<Vec<String>>, {
            "minItems": 1, "items": { "type": "string", "pattern": "^[^:]+$" },
        };
        /// The scopes that an access token must have.
        required_scopes: Option<Vec<String>>;
        /// A JSON Schema that the claims of a bearer token, or the contents of a session, must fulfil.
        claim_schema: Option<Map<String, Value>>;
        /// The parts of a login that the session holds; without it, all of them.
        session_contents: Option<SessionContents>;
    }
    {
        "title": "Authenticate with an OpenID provider",
        "encrypt_fields": [
            "client_secret", "client_rsa_private_key", "dpop.private_key", "session.secret", "session.redis.password",
        ],
        "moved_fields": {
            "use_par": "par.enabled",
            "pushed_authorization_request_endpoint": "par.endpoint",
            "pushed_authorization_request_endpoint_auth_method": "par.endpoint_auth_method",
            "use_dpop": "dpop.enabled",
            "dpop_signing_alg": "dpop.signing_alg",
            "dpop_private_key": "dpop.private_key",
            "dpop_public_jwk": "dpop.public_jwk",
        },
    }
}

words! {
    pub(super) enum UnauthAction {
        Auth = "auth",
        Deny = "deny",
        Pass = "pass",
    }
}

words! {
    pub(super) enum AssertionAlgorithm {
        Hs256 = "HS256",
        Hs512 = "HS512",
        Rs256 = "RS256",
        Rs512 = "RS512",
        Es256 = "ES256",
        Es512 = "ES512",
    }
}

impl AssertionAlgorithm {
    /// Whether the client secret signs.
    pub(super) fn is_symmetric(self) -> bool {
        matches!(self, AssertionAlgorithm::Hs256 | AssertionAlgorithm::Hs512)
    }
}

impl OpenidConnectConfig {
    /// The time of a whole call, in milliseconds.
    pub(super) fn timeout_ms(&self) -> u64 {
        let is_ms = self.timeout >= 1_000 && self.timeout.is_multiple_of(1_000);
        let ms = if is_ms { self.timeout } else { self.timeout.saturating_mul(1_000) };
        ms.min(TIMEOUT_MS_MAX)
    }

    /// Whether bearer tokens are looked at.
    pub(super) fn takes_bearer(&self) -> bool {
        self.bearer_only || self.introspection_endpoint.is_some() || self.verifies_bearer()
    }

    /// Whether bearer tokens are verified here, without a call for each.
    pub(super) fn verifies_bearer(&self) -> bool {
        self.public_key.is_some() || self.use_jwks
    }
}

/// The longest call, below the time that a plugin may wait in a phase.
const TIMEOUT_MS_MAX: u64 = 50_000;
