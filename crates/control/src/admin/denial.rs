//! The answers to callers that the gate refuses, each with its line in the log. It decides nothing.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::auth::{Denied, Gate};
use crate::serve::respond;

/// Logs that `peer` was refused, and answers it.
pub(super) fn denied_response(gate: &Gate, denied: Denied, peer: SocketAddr) -> Response<Bytes> {
    match denied {
        Denied::Token(description) => {
            gate.log_refusal(peer, "failed to check token", Some(description));
            let body = json!({ "error_msg": "failed to check token", "description": description });
            respond::json(StatusCode::UNAUTHORIZED, &body)
        }
        Denied::Paused { left_ms } => {
            gate.log_refusal(peer, "too many wrong keys from an address", None);
            paused_response(left_ms)
        }
        Denied::CrossSite => {
            let message = "a request without a key in its header that may come from another site's page";
            gate.log_refusal(peer, message, None);
            let reason = if gate.key_required() { CROSS_SITE } else { CROSS_SITE_KEYLESS };
            respond::error_response(StatusCode::FORBIDDEN, reason)
        }
        Denied::ForeignHost => {
            let message = "a request without a key in its header under a name that is not in admin_hosts";
            gate.log_refusal(peer, message, None);
            respond::error_response(StatusCode::FORBIDDEN, FOREIGN_HOST)
        }
    }
}

fn paused_response(left_ms: u64) -> Response<Bytes> {
    let seconds = left_ms.div_ceil(1_000);
    let reason = format!(
        "too many wrong keys from this address: no key from it is compared for {seconds} s, not even \
         a right one"
    );
    let mut response = respond::error_response(StatusCode::TOO_MANY_REQUESTS, reason);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The text of a 403.
const CROSS_SITE: &str = "the key came in the cookie x_api_key, and neither Sec-Fetch-Site (same-origin \
                          or none) nor Origin (the host of this API) says that the request comes from \
                          here: send the key in the header X-API-KEY";
/// The text of a 403 where no key is needed.
const CROSS_SITE_KEYLESS: &str = "this API needs no key (admin_key_required: false), and Sec-Fetch-Site or \
                                  Origin says that a page of another site has sent the request";
/// The text of a 403 for a name in `Host`.
const FOREIGN_HOST: &str = "the request has no key in the header X-API-KEY, and Host is no address of this \
                            machine, no private name and none of the setting admin_hosts: any site may \
                            have pointed the name here";
