//! One request to the Admin API, and the parts that every answer is made of. It does not know which module
//! answers.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Method, Response, StatusCode};
use model::PluginCatalog;
use serde_json::Value;

use super::auth::Gate;
use super::live::LiveState;
use crate::acme::Acme;
use crate::reconcile::{Author, Reconcile};
use crate::report::Reports;
use crate::sealing::Sealer;
use crate::serve::query::Query;
use crate::serve::respond::{self, ApiHeaders};
use crate::serve::role::Role;
use crate::summary::Summaries;
use crate::view::SharedView;

/// The parts of an Admin API.
pub(crate) struct AdminParts {
    /// Checks addresses and keys.
    pub(crate) gate: Gate,
    /// The headers of every answer.
    pub(crate) headers: ApiHeaders,
    /// The configuration in force.
    pub(crate) view: SharedView,
    /// Makes changes.
    pub(crate) reconcile: Reconcile,
    /// The plugins of this gateway.
    pub(crate) catalog: Arc<PluginCatalog>,
    /// The state of the running gateway.
    pub(crate) reports: Reports,
    /// Encrypts secrets in answers to writes.
    pub(crate) sealer: Sealer,
    /// Certificates that are ordered by ACME; none where that is off.
    pub(crate) acme: Option<Arc<Acme>>,
    /// The longest body of a whole set, in bytes.
    pub(crate) max_set_bytes: usize,
    /// The kind of the configuration's source: `store`, `file` or `etcd`.
    pub(crate) source: &'static str,
    /// Whether the dashboard is served.
    pub(crate) ui: bool,
    /// The file with the certificate of this listener; none without HTTPS.
    pub(crate) certificate_file: Option<PathBuf>,
    /// Short forms of objects for lists.
    pub(crate) summaries: Summaries,
    /// State of the pages about the running instance.
    pub(crate) live: LiveState,
}

/// One request.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    /// The body as JSON; none if the body is empty.
    pub(super) body: Option<Value>,
    /// The caller, for the history.
    pub(super) author: Author,
    /// The role of the caller's key.
    pub(super) role: Role,
}

impl AdminParts {
    /// The plugins of this gateway, with those of the extensions in force.
    pub(super) fn catalog(&self) -> Arc<PluginCatalog> {
        self.view.load().catalog(&self.catalog)
    }
}

/// The answer for a collection that does not exist.
pub(super) fn unsupported(name: &str) -> Response<Bytes> {
    respond::error_response(StatusCode::NOT_FOUND, format!("Unsupported resource type: {name}"))
}

/// The revision that an answer is about.
pub(super) const REVISION: HeaderName = HeaderName::from_static("x-weir-revision");
