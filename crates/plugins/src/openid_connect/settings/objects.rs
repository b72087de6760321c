//! The objects inside the settings: session, claims, PAR, DPoP and the proxy.

use serde_json::{Map, Value};

use crate::shared::attributes::{attributes, words};

attributes! {
    pub(in super::super) struct SessionSettings {
        /// The key that encrypts the session; instances and routes that share it share sessions.
        secret: String, { "minLength": 16 };
        /// The name of the session cookie.
        cookie_name: Option<String>, { "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" };
        /// The path that the cookie is sent for.
        cookie_path: Option<String>, { "pattern": "^/[ !-:<-~]*$" };
        /// The domain that the cookie is sent to.
        cookie_domain: Option<String>, { "pattern": "^[0-9A-Za-z.-]+$" };
        /// Whether the cookie is sent over TLS only; without it, where the request came over TLS.
        cookie_secure: Option<bool>;
        /// Whether scripts are kept from the cookie.
        cookie_http_only: Option<bool>;
        /// When the cookie is sent with requests from other sites.
        cookie_same_site: Option<SameSite>;
        /// Seconds without a request after which a session ends; 0 for never, 900 without it.
        idling_timeout: Option<u64>;
        /// Seconds after which a session that was not written anew ends; 0 for never, 3600 without it.
        rolling_timeout: Option<u64>;
        /// Seconds after which a session ends in any case; 0 for never, 86400 without it.
        absolute_timeout: Option<u64>;
        /// The older form of `absolute_timeout`.
        cookie: Option<LegacyCookie>;
        /// Where sessions are kept.
        storage: Storage = Storage::Cookie;
        /// The Redis server, for the storage redis.
        redis: Option<SessionRedisSettings>;
    }
    { "additionalProperties": false }
}

words! {
    pub(in super::super) enum SameSite {
        Strict = "Strict",
        Lax = "Lax",
        None = "None",
        Default = "Default",
    }
}

words! {
    pub(in super::super) enum Storage {
        Cookie = "cookie",
        Redis = "redis",
    }
}

attributes! {
    pub(in super::super) struct LegacyCookie {
        /// Seconds after which a session ends; `absolute_timeout` takes its place.
        lifetime: Option<u64>;
    }
}

attributes! {
    pub(in super::super) struct SessionRedisSettings {
        /// The host.
        host: String = "127.0.0.1".to_owned(), { "minLength": 2 };
        /// The port.
        port: u16 = 6379, { "minimum": 1 };
        /// The user.
        username: Option<String>, { "minLength": 1 };
        /// The password.
        password: Option<String>, { "minLength": 0 };
        /// The number of the database.
        database: u32 = 0, { "minimum": 0 };
        /// The beginning of the keys.
        prefix: String = "sessions".to_owned();
        /// Whether connections use TLS.
        ssl: bool = false;
        /// Whether the server's certificate is verified.
        ssl_verify: bool = true;
        /// The name that the server's certificate has to be valid for.
        server_name: Option<String>;
        /// Milliseconds to connect.
        connect_timeout: u64 = 1_000, { "minimum": 1 };
        /// Milliseconds to send.
        send_timeout: u64 = 1_000, { "minimum": 1 };
        /// Milliseconds to read.
        read_timeout: u64 = 1_000, { "minimum": 1 };
        /// Milliseconds that a connection is kept without use.
        keepalive_timeout: u64 = 10_000, { "minimum": 1_000 };
    }
}

attributes! {
    pub(in super::super) struct ClaimValidator {
        /// The issuers of bearer tokens.
        issuer: Option<IssuerRules>;
        /// The audience of bearer tokens.
        audience: Option<AudienceRules>;
    }
}

attributes! {
    pub(in super::super) struct IssuerRules {
        /// The issuers that are trusted; without it, the one of the discovery document.
        valid_issuers: Option<Vec<String>>;
    }
}

attributes! {
    pub(in super::super) struct AudienceRules {
        /// The claim that names the audience.
        claim: String = "aud".to_owned();
        /// Whether the claim must be there.
        required: bool = false;
        /// Whether the claim must be the client's identifier, or a list that has it.
        match_with_client_id: bool = false;
    }
}

attributes! {
    pub(in super::super) struct Par {
        /// Whether the parameters are sent to the provider before the browser is.
        enabled: bool = false;
        /// The URL of the endpoint; without it, that of the discovery document.
        endpoint: Option<String>;
        /// How the client authenticates there; without it, as at the token endpoint.
        endpoint_auth_method: Option<String>, {
            "enum": ["client_secret_basic", "client_secret_post", "private_key_jwt", "client_secret_jwt"],
        };
    }
    { "additionalProperties": false }
}

attributes! {
    pub(in super::super) struct Dpop {
        /// Whether tokens are bound to a key.
        enabled: bool = false;
        /// The algorithm of the proofs.
        signing_alg: String = "ES256".to_owned(), { "enum": ["ES256", "RS256", "PS256"] };
        /// The private key, in PEM.
        private_key: Option<String>, { "minLength": 1 };
        /// The public key that belongs to it, as a JWK.
        public_jwk: Option<Map<String, Value>>, {
            "not": { "anyOf": [
                { "required": ["d"] }, { "required": ["p"] }, { "required": ["q"] }, { "required": ["dp"] },
                { "required": ["dq"] }, { "required": ["qi"] }, { "required": ["oth"] }, { "required": ["k"] },
            ] },
        };
    }
    { "additionalProperties": false }
}

attributes! {
    pub(in super::super) struct ProxyOptions {
        /// The proxy for http URLs.
        http_proxy: Option<String>;
        /// The proxy for https URLs.
        https_proxy: Option<String>;
        /// The credentials for it, as Proxy-Authorization has them.
        http_proxy_authorization: Option<String>;
        /// The credentials for it, as Proxy-Authorization has them.
        https_proxy_authorization: Option<String>;
        /// Hosts that are called without a proxy, separated by commas.
        no_proxy: Option<String>;
    }
}

attributes! {
    pub(in super::super) struct SessionContents {
        /// Whether the session holds the access token, and the refresh token with it.
        access_token: bool = false;
        /// Whether the session holds the claims of the ID token.
        id_token: bool = false;
        /// Whether the session holds the signed ID token.
        enc_id_token: bool = false;
        /// Whether the session holds the user's data.
        user: bool = false;
    }
}
