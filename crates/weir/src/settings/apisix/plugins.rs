//! The usable plugins, and the size of a body that is read for matching. Builds no plugin.

use super::draft::{At, Draft, Spot};
use super::units;

/// Two limits of APISIX that are one setting here: the larger one counts.
#[derive(Default)]
pub(super) struct BodyLimits {
    largest: Option<(At, u64)>,
}

/// `plugins`: those of the list that are built in. An object that names another one is faulty, so that no route is
/// served without a plugin that protects it.
pub(super) fn list(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(mut names) = draft.texts(spot) else { return };
    names.retain(|name| name != ALWAYS_ON);
    let is_known = |name: &String| plugins::ALL.iter().any(|kind| kind.name == name);
    let (known, unknown): (Vec<String>, Vec<String>) = names.into_iter().partition(is_known);
    if !unknown.is_empty() {
        let reason = format!("unknown here, objects with one of them are faulty: {}", unknown.join(", "));
        draft.remark(spot.key, spot.node.line, reason);
    }
    if known.iter().any(|name| name == ROTATES_LOGS) {
        draft.set_one(&spot.at(), "log_rotate", "true");
    }
    draft.set(&spot.at(), "plugins", known);
}

/// `graphql.max_size` and `apisix.max_post_args_readable_size`.
pub(super) fn body_limit(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(bytes) = units::bytes(draft, spot) else { return };
    let largest = draft.body_limits.largest.as_ref().map_or(0, |(_, bytes)| *bytes);
    if bytes >= largest {
        draft.body_limits.largest = Some((spot.at(), bytes));
    }
}

/// A plugin of APISIX that only switches a field of `ssls` on, which is always on here.
const ALWAYS_ON: &str = "ocsp-stapling";

/// A plugin of APISIX that works for the whole process, which here is a setting.
const ROTATES_LOGS: &str = "log-rotate";

/// Writes the limit.
pub(super) fn finish(draft: &mut Draft<'_>) {
    if let Some((at, bytes)) = draft.body_limits.largest.take() {
        draft.set_one(&at, "max_matched_body_bytes", bytes.to_string());
    }
}
