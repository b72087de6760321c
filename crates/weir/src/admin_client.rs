//! Requests of the commands to the Admin API of the local instance: its address, its key, and the text of its
//! refusals. The instance is found by the lock of its data folder. Knows no command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueHint;
use control::source::store::RunningInstance;
use outbound::blocking_tls::ClientFiles;
use serde_json::Value;

use crate::ask::{
    Followed, InstanceRequest, InstanceResponse, RequestFailure, ask_instance, follow_response,
};
use crate::boot;
use crate::settings::{SETTINGS, SettingLocation, Settings, WrittenSettings};

/// The instance that a command talks to; the same arguments for every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NodeArguments {
    /// Settings file (YAML) of the instance
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, env = "WEIR_CONFIG", hide_env_values = true)]
    config: Option<OsString>,
    /// Admin API of the instance [default: that of the instance that runs on the data folder, else as in its
    /// settings]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Data folder of the instance, where it is found and its Admin key is [default: as in its settings]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<String>,
    /// Authorities (PEM) that the Admin API's certificate may be signed by; asks over HTTPS [default: as in
    /// its settings]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    admin_ca: Option<String>,
    /// Name that the Admin API's certificate must have; asks over HTTPS [default: as in its settings, else
    /// the address]
    #[arg(long, value_name = "NAME")]
    admin_server_name: Option<String>,
}

/// An instance, as a command sees it.
#[derive(Debug)]
pub(crate) struct AdminClient {
    pub(crate) settings: Settings,
    /// The instance that holds the data folder, unless the Admin API was named or the environment has its
    /// address.
    running: Option<RunningInstance>,
    /// The Admin API was named, so that no other instance may answer instead.
    is_named: bool,
}

impl NodeArguments {
    /// The instance that these arguments name.
    ///
    /// # Errors
    /// Faulty settings.
    pub(crate) fn node(&self) -> anyhow::Result<AdminClient> {
        let config = crate::cli::settings_file(self.config.clone());
        let mut flags = WrittenSettings::default();
        let given = [
            ("admin", &self.admin),
            ("data", &self.data),
            ("admin_ca", &self.admin_ca),
            ("admin_server_name", &self.admin_server_name),
        ];
        for (name, value) in given {
            let setting =
                SETTINGS.iter().find(|setting| setting.name == name).expect("a setting of that name");
            if let Some(value) = value {
                flags.insert(setting, vec![value.clone()], SettingLocation::Flag);
            }
        }
        let settings = Settings::load(config.as_deref(), std::env::vars_os(), flags)?.settings;
        let is_named = self.admin.is_some();
        let running = if is_named || is_in_environment("admin") { None } else { running_on(&settings.data) };
        Ok(AdminClient { settings, running, is_named })
    }
}

/// The instance that runs on the data folder. A folder that cannot be read counts as one without an instance:
/// the address then comes from the settings.
pub(crate) fn running_on(data: &Path) -> Option<RunningInstance> {
    RunningInstance::running(data).ok().flatten()
}

/// Whether the environment has a value for that setting.
pub(crate) fn is_in_environment(name: &str) -> bool {
    let setting = SETTINGS.iter().find(|setting| setting.name == name).expect("a setting of that name");
    std::env::var_os(setting.variable()).is_some_and(|value| !value.is_empty())
}

/// The address of a listener of the instance that the arguments name.
///
/// # Errors
/// The instance has no such listener; the message says how to name one.
pub(crate) fn address_of(
    running: Option<&RunningInstance>,
    name: &str,
    settings: &Settings,
    configured: Option<SocketAddr>,
) -> anyhow::Result<Option<SocketAddr>> {
    let Some(running) = running.filter(|running| running.listeners.is_some()) else { return Ok(configured) };
    let address = running.address(name).with_context(|| {
        format!(
            "the instance on the data folder {}, process {}, does not listen there: its setting `{name}` is off",
            settings.data.display(),
            running.process
        )
    })?;
    Ok(Some(address))
}

/// The result of a request to the Admin API.
pub(crate) enum AdminOutcome {
    /// A response, of any status.
    Answered(InstanceResponse),
    /// No instance runs here, and none was named.
    Nobody,
}

impl AdminClient {
    /// Sends a request; `target` is the part of the path after `/apisix/admin/`.
    ///
    /// # Errors
    /// A named or required instance does not run, there is no key, or there is no response.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> anyhow::Result<AdminOutcome> {
        let (admin, key) = self.admin()?;
        let author = author();
        let mut fields = vec![("X-Weir-Author", author.as_str())];
        fields.extend(key.as_deref().map(|key| ("X-API-KEY", key)));
        let target = format!("/apisix/admin/{target}");
        let tls = self.tls(admin);
        let (fields, tls) = (&fields[..], tls.as_ref());
        let question = InstanceRequest { method, target: &target, fields, body, patience: PATIENCE, tls };
        self.outcome(admin, ask_instance(admin, &question).map(AdminOutcome::Answered), || {
            AdminOutcome::Nobody
        })
    }

    /// The address of the Admin API and the key for it; no key where none is needed.
    fn admin(&self) -> anyhow::Result<(SocketAddr, Option<String>)> {
        let admin = address_of(self.running.as_ref(), "admin", &self.settings, self.settings.admin)?;
        let Some(admin) = admin else {
            bail!("this instance has no Admin API: its setting `admin` is off");
        };
        Ok((admin, boot::admin_key_for_commands(&self.settings)?))
    }

    /// As [`AdminClient::ask`] with GET, for a response that arrives piece by piece; `patience` is the
    /// longest silence. Only a running instance can answer.
    ///
    /// # Errors
    /// As [`AdminClient::ask`]; also, no instance runs here.
    pub(crate) fn follow(&self, target: &str, patience: Duration) -> anyhow::Result<Followed> {
        let (admin, key) = self.admin()?;
        let author = author();
        let mut fields = vec![("X-Weir-Author", author.as_str())];
        fields.extend(key.as_deref().map(|key| ("X-API-KEY", key)));
        let target = format!("/apisix/admin/{target}");
        let tls = self.tls(admin);
        let (fields, tls) = (&fields[..], tls.as_ref());
        let question = InstanceRequest { method: "GET", target: &target, fields, body: "", patience, tls };
        let followed = self.outcome(admin, follow_response(admin, &question).map(Some), || None)?;
        followed.map_or_else(|| Err(self.not_running()), Ok)
    }

    /// The result of a request to the Admin API at `admin`, or what to tell the user.
    fn outcome<T>(
        &self,
        admin: SocketAddr,
        outcome: Result<T, RequestFailure>,
        nobody: impl FnOnce() -> T,
    ) -> anyhow::Result<T> {
        match (outcome, &self.running) {
            (Ok(answer), _) => Ok(answer),
            (Err(RequestFailure::NotThere(error)), Some(running)) => bail!(
                "process {} runs on the data folder {} and does not answer at {admin}: {error}; name its Admin API with \
                 --admin",
                running.process,
                self.settings.data.display()
            ),
            (Err(RequestFailure::NotThere(_)), None) if !self.is_named => Ok(nobody()),
            (Err(RequestFailure::NotThere(error)), None) => {
                bail!("no instance answers at {admin}: {error}; see the line `listening admin` of its output")
            }
            (Err(RequestFailure::Refused(reason)), None) if !self.is_named => {
                bail!(
                    "{reason}; name the Admin API that is meant with --admin, or its data folder with --data"
                )
            }
            (Err(RequestFailure::Refused(reason)), _) => bail!("{reason}"),
        }
    }

    /// How to speak TLS with the Admin API at `admin`; none where it speaks plain HTTP.
    fn tls(&self, admin: SocketAddr) -> Option<ClientFiles> {
        let settings = &self.settings;
        // An instance that has said where it listens has said what it presents there too.
        let pinned = match self.running.as_ref().filter(|running| running.listeners.is_some()) {
            Some(running) => running.certificate("admin").map(Path::to_owned),
            None => settings.admin_tls_cert.clone(),
        };
        if pinned.is_none() && settings.admin_ca.is_none() && settings.admin_server_name.is_none() {
            return None;
        }
        Some(ClientFiles {
            ca: settings.admin_ca.clone(),
            pinned,
            identity: settings.admin_client_cert.clone().zip(settings.admin_client_key.clone()),
            server_name: settings.admin_server_name.clone().unwrap_or_else(|| admin.ip().to_string()),
        })
    }

    /// As [`AdminClient::ask`], for requests that only a running instance can answer.
    ///
    /// # Errors
    /// As [`AdminClient::ask`]; also, no instance runs here.
    pub(crate) fn ask_running(
        &self,
        method: &str,
        target: &str,
        body: &str,
    ) -> anyhow::Result<InstanceResponse> {
        match self.ask(method, target, body)? {
            AdminOutcome::Answered(answer) => Ok(answer),
            AdminOutcome::Nobody => Err(self.not_running()),
        }
    }

    fn not_running(&self) -> anyhow::Error {
        let admin = self.settings.admin.map(|admin: SocketAddr| admin.to_string()).unwrap_or_default();
        anyhow::anyhow!(
            "no instance runs on the data folder {} or at {admin}; start it, or name its Admin API with --admin \
             or its data folder with --data",
            self.settings.data.display()
        )
    }
}

/// The JSON of a response with status 200.
///
/// # Errors
/// Any other response, in the words of the instance.
pub(crate) fn agreed(answer: InstanceResponse) -> anyhow::Result<Value> {
    match (answer.status, &answer.body) {
        (200, Ok(_)) => answer.body.map_err(anyhow::Error::msg),
        (200, Err(_)) => bail!("the instance's answer is not JSON"),
        (401, _) => bail!(
            "the instance does not take this Admin key ({}); give its key in WEIR_ADMIN_KEY, or its data folder with --data",
            answer.reason()
        ),
        _ => bail!("{}", answer.reason()),
    }
}

/// As [`agreed`], deserialised.
///
/// # Errors
/// As [`agreed`]; also, JSON of another form.
pub(crate) fn decode_response<T: serde::de::DeserializeOwned>(answer: InstanceResponse) -> anyhow::Result<T> {
    serde_json::from_value(agreed(answer)?)
        .context("the instance answered in a form this version does not know; see it with --json")
}

/// The user's name from the environment, without the characters that a header field may not carry.
fn author() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    name.chars().filter(|shown| shown.is_ascii_graphic()).collect()
}

/// Long enough to check, store and compile a whole set of 100,000 objects.
const PATIENCE: Duration = Duration::from_secs(120);
