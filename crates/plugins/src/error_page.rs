//! # error-page
//!
//! Gives the replies that the gateway and its plugins make for errors a page of your own. Responses of
//! upstreams stay as they are.
//!
//! ```json
//! {}
//! ```
//!
//! The plugin has no fields of its own: put it into a global rule, a route or a service, and write the pages
//! into its metadata (`PUT /apisix/admin/plugin_metadata/error-page`):
//!
//! ```json
//! {
//!   "enable": true,
//!   "error_404": { "body": "{\"error\": \"there is nothing here\"}", "content_type": "application/json" },
//!   "error_502": {}
//! }
//! ```
//!
//! **When.** The status is 404 or above, and the response was made by the gateway (no route, no connection to
//! the upstream, a timeout, a limit) or by a plugin. A response that the upstream sent, also one out of a
//! cache, is not changed. Without metadata, with `enable: false`, for statuses without a page, and for calls
//! of gRPC clients nothing is changed.
//!
//! **Pages.** `error_404`, `error_500`, `error_502` and `error_503` have a page of this gateway where `body`
//! is not written. Any other status from 404 to 599 may be written as well, such as `error_429`; its `body`
//! has no default, and without one the reply stays as it is. An empty `body` switches a page off.
//! `content_type` is `text/html` where it is not written.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BodyNeed, Build, Plugin, PluginKind, PluginPhase, Portion, ResponseStep};
use message::FieldId;
use serde_json::{Value, json};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "error-page",
    450,
    &[PluginPhase::ResponseHead, PluginPhase::ResponseBody],
    schema,
    build,
)
.with_metadata(metadata_schema)
.checked_metadata(|metadata| pages(metadata).map(drop))
.documented(include_str!("error_page.rs"));

/// The lowest status with a page: statuses below are refusals that plugins explain themselves.
const STATUS_MIN: u16 = 404;
/// The statuses with a page of this gateway.
const WITH_DEFAULT: [(u16, &str); 4] = [
    (404, "404 Not Found"),
    (500, "500 Internal Server Error"),
    (502, "502 Bad Gateway"),
    (503, "503 Service Unavailable"),
];
/// The media type of a page that names none.
const CONTENT_TYPE_DEFAULT: &str = "text/html";

fn schema() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn metadata_schema() -> Value {
    let mut properties = json!({
        "enable": { "description": "Replaces the pages.", "type": "boolean", "default": false },
    });
    for (status, title) in WITH_DEFAULT {
        let mut page = page_schema(&format!("The page for {title}."));
        page["properties"]["body"]["default"] = default_page(title).into();
        properties[format!("error_{status}")] = page;
    }
    json!({
        "type": "object",
        "properties": properties,
        "patternProperties": { "^error_(40[4-9]|4[1-9][0-9]|5[0-9]{2})$": page_schema("The page for a status.") },
    })
}

fn page_schema(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "body": { "description": "The page; an empty one changes nothing.", "type": "string" },
            "content_type": {
                "description": "The media type of the page.",
                "type": "string", "default": CONTENT_TYPE_DEFAULT,
            },
        },
    })
}

fn default_page(title: &str) -> String {
    format!(
        "<html>\n<head><title>{title}</title></head>\n<body>\n<center><h1>{title}</h1></center>\n<hr>\
         <center>Weir</center>\n</body>\n</html>"
    )
}

/// The page for one status.
struct StatusPage {
    status: u16,
    content_type: Box<str>,
    body: Box<[u8]>,
}

/// The compiled plugin.
struct ErrorPage {
    /// Sorted by status; empty without metadata that enables them.
    pages: Box<[StatusPage]>,
}

/// The place of the page of this response, found when its head passed.
#[derive(Default)]
struct Chosen(Option<usize>);

fn build(build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let pages = build.metadata.map(pages).transpose()?.unwrap_or_default();
    Ok(Arc::new(ErrorPage { pages: pages.into() }))
}

fn pages(metadata: &Value) -> Result<Vec<StatusPage>, String> {
    if metadata.get("enable").and_then(Value::as_bool) != Some(true) {
        return Ok(Vec::new());
    }
    let mut pages = Vec::new();
    for (name, written) in metadata.as_object().into_iter().flatten() {
        let Some(status) = name.strip_prefix("error_") else { continue };
        let status: u16 = status.parse().map_err(|_| format!("{name}: this is no status"))?;
        let default = WITH_DEFAULT.iter().find(|(known, _)| *known == status);
        let body = match written.get("body").and_then(Value::as_str) {
            Some(body) => body.to_owned(),
            None => default.map(|(_, title)| default_page(title)).unwrap_or_default(),
        };
        let content_type =
            written.get("content_type").and_then(Value::as_str).unwrap_or(CONTENT_TYPE_DEFAULT);
        if content_type.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(format!("{name}.content_type: a control character cannot stand in a field"));
        }
        if !body.is_empty() {
            pages.push(StatusPage {
                status,
                content_type: content_type.into(),
                body: body.into_bytes().into(),
            });
        }
    }
    pages.sort_by_key(|page| page.status);
    Ok(pages)
}

impl ErrorPage {
    fn chosen(&self, exchange: &Exchange) -> Option<&StatusPage> {
        self.pages.get(exchange.peek_state::<Chosen>()?.0?)
    }
}

impl Plugin for ErrorPage {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        let status = exchange.response.status;
        if status < STATUS_MIN || !exchange.stats.answered_locally || exchange.stats.is_stored {
            return ResponseStep::Done;
        }
        // The gateway puts the body of such a reply into `grpc-message`, which is a sentence and no page.
        if exchange.is_native_call() {
            return ResponseStep::Done;
        }
        let Ok(index) = self.pages.binary_search_by_key(&status, |page| page.status) else {
            return ResponseStep::Done;
        };
        exchange.state::<Chosen>().0 = Some(index);
        // The value was checked; it fails only if the response is full, and then the page has the type of the
        // old body.
        let content_type = self.pages[index].content_type.as_bytes();
        let _ = exchange.response.headers.set_known(FieldId::ContentType, content_type);
        ResponseStep::Done
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        if self.chosen(exchange).is_some() { BodyNeed::Stream } else { BodyNeed::None }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        if let Some(page) = self.chosen(exchange) {
            body.clear();
            if portion == Portion::Last {
                body.extend_from_slice(&page.body);
            }
        }
        ResponseStep::Done
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, finish, respond};

    use super::*;

    /// The media type and the body that a client gets of a reply with `status` and the body `old`.
    fn answer(metadata: Option<&Value>, status: u16, is_local: bool, is_stored: bool) -> (String, String) {
        let mut scene = Scene::new();
        let plugin = scene.build_with(&KIND, &json!({}), metadata);
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, status, &[("Content-Type", "text/plain")]);
        exchange.stats.answered_locally = is_local;
        exchange.stats.is_stored = is_stored;
        finish(plugin.response_head(&mut exchange));
        let mut body = b"old".to_vec();
        if plugin.wants_response_body(&exchange) == BodyNeed::Stream {
            finish(plugin.response_body(&mut exchange, &mut body, Portion::Last));
        }
        let content_type = exchange.response.headers.get("content-type").unwrap_or_default();
        (String::from_utf8_lossy(content_type).into_owned(), String::from_utf8(body).unwrap())
    }

    #[test]
    fn page_replaces_local_error_of_its_status() {
        let metadata = json!({
            "enable": true,
            "error_404": {"body": "{}", "content_type": "application/json"},
            "error_500": {},
            "error_429": {"body": "slow down"},
            "error_405": {"content_type": "text/html"},
            "error_503": {"body": ""},
        });
        let on = Some(&metadata);
        let kept = ("text/plain".to_owned(), "old".to_owned());
        let page = |content_type: &str, body: &str| (content_type.to_owned(), body.to_owned());
        assert_eq!(answer(on, 404, true, false), page("application/json", "{}"));
        assert_eq!(answer(on, 429, true, false), page("text/html", "slow down"));
        let (content_type, body) = answer(on, 500, true, false);
        assert!(content_type == "text/html" && body.contains("<h1>500 Internal Server Error</h1>"), "{body}");
        assert!(body.contains("<center>Weir</center>"), "{body}");
        for status in [403, 405, 502, 503] {
            assert_eq!(answer(on, status, true, false), kept, "{status}");
        }
        assert_eq!(answer(on, 404, false, false), kept, "of an upstream");
        assert_eq!(answer(on, 404, true, true), kept, "of an upstream, from a cache");
    }

    #[test]
    fn call_of_grpc_client_has_no_page() {
        let mut scene = Scene::new();
        let metadata = json!({"enable": true, "error_503": {}});
        let plugin = scene.build_with(&KIND, &json!({}), Some(&metadata));
        let mut is_paged = |content_type: &str| {
            let head = format!("POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\n\r\n");
            let mut exchange = scene.exchange(head.as_bytes());
            exchange.grpc = exchange::grpc::GrpcCallState::of(&exchange.request.headers, 0);
            exchange.stats.answered_locally = true;
            respond(&mut exchange, 503, &[]);
            finish(plugin.response_head(&mut exchange));
            plugin.wants_response_body(&exchange) == BodyNeed::Stream
        };
        assert!(is_paged("text/plain") && !is_paged("application/grpc"));
    }

    #[test]
    fn pages_need_metadata_that_enables_them() {
        let kept = ("text/plain".to_owned(), "old".to_owned());
        assert_eq!(answer(None, 404, true, false), kept);
        let off = json!({"enable": false, "error_404": {}});
        assert_eq!(answer(Some(&off), 404, true, false), kept);
        assert_eq!(answer(Some(&json!({"error_404": {}})), 404, true, false), kept);
    }

    #[test]
    fn metadata_is_checked() {
        use exchange::testing::check_configuration;
        use model::catalog::SchemaType;
        let check = |metadata: Value, fault: Option<&str>| {
            check_configuration(&KIND, SchemaType::Metadata, &metadata, fault);
        };
        check(json!({"enable": true, "error_404": {"body": "a"}, "error_418": {"body": "tea"}}), None);
        check(json!({"enable": "yes"}), Some("enable"));
        check(json!({"error_404": "a"}), Some("error_404"));
        check(json!({"enable": true, "error_404": {"content_type": "a\nb"}}), Some("content_type"));
    }
}
