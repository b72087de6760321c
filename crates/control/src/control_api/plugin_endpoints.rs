//! Endpoints that plugins of the catalog have in the control API. It names none of them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use model::control_endpoint::{ControlAnswer, ControlQuestion};

use super::ControlParts;
use crate::serve::respond;

impl ControlParts {
    /// The answer of the plugin with an endpoint at this path.
    pub(super) fn of_plugin(&self, uri: &Uri) -> Option<Response<Bytes>> {
        let endpoint = self
            .catalog
            .iter()
            .flat_map(|plugin| plugin.info().control_endpoints)
            .find(|endpoint| endpoint.path == uri.path())?;
        let query = uri.query().unwrap_or_default();
        let question = ControlQuestion { query, instance: &self.reports.instance };
        Some(match (endpoint.answer)(&question) {
            ControlAnswer::Json(value) => respond::json(StatusCode::OK, &value),
            ControlAnswer::Text(text) => {
                let mut response = respond::with_body(StatusCode::OK, Bytes::from(text));
                response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
                response
            }
        })
    }
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
