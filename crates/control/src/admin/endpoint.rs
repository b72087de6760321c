//! The endpoint that a request to the Admin API names: the only reader of its path. It answers nothing and
//! checks no key.

use http::Method;
use model::ObjectKind;
use model::extension::EXTENSION_CONTENT_BYTES_MAX;

use super::auth::Access;
use crate::object_path::{COST_DECORATIONS, ObjectPath};
use crate::serve::query::segments;

/// An endpoint of the Admin API. The module that answers decides whether it exists for the method of the
/// request, except where a variant names a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AdminEndpoint {
    /// Any path outside the API's prefix.
    Outside,
    /// `HEAD /apisix/admin`, which tells clients without a key that an Admin API listens here.
    Probe,
    /// `configs`: the whole set of an external owner.
    Configs,
    /// `POST configs/validate`.
    ConfigsValidation,
    /// `weir/plan`, `weir/apply` and `weir/rollback`.
    WholeSet(SetCommand),
    /// Every other endpoint: its body is JSON or empty.
    Json(JsonEndpoint),
}

/// An endpoint with a JSON body, which is read before the endpoint is answered, even if the answer is 404.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JsonEndpoint {
    /// The prefix alone.
    Prefix,
    /// `plugins/NAME`. Segments after the name are ignored, as in APISIX.
    Plugins { name: Option<String> },
    /// Below `schema`.
    Schema { path: Vec<String> },
    /// Below `weir`, without the commands for whole sets.
    Weir { path: Vec<String> },
    /// `GET openapi.json`.
    OpenApi,
    /// `extensions/NAME/ACTION`. The same path as an object, because PATCH changes the field of that name.
    ExtensionAction { object: ObjectPath, action: ExtensionAction },
    /// An object, a part of it, or a collection.
    Object(ObjectPath),
    /// Below `configs`, with a path or a method that has no meaning there.
    BelowConfigs,
    /// The name of a collection that does not exist.
    Unsupported(String),
}

/// A command for a whole set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetCommand {
    /// Shows the changes that a set would make.
    Plan,
    /// Brings a set into force.
    Apply,
    /// Brings an older revision into force again.
    Rollback,
}

/// An action on an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtensionAction {
    /// Lists the versions, or adds one.
    Versions,
    /// Makes a version the active one.
    Activate,
    /// Makes the previous version the active one.
    Rollback,
    /// Begins or ends a canary.
    Canary,
}

/// The size that a body may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodySize {
    /// One object.
    Object,
    /// The content of an extension.
    ExtensionContent,
    /// All objects.
    WholeSet,
}

impl AdminEndpoint {
    /// Reads the path of a request, percent-decoded and without empty segments.
    pub(super) fn parse(method: &Method, path: &str) -> AdminEndpoint {
        // The probe is the plain spelling only: it is answered without a key.
        if *method == Method::HEAD && path.trim_end_matches('/') == PREFIX {
            return AdminEndpoint::Probe;
        }
        let segments = segments(path);
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["apisix", "admin", "configs"] => AdminEndpoint::Configs,
            ["apisix", "admin", "configs", "validate"] if *method == Method::POST => {
                AdminEndpoint::ConfigsValidation
            }
            ["apisix", "admin", "weir", "plan"] => AdminEndpoint::WholeSet(SetCommand::Plan),
            ["apisix", "admin", "weir", "apply"] => AdminEndpoint::WholeSet(SetCommand::Apply),
            ["apisix", "admin", "weir", "rollback"] => AdminEndpoint::WholeSet(SetCommand::Rollback),
            ["apisix", "admin", ..] => AdminEndpoint::Json(JsonEndpoint::parse(method, &segments[2..])),
            _ => AdminEndpoint::Outside,
        }
    }

    /// Whether requests are answered without a key.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, AdminEndpoint::Outside | AdminEndpoint::Probe)
    }

    /// Whether a request may change something. A reload may, because it reads the source again.
    pub(super) fn access(&self, method: &Method) -> Access {
        let is_question = match self {
            AdminEndpoint::ConfigsValidation | AdminEndpoint::WholeSet(SetCommand::Plan) => true,
            AdminEndpoint::Json(JsonEndpoint::Schema { path }) => {
                path.first().is_some_and(|first| first == "validate")
            }
            AdminEndpoint::Json(JsonEndpoint::Weir { path }) => *path == ["explain"],
            _ => false,
        };
        match *method {
            Method::GET | Method::HEAD => Access::Read,
            Method::POST if is_question => Access::Read,
            _ => Access::Write,
        }
    }

    /// The longest body in bytes, where that of a whole set has `max_set_bytes`. Only requests that wait for
    /// their turn have a large one: OPTIONS needs no key, and must not fill the memory.
    pub(super) fn body_limit(&self, method: &Method, max_set_bytes: usize) -> usize {
        if !self.waits_for_turn(method) {
            return MAX_BODY_BYTES;
        }
        match self.body_size() {
            BodySize::Object => MAX_BODY_BYTES,
            BodySize::ExtensionContent => EXTENSION_CONTENT_BYTES_MAX,
            BodySize::WholeSet => max_set_bytes,
        }
    }

    /// Whether the request waits for its turn before its body is read, because the body may be large.
    pub(super) fn waits_for_turn(&self, method: &Method) -> bool {
        let has_body = matches!(*method, Method::PUT | Method::POST | Method::PATCH);
        has_body && self.body_size() != BodySize::Object
    }

    fn body_size(&self) -> BodySize {
        match self {
            AdminEndpoint::Configs | AdminEndpoint::ConfigsValidation | AdminEndpoint::WholeSet(_) => {
                BodySize::WholeSet
            }
            // A client that puts a set to a wrong path is told that the path is wrong, not that the set is
            // too long.
            AdminEndpoint::Json(JsonEndpoint::BelowConfigs) => BodySize::WholeSet,
            AdminEndpoint::Json(JsonEndpoint::ExtensionAction {
                action: ExtensionAction::Versions, ..
            }) => BodySize::ExtensionContent,
            AdminEndpoint::Json(_) | AdminEndpoint::Outside | AdminEndpoint::Probe => BodySize::Object,
        }
    }
}

impl JsonEndpoint {
    /// Reads the segments after the prefix.
    fn parse(method: &Method, segments: &[String]) -> JsonEndpoint {
        let Some((collection, path)) = segments.split_first() else { return JsonEndpoint::Prefix };
        match (collection.as_str(), path) {
            ("configs", _) => JsonEndpoint::BelowConfigs,
            ("plugins", path) => JsonEndpoint::Plugins { name: path.first().cloned() },
            ("schema", path) => JsonEndpoint::Schema { path: path.to_vec() },
            ("weir", [first, ..]) if first == CONTRACTS => match ObjectPath::parse(path) {
                Some(object) => JsonEndpoint::Object(object),
                None => JsonEndpoint::Unsupported(CONTRACTS.to_owned()),
            },
            ("weir", path) => JsonEndpoint::Weir { path: path.to_vec() },
            ("openapi.json", []) if *method == Method::GET => JsonEndpoint::OpenApi,
            (name, _) => match ObjectPath::parse(segments) {
                Some(object) => match ExtensionAction::of(&object) {
                    Some(action) => JsonEndpoint::ExtensionAction { object, action },
                    None => JsonEndpoint::Object(object),
                },
                None if name == "services" => JsonEndpoint::Unsupported(COST_DECORATIONS.to_owned()),
                None => JsonEndpoint::Unsupported(name.to_owned()),
            },
        }
    }
}

impl ExtensionAction {
    /// The action that a path below an extension names.
    fn of(object: &ObjectPath) -> Option<ExtensionAction> {
        let (ObjectKind::Extension, [action]) = (object.kind, object.sub_path.as_slice()) else {
            return None;
        };
        match action.as_str() {
            "versions" => Some(ExtensionAction::Versions),
            "activate" => Some(ExtensionAction::Activate),
            "rollback" => Some(ExtensionAction::Rollback),
            "canary" => Some(ExtensionAction::Canary),
            _ => None,
        }
    }
}

/// The collection that is below `weir`, because APISIX has no such objects.
const CONTRACTS: &str = "contracts";
/// The prefix of every path of the Admin API.
const PREFIX: &str = "/apisix/admin";
/// APISIX's limit for the body of an object, 1.5 MiB.
pub(super) const MAX_BODY_BYTES: usize = 1024 * 1024 * 3 / 2;

#[cfg(test)]
mod tests;
