//! Access to the Admin API: `deployment.admin`. Makes no key.

use super::draft::{At, Draft, Spot};
use super::tree::{Content, YamlNode};

/// `deployment.admin.admin_key`: a list of keys with roles. An empty key is replaced by a random one, as
/// without the list.
pub(super) fn convert_admin_key(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let items = match &spot.node.content {
        Content::List(items) => items,
        // An empty text means no key, as in APISIX.
        Content::Scalar { text, .. } if text.is_empty() => return,
        _ => {
            let reason = "is a list of keys, each with `name`, `key` and `role`".to_owned();
            return draft.fault(spot.key, spot.node.line, reason);
        }
    };
    let mut keys = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = format!("{}[{index}]", spot.key);
        keys.extend(one_key(draft, &Spot { key: &key, node: item }));
    }
    if !keys.is_empty() {
        draft.set(&spot.at(), "admin_keys", keys);
    }
}

/// One key as `role:key`, the form of the setting; none for an empty key.
fn one_key(draft: &mut Draft<'_>, spot: &Spot<'_>) -> Option<String> {
    super::listeners::remark_unknown_names(draft, spot, &["name", "key", "role"]);
    let role = spot.node.get("role").and_then(YamlNode::text).unwrap_or("admin");
    if !["admin", "viewer"].contains(&role) {
        let reason = format!("`{role}` is no role; write `admin` or `viewer`");
        draft.fault(&format!("{}.role", spot.key), spot.node.line, reason);
        return None;
    }
    let name = format!("{}.key", spot.key);
    let node = spot.node.get("key");
    let line = node.map_or(spot.node.line, |node| node.line);
    let key = match node.map(|node| &node.content) {
        // Refused, because YAML drops leading zeros, among other things, when it reads a number.
        Some(Content::Scalar { text: _, is_text: false }) => {
            draft.fault(&name, line, "is read as a number by YAML; put it in quotes".to_owned());
            return None;
        }
        Some(Content::Scalar { text, is_text: true }) => text.as_str(),
        _ => "",
    };
    if key.is_empty() {
        if role == "viewer" {
            draft.remark(&name, line, "is empty: nobody is a viewer by it".to_owned());
        }
        return None;
    }
    if PUBLISHED_KEYS.contains(&key) {
        draft.remark(&name, line, "is published in APISIX's documentation; replace it".to_owned());
    } else if key.len() < SAFE_LENGTH {
        draft.remark(&name, line, "is short enough to be guessed; replace it".to_owned());
    }
    Some(format!("{role}:{key}"))
}

/// `deployment.admin.allow_admin`: an empty list admits every address, as in APISIX. A list with more than
/// loopback addresses makes the Admin API listen on APISIX's default address, if none is written, because
/// clients from outside could not reach loopback.
pub(super) fn allow_admin(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let everybody = match &spot.node.content {
        Content::Null => true,
        Content::List(items) => items.is_empty(),
        Content::Scalar { .. } | Content::Map(_) => false,
    };
    let networks = if everybody { Some(EVERYBODY.map(str::to_owned).to_vec()) } else { draft.texts(spot) };
    let Some(networks) = networks else { return };
    let is_local =
        |text: &String| router::cidr::network(text).is_none_or(|network| network.addr().is_loopback());
    if !networks.iter().all(is_local) {
        draft.listening.admin_opened = Some(spot.at());
    }
    draft.set(&spot.at(), "admin_allow", networks);
}

/// `deployment.admin.admin_api_version`.
pub(super) fn admin_api_version(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(version) = draft.text(spot).filter(|version| *version != "v3") {
        let reason = format!("`{version}` is not spoken here; the Admin API is `v3`");
        draft.fault(spot.key, spot.node.line, reason);
    }
}

/// HTTPS of the Admin API in a `config.yaml`, which several keys define together.
#[derive(Default)]
pub(super) struct AdminTls {
    /// Where `https_admin` is on.
    https: Option<At>,
    /// The setting, where it is written, and the file.
    files: Vec<(&'static str, At, String)>,
}

/// `deployment.admin.https_admin`.
pub(super) fn https_admin(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if draft.switch(spot) == Some(true) {
        draft.admin_tls.https = Some(spot.at());
    }
}

/// `deployment.admin.admin_api_mtls`: files that count with `https_admin`. An empty text is none, as in the
/// samples.
pub(super) fn admin_api_mtls(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    super::listeners::remark_unknown_names(draft, spot, &MTLS_FILES.map(|(name, _)| name));
    for (name, setting) in MTLS_FILES {
        let Some(node) = spot.node.get(name).filter(|node| node.text() != Some("")) else { continue };
        let spot = Spot { key: &format!("{}.{name}", spot.key), node };
        if let Some(path) = draft.text(&spot).map(|path| draft.beneath_home(path)) {
            draft.admin_tls.files.push((setting, spot.at(), path));
        }
    }
}

/// Settles HTTPS of the Admin API.
pub(super) fn finish_admin(draft: &mut Draft<'_>) {
    let AdminTls { https, files } = std::mem::take(&mut draft.admin_tls);
    match https {
        Some(at) => {
            let has = |setting: &str| files.iter().any(|(found, ..)| *found == setting);
            if !has("admin_tls_cert") || !has("admin_tls_key") {
                let reason = "needs `admin_api_mtls` with `admin_ssl_cert` and `admin_ssl_cert_key`";
                return draft.fault(&at.key, at.line, reason.to_owned());
            }
            for (setting, at, path) in files {
                draft.set_one(&at, setting, path);
            }
        }
        None => {
            if let Some((_, at, _)) = files.first() {
                let reason = "has no effect without `https_admin: true`".to_owned();
                draft.remark(&at.key, at.line, reason);
            }
        }
    }
}

/// The files of `admin_api_mtls` and their settings.
const MTLS_FILES: [(&str, &str); 3] = [
    ("admin_ssl_cert", "admin_tls_cert"),
    ("admin_ssl_cert_key", "admin_tls_key"),
    ("admin_ssl_ca_cert", "admin_tls_client_ca"),
];

/// `apisix.enable_server_tokens`: when off, the version is left out.
pub(super) fn server_tokens(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if draft.switch(spot) == Some(false) {
        draft.set_one(&spot.at(), "server_header", "weir");
        draft.set_one(&spot.at(), "admin_emulated_version", "off");
    }
}

const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The least length of `WEIR_ADMIN_KEY`. Shorter keys are accepted here, because existing scripts use them.
const SAFE_LENGTH: usize = 16;

/// The keys of the sample configurations of APISIX 2, which are still in wide use.
const PUBLISHED_KEYS: [&str; 2] = ["edd1c9f034335f136f87ad84b625c8f1", "4054f7cf07e344346cd3f287985e76a2"];
