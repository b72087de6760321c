//! The result of reading a `config.yaml`, while it is read: settings, faults, remarks, and the values that
//! can be decided only when all keys are known. Knows no key.

use std::path::{Path, PathBuf};

use super::super::fault::{SettingFault, SettingLocation};
use super::super::remark::{Remark, Remarks};
use super::super::table::Setting;
use super::super::written::WrittenSettings;
use super::super::{EnvironmentReader, SETTINGS};
use super::admin::AdminTls;
use super::deployment::Deployment;
use super::listeners::Listening;
use super::logs::AccessLog;
use super::plugins::{BodyLimits, LuaPlugins, ServerInfo};
use super::proxy_protocol::ProxyProtocol;
use super::stream::StreamProxy;
use super::tree::{Content, YamlNode};

/// A value with its full key.
pub(super) struct Spot<'a> {
    /// `apisix.router.http`.
    pub(super) key: &'a str,
    pub(super) node: &'a YamlNode,
}

/// A key and its line, kept for later messages.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) key: String,
    pub(super) line: usize,
}

/// The settings, faults and remarks found so far.
pub(super) struct Draft<'a> {
    pub(super) path: &'a Path,
    pub(super) environment: &'a EnvironmentReader<'a>,
    pub(super) admin_tls: AdminTls,
    pub(super) deployment: Deployment,
    pub(super) listening: Listening,
    pub(super) proxy_protocol: ProxyProtocol,
    pub(super) stream: StreamProxy,
    pub(super) access_log: AccessLog,
    pub(super) body_limits: BodyLimits,
    pub(super) server_info: ServerInfo,
    pub(super) lua_plugins: LuaPlugins,
    written: WrittenSettings,
    faults: &'a mut Vec<SettingFault>,
    remarks: Vec<Remark>,
}

impl Spot<'_> {
    pub(super) fn at(&self) -> At {
        At { key: self.key.to_owned(), line: self.node.line }
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        path: &'a Path,
        environment: &'a EnvironmentReader<'a>,
        faults: &'a mut Vec<SettingFault>,
    ) -> Draft<'a> {
        Draft {
            path,
            environment,
            admin_tls: AdminTls::default(),
            deployment: Deployment::default(),
            listening: Listening::default(),
            proxy_protocol: ProxyProtocol::default(),
            stream: StreamProxy::default(),
            access_log: AccessLog::default(),
            body_limits: BodyLimits::default(),
            server_info: ServerInfo::default(),
            lua_plugins: LuaPlugins::default(),
            written: WrittenSettings::default(),
            faults,
            remarks: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> (WrittenSettings, Remarks) {
        self.remarks.sort_by_key(|remark| remark.line);
        (self.written, Remarks { path: self.path.to_owned(), remarks: self.remarks })
    }

    /// Adds a fault, which refuses the file.
    pub(super) fn fault(&mut self, key: &str, line: usize, reason: String) {
        let place = SettingLocation::File { path: self.path.to_owned(), line };
        self.faults.push(SettingFault { place, name: key.to_owned(), reason });
    }

    /// Adds a remark on a key that is written but has no effect.
    pub(super) fn remark(&mut self, key: &str, line: usize, reason: String) {
        self.remarks.push(Remark { line, key: key.to_owned(), reason });
    }

    /// Writes a setting; faults of its value name the key `at`.
    pub(super) fn set(&mut self, at: &At, setting: &str, values: Vec<String>) {
        let setting = setting_called(setting).expect("a setting of that name; a test looks each of them up");
        let place = SettingLocation::Translated {
            path: self.path.to_owned(),
            line: at.line,
            key: at.key.as_str().into(),
        };
        self.written.insert(setting, values, place);
    }

    /// Writes a setting of one value.
    pub(super) fn set_one(&mut self, at: &At, setting: &str, value: impl Into<String>) {
        self.set(at, setting, vec![value.into()]);
    }

    /// Writes the value, one text or a list, as a setting.
    pub(super) fn copy(&mut self, spot: &Spot<'_>, setting: &str) {
        if let Some(values) = self.texts(spot) {
            self.set(&spot.at(), setting, values);
        }
    }

    /// Writes the value, a path, as a setting.
    pub(super) fn copy_path(&mut self, spot: &Spot<'_>, setting: &str) {
        if let Some(path) = self.text(spot) {
            let path = self.beneath_home(path);
            self.set_one(&spot.at(), setting, path);
        }
    }

    /// A path of APISIX as a path for Weir: a relative one is under the installation folder, which has the
    /// file in its `conf`.
    pub(super) fn beneath_home(&self, path: &str) -> String {
        if Path::new(path).is_absolute() {
            return path.to_owned();
        }
        let is_conf = self.path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "conf");
        let home = if is_conf { PathBuf::from("..") } else { PathBuf::new() };
        home.join(path).to_string_lossy().into_owned()
    }

    /// The text of a plain value; a fault if it is a list or map.
    pub(super) fn text<'n>(&mut self, spot: &Spot<'n>) -> Option<&'n str> {
        let text = spot.node.text();
        if text.is_none() {
            self.fault(spot.key, spot.node.line, "takes a plain value, not a list or map".to_owned());
        }
        text
    }

    /// The texts of a plain value or of a list of them; a fault if it is neither.
    pub(super) fn texts(&mut self, spot: &Spot<'_>) -> Option<Vec<String>> {
        let Content::List(items) = &spot.node.content else {
            return self.text(spot).map(|text| vec![text.to_owned()]);
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let Some(text) = item.text() else {
                self.fault(spot.key, item.line, "a list here holds plain values only".to_owned());
                return None;
            };
            texts.push(text.to_owned());
        }
        Some(texts)
    }

    /// A switch, in the words of YAML and nginx; a fault if it is none of them.
    pub(super) fn switch(&mut self, spot: &Spot<'_>) -> Option<bool> {
        match self.text(spot)? {
            "true" | "on" | "yes" => Some(true),
            "false" | "off" | "no" => Some(false),
            other => {
                let reason = format!("`{other}` is neither `true` nor `false`");
                self.fault(spot.key, spot.node.line, reason);
                None
            }
        }
    }
}

/// The setting called `name`.
pub(super) fn setting_called(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
