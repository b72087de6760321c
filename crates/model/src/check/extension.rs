//! Extensions: versions, the ones that serve, and their code, which is loaded here. It names no language.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::expression;
use crate::catalog::PluginCatalog;
use crate::extension::{
    EXTENSION_CONTENT_BYTES_MAX, EXTENSION_TEXT_BYTES_MAX, ExtensionLoader, LoadedExtension, LoadedVersion,
    decoded, version_of,
};
use crate::fault::{CheckStage, Findings};
use crate::{ObjectKey, ObjectRefusal};

/// A version as it is written.
struct WrittenVersion<'v> {
    pointer: String,
    version: Cow<'v, str>,
    content: &'v str,
}

/// Checks what the schema cannot say.
pub(super) fn check_extension(catalog: &PluginCatalog, value: &Value, findings: &mut Findings) {
    let add = |findings: &mut Findings, pointer: &str, reason: String| {
        let contract = format!("invalid configuration: {reason}");
        findings.add_worded(CheckStage::Plugins, pointer, reason, contract);
    };
    if value.get("content").is_some() == value.get("versions").is_some() {
        add(findings, "", "an extension has either `content` or `versions`".to_owned());
    }
    let texts = contents(value).map(|(_, content, _)| content.len()).sum::<usize>();
    if texts > EXTENSION_TEXT_BYTES_MAX {
        let reason = format!(
            "its versions have {texts} bytes together, and {EXTENSION_TEXT_BYTES_MAX} are allowed: remove old versions, or \
             write a module in base64 of its gzip form"
        );
        add(findings, "/versions", reason);
    }
    if let Some(vars) = value.pointer("/canary/vars").filter(|vars| vars.is_array()) {
        expression::check_expression(vars, "/canary/vars", findings);
    }
    // A catalog of schemas alone has no loader.
    if catalog.loader().is_none() {
        return;
    }
    let Some(language) = value.get("language").and_then(Value::as_str) else { return };
    let loader = match loader_for(catalog, language) {
        Ok(loader) => loader,
        Err(reason) => return add(findings, "/language", reason),
    };
    let versions = match versions(loader, language, value) {
        Ok(versions) => versions,
        Err((pointer, reason)) => return add(findings, &pointer, reason),
    };
    let mut seen = BTreeSet::new();
    for version in &versions {
        if !seen.insert(&*version.version) {
            add(findings, &version.pointer, format!("the version {} is there twice", version.version));
        }
    }
    for pointer in ["/active", "/previous", "/canary/version"] {
        let Some(name) = value.pointer(pointer).and_then(Value::as_str) else { continue };
        if !seen.contains(name) {
            add(findings, pointer, format!("there is no version {name}"));
        }
    }
}

/// Loads the versions that serve; none where the extension is switched off.
///
/// # Errors
/// The name is that of a fixed plugin, or a version cannot be loaded.
pub(super) fn load(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    value: &Value,
) -> Result<Option<LoadedExtension>, ObjectRefusal> {
    let refuse = |pointer: &str, reason: String| {
        let contract = format!("invalid configuration: {reason}");
        let mut findings = Findings::default();
        findings.add_worded(CheckStage::Plugins, pointer, reason, contract);
        findings.finish().map(drop)
    };
    let name = key.own_id();
    if catalog.is_fixed(name) {
        let reason = format!("there is a plugin {name} already, built in or named by the settings");
        refuse("/id", reason)?;
    }
    if value.get("enabled") == Some(&Value::Bool(false)) {
        return Ok(None);
    }
    let language = value.get("language").and_then(Value::as_str).unwrap_or_default();
    let loaded = || -> Result<LoadedExtension, (String, String)> {
        let at = |pointer: &str| {
            let pointer = pointer.to_owned();
            move |reason: String| (pointer, reason)
        };
        let loader = loader_for(catalog, language).map_err(at("/language"))?;
        let versions = versions(loader, language, value)?;
        let named = |pointer: &str| {
            let name = value.pointer(pointer).and_then(Value::as_str)?;
            versions.iter().find(|version| version.version == name)
        };
        let one = |version: &WrittenVersion<'_>| load_one(loader, name, language, version);
        let active =
            named("/active").or(versions.last()).ok_or_else(|| at("")("it has no version".to_owned()))?;
        let active = one(active)?;
        let canary = named("/canary/version").map(one).transpose()?;
        Ok(LoadedExtension::new(active, canary))
    };
    match loaded() {
        Ok(loaded) => Ok(Some(loaded)),
        Err((pointer, reason)) => refuse(&pointer, reason).map(|()| None),
    }
}

fn load_one(
    loader: &dyn ExtensionLoader,
    name: &str,
    language: &str,
    version: &WrittenVersion<'_>,
) -> Result<LoadedVersion, (String, String)> {
    let at = |reason| (version.pointer.clone(), format!("{name} cannot be loaded: {reason}"));
    let content = decoded(loader.is_binary(language), version.content).map_err(at)?;
    if content.len() > EXTENSION_CONTENT_BYTES_MAX {
        return Err(at(format!("it is longer than {EXTENSION_CONTENT_BYTES_MAX} bytes")));
    }
    let mut loaded = loader.load(name, language, &content).map_err(at)?;
    CatalogPluginSchemas(&loaded).compile().map_err(at)?;
    loaded.info.version = version.version.clone().into_owned().into();
    Ok(loaded)
}

/// The schemas of a version, which the user wrote.
struct CatalogPluginSchemas<'a>(&'a LoadedVersion);

impl CatalogPluginSchemas<'_> {
    fn compile(&self) -> Result<(), String> {
        let plugin = crate::catalog::CatalogPlugin::of_user(self.0.info.clone());
        plugin.compile().map_err(|error| format!("its schema is no JSON Schema: {error}"))
    }
}

fn loader_for<'c>(catalog: &'c PluginCatalog, language: &str) -> Result<&'c dyn ExtensionLoader, String> {
    let known = catalog.loader().map(ExtensionLoader::languages).unwrap_or_default();
    match catalog.loader() {
        Some(loader) if known.contains(&language) => Ok(loader),
        _ if known.is_empty() => Err("this program has no language for extensions".to_owned()),
        _ => Err(format!("this program has no language {language}; it has {}", known.join(" and "))),
    }
}

/// The pointer, the content and the name of each version.
fn contents(value: &Value) -> impl Iterator<Item = (String, &str, Option<&str>)> {
    let single = value.get("content").and_then(Value::as_str);
    let list = value.get("versions").and_then(Value::as_array).into_iter().flatten().enumerate();
    let listed = list.filter_map(|(index, version)| {
        let content = version.get("content")?.as_str()?;
        let name = version.get("version").and_then(Value::as_str);
        Some((format!("/versions/{index}/content"), content, name))
    });
    single.into_iter().map(|content| ("/content".to_owned(), content, None)).chain(listed)
}

/// The versions with their names.
fn versions<'v>(
    loader: &dyn ExtensionLoader,
    language: &str,
    value: &'v Value,
) -> Result<Vec<WrittenVersion<'v>>, (String, String)> {
    let is_binary = loader.is_binary(language);
    let one = |(pointer, content, name): (String, &'v str, Option<&'v str>)| {
        let is_digest =
            |name: &str| name.len() == DIGEST_CHARS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let version = match name {
            Some(name) if !is_digest(name) => Cow::Borrowed(name),
            _ => match decoded(is_binary, content) {
                Ok(content) => Cow::Owned(version_of(&content)),
                Err(reason) => return Err((pointer, reason)),
            },
        };
        match name {
            Some(name) if name != version => {
                Err((pointer, format!("its SHA-256 is {version}, and its version says {name}")))
            }
            _ => Ok(WrittenVersion { pointer, version, content }),
        }
    };
    contents(value).map(one).collect()
}

/// The characters of a SHA-256 in hexadecimal.
const DIGEST_CHARS: usize = 64;
