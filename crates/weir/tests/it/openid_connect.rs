//! openid-connect through the real gateway, with real providers: oidc-provider of npm, and Keycloak.

mod bearer;
mod browser;
mod faults;
mod keycloak;
mod methods;
mod redis;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};
use testkit::{Browser, OpenidProvider, Origin, Page, Weir};

use crate::support::BINARY;

/// The gateway as browsers know it.
const APP: &str = "http://app.example";
const SECRET: &str = "s3cret-of-the-client-0123456789abcdef";

/// A gateway in front of an origin that echoes the request head.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY), origin: Origin::echoing() }
    }

    /// Puts a route for every path that authenticates with these settings beside the usual ones.
    fn route(&self, discovery: &str, more: Value) {
        let mut plugin = json!({
            "discovery": discovery, "client_id": "gw", "client_secret": SECRET, "scope": "openid email",
            "session": {"secret": "0123456789abcdef"}, "timeout": 10,
        });
        for (name, value) in more.as_object().unwrap() {
            if value.is_null() {
                plugin.as_object_mut().unwrap().remove(name);
            } else {
                plugin[name] = value.clone();
            }
        }
        let nodes = json!({self.origin.address().to_string(): 1});
        let route = json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"openid-connect": plugin}});
        self.weir.put("routes/1", route);
    }

    fn browser(&self) -> Browser {
        Browser::new().know("app.example", self.weir.address("proxy"))
    }

    /// The status and WWW-Authenticate of a request with this bearer token.
    fn bearer(&self, token: &str) -> (u16, String) {
        let value = format!("Bearer {token}");
        let answer = self.weir.client().request("GET", "/api", &[("Authorization", &value)], b"");
        (answer.status, answer.header("www-authenticate").unwrap_or_default().to_owned())
    }
}

/// The clients of the provider: one for each way to authenticate, and one of an API.
fn provider() -> OpenidProvider {
    let client = |id: &str, method: &str| {
        json!({
            "client_id": id, "client_secret": SECRET, "token_endpoint_auth_method": method,
            "redirect_uris": [format!("{APP}/app/.apisix/redirect"), format!("{APP}/cb")],
            "post_logout_redirect_uris": [format!("{APP}/bye")],
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        })
    };
    let mut public = client("public", "none");
    public.as_object_mut().unwrap().remove("client_secret");
    OpenidProvider::start(json!([
        client("gw", "client_secret_basic"), client("post", "client_secret_post"),
        client("jwt", "client_secret_jwt"), client("key", "private_key_jwt"), public,
        {
            "client_id": "api", "client_secret": SECRET, "redirect_uris": [], "response_types": [],
            "grant_types": ["client_credentials"], "scope": "read write",
        },
    ]))
}

/// Logs in at the provider, beginning with this URL of the gateway; gives the URL of the callback.
fn callback(browser: &mut Browser, url: &str, user: &str) -> String {
    let start = browser.step(url);
    assert_eq!(start.response.status, 302, "{}", start.response.text());
    let form = browser.follow(start);
    browser.log_in(form, user, "pw", APP)
}

/// As [`callback`], to the page that the browser has asked for.
fn log_in(browser: &mut Browser, url: &str, user: &str) -> Page {
    let callback = callback(browser, url, user);
    browser.visit(&callback)
}

/// The value of a field that the origin has received.
fn received(page: &Page, name: &str) -> Option<String> {
    let text = page.response.text();
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

/// The JSON in such a field.
fn received_json(page: &Page, name: &str) -> Value {
    let value = received(page, name).unwrap_or_else(|| panic!("no {name} in {}", page.response.text()));
    serde_json::from_slice(&BASE64.decode(value.as_bytes()).unwrap()).unwrap()
}

/// A parameter of a URL, as it is written there.
fn parameter<'u>(url: &'u str, name: &str) -> Option<&'u str> {
    let (_, query) = url.split_once('?')?;
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// A token with other claims, and the signature of the old ones.
fn with_claim(token: &str, name: &str, value: Value) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims: Value =
        serde_json::from_slice(&BASE64URL_NOPAD.decode(parts[1].as_bytes()).unwrap()).unwrap();
    claims[name] = value;
    format!("{}.{}.{}", parts[0], BASE64URL_NOPAD.encode(claims.to_string().as_bytes()), parts[2])
}
