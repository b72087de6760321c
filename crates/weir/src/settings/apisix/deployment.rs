//! The source of objects and the role of the instance: `deployment.role`, the providers, `deployment.etcd`,
//! the keyring. Opens no connection.

use super::draft::{At, Draft, Spot};
use super::profile;
use super::tree::Content;
use super::units;

/// Values of several keys, combined when all are read.
#[derive(Default)]
pub(super) struct Deployment {
    role: Option<(At, DeploymentRole)>,
    /// The provider of each role that names one.
    providers: Vec<(DeploymentRole, At, String)>,
    /// The place of `deployment.etcd`.
    etcd: Option<At>,
    /// Whether the file has the keys that secrets are encrypted with, or switches the encryption off.
    keyring_is_configured: bool,
    /// `apisix.ssl.ssl_trusted_certificate`: the CA of etcd's certificate.
    pub(super) ca: Option<(At, String)>,
}

/// The role of an instance in a deployment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DeploymentRole {
    ControlPlane,
    DataPlane,
    Traditional,
}

impl Deployment {
    /// The key that switches the Admin API off: the role of a data plane.
    pub(super) fn without_admin(&self) -> Option<At> {
        self.role.as_ref().filter(|(_, role)| *role == DeploymentRole::DataPlane).map(|(at, _)| at.clone())
    }

    /// The key that switches the proxy off: the role of a control plane.
    pub(super) fn without_proxy(&self) -> Option<At> {
        self.role.as_ref().filter(|(_, role)| *role == DeploymentRole::ControlPlane).map(|(at, _)| at.clone())
    }
}

/// `deployment.role`.
pub(super) fn convert_role(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let role = match draft.text(spot) {
        None => return,
        Some("traditional") => DeploymentRole::Traditional,
        Some("control_plane") => DeploymentRole::ControlPlane,
        Some("data_plane") => DeploymentRole::DataPlane,
        Some(other) => {
            let reason =
                format!("`{other}` is no role; write `traditional`, `control_plane` or `data_plane`");
            return draft.fault(spot.key, spot.node.line, reason);
        }
    };
    draft.deployment.role = Some((spot.at(), role));
}

/// `deployment.role_….config_provider`.
pub(super) fn provider(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let role = match spot.key {
        "deployment.role_control_plane.config_provider" => DeploymentRole::ControlPlane,
        "deployment.role_data_plane.config_provider" => DeploymentRole::DataPlane,
        _ => DeploymentRole::Traditional,
    };
    match draft.text(spot) {
        None => {}
        Some(provider @ ("etcd" | "yaml" | "json")) => {
            draft.deployment.providers.push((role, spot.at(), provider.to_owned()));
        }
        Some(other) => {
            let reason = format!("`{other}` is not read here; write `etcd`, `yaml` or `json`");
            draft.fault(spot.key, spot.node.line, reason);
        }
    }
}

/// `deployment.etcd`; used if the role's provider is etcd.
pub(super) fn convert_etcd(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    super::listeners::remark_unknown_names(draft, spot, &ETCD_KEYS);
    draft.deployment.etcd = Some(spot.at());
    with(draft, spot, "host", |draft, spot| draft.copy(spot, "etcd_endpoints"));
    with(draft, spot, "prefix", |draft, spot| draft.copy(spot, "etcd_prefix"));
    with(draft, spot, "user", |draft, spot| draft.copy(spot, "etcd_username"));
    with(draft, spot, "password", |draft, spot| draft.copy(spot, "etcd_password"));
    with(draft, spot, "timeout", |draft, spot| units::convert_time(draft, spot, "etcd_timeout_ms"));
    with(draft, spot, "tls", |draft, spot| {
        super::listeners::remark_unknown_names(draft, spot, &["cert", "key", "verify", "sni"]);
        with(draft, spot, "cert", |draft, spot| draft.copy_path(spot, "etcd_cert"));
        with(draft, spot, "key", |draft, spot| draft.copy_path(spot, "etcd_key"));
        with(draft, spot, "verify", |draft, spot| draft.copy(spot, "etcd_verify"));
        with(draft, spot, "sni", |draft, spot| draft.copy(spot, "etcd_server_name"));
    });
}

/// Calls `act` with the entry `name`, if there is one. An empty text counts as none, as in APISIX's samples.
fn with(draft: &mut Draft<'_>, spot: &Spot<'_>, name: &str, act: impl FnOnce(&mut Draft<'_>, &Spot<'_>)) {
    if let Some(node) = spot.node.get(name).filter(|node| node.text() != Some("")) {
        act(draft, &Spot { key: &format!("{}.{name}", spot.key), node });
    }
}

/// `apisix.data_encryption`.
pub(super) fn data_encryption(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    super::listeners::remark_unknown_names(draft, spot, &["enable_encrypt_fields", "keyring"]);
    let mut is_on = true;
    with(draft, spot, "enable_encrypt_fields", |draft, spot| is_on = draft.switch(spot) != Some(false));
    draft.deployment.keyring_is_configured = !is_on;
    if is_on {
        with(draft, spot, "keyring", keyring);
    }
}

/// The keys of `apisix.data_encryption.keyring`.
fn keyring(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.deployment.keyring_is_configured = true;
    let items = if let Content::List(items) = &spot.node.content { items.as_slice() } else { &[] };
    for item in items.iter().chain(std::iter::once(spot.node)) {
        // Refused, because YAML drops leading zeros, among other things, when it reads a number.
        if matches!(item.content, Content::Scalar { is_text: false, .. }) {
            return draft.fault(
                spot.key,
                item.line,
                "is read as a number by YAML; put it in quotes".to_owned(),
            );
        }
    }
    let Some(keys) = draft.texts(spot).filter(|keys| !keys.is_empty()) else { return };
    if keys.iter().any(|key| DEFAULT_KEYRING.contains(&key.as_str())) {
        draft.remark(spot.key, spot.node.line, PUBLISHED.to_owned());
    }
    draft.set(&spot.at(), "encryption_keyring", keys);
}

/// Decides the source of objects.
pub(super) fn finish_deployment(draft: &mut Draft<'_>) {
    let role = draft.deployment.role.as_ref().map_or(DeploymentRole::Traditional, |(_, role)| *role);
    let provider = draft.deployment.providers.iter().find(|(of, ..)| *of == role);
    match provider.map(|(_, at, provider)| (at.clone(), provider.clone())) {
        Some((at, provider)) if provider == "etcd" => from_etcd(draft, &at),
        Some((at, format)) => from_file(draft, &at, &format, role),
        None => match draft.deployment.etcd.clone() {
            Some(at) => from_etcd(draft, &at),
            None => from_nowhere(draft, role),
        },
    }
}

fn from_etcd(draft: &mut Draft<'_>, at: &At) {
    draft.set_one(at, "source", "etcd");
    if !draft.deployment.keyring_is_configured {
        // Set, because APISIX encrypts secrets in etcd with this keyring unless another one is written.
        draft.set(at, "encryption_keyring", DEFAULT_KEYRING.map(str::to_owned).to_vec());
        draft.remark("apisix.data_encryption.keyring", at.line, format!("is not written: {PUBLISHED}"));
    }
    if let Some((at, path)) = draft.deployment.ca.take() {
        let path = draft.beneath_home(&path);
        draft.set_one(&at, "etcd_ca", path);
    }
}

/// A data plane reads only the file beside the configuration. For the role `traditional`, APISIX of today
/// takes objects from the Admin API, and older versions from the file: here the file is used if it exists.
fn from_file(draft: &mut Draft<'_>, at: &At, format: &str, role: DeploymentRole) {
    if role == DeploymentRole::ControlPlane {
        let reason = "a control plane has no objects of its own to give out; write `etcd`".to_owned();
        return draft.fault(&at.key, at.line, reason);
    }
    let name = format!("apisix{}.{format}", profile::suffix(draft.environment));
    let exists = draft.path.with_file_name(&name).exists();
    if exists || role == DeploymentRole::DataPlane {
        draft.set_one(at, "resources", name);
    } else {
        let reason = format!("no {name} lies beside it: objects come through the Admin API");
        draft.remark(&at.key, at.line, reason);
    }
}

/// Without a provider, APISIX would use etcd on its own machine; here the provider has to be written.
fn from_nowhere(draft: &mut Draft<'_>, role: DeploymentRole) {
    if role == DeploymentRole::Traditional {
        return;
    }
    if let Some((at, _)) = draft.deployment.role.clone() {
        let reason = "this role needs a source of objects: write `deployment.etcd`, or the provider `yaml`";
        draft.fault(&at.key, at.line, reason.to_owned());
    }
}

/// The keyring that APISIX uses if none is written.
const DEFAULT_KEYRING: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];

const PUBLISHED: &str =
    "secrets are encrypted with keys that are published in APISIX's defaults; put one of your own first";

/// The keys of `deployment.etcd`; those without an effect in this version are about APISIX's retries.
const ETCD_KEYS: [&str; 11] = [
    "host",
    "prefix",
    "user",
    "password",
    "timeout",
    "tls",
    "watch_timeout",
    "resync_delay",
    "health_check_timeout",
    "startup_retry",
    "use_grpc",
];
