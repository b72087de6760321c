//! Parsers from written texts to values: one function for each kind of setting. Reads no file.

mod access_log_format;
mod acme;
mod addresses;
mod secrets;
mod stream;

use std::path::PathBuf;
use std::str::FromStr;

use exchange::options::AltSvc;
use gateway::compile::ExpiredCertificates;
use model::check::UnknownFields;
use model::settings::RouterMode;
use net::tls::roots::TrustRoots;
use net::tls::server::Versions;
use stdx::nearest::nearest;
use tracing_subscriber::filter::Targets;

use super::values::{ErrorLog, ErrorLogFormat, LogTarget, MemoryLimit, Overload, ResourceSource};
use super::written::SettingTexts;
pub(super) use access_log_format::{parse_access_log_format, stream_access_log_format};
pub(super) use acme::{
    acme_authorities, acme_challenges, acme_domains, acme_names, email, external_accounts,
};
pub(super) use addresses::{
    endpoints, family_order, hosts, listener, name_servers, networks, parse_listeners,
};
pub(super) use secrets::{parse_admin_key, parse_admin_keys, parse_keyring, secret};
pub(super) use stream::{stream_listeners, stream_routes};

/// Versions of TLS.
pub(super) fn tls_versions(given: &SettingTexts) -> Result<Versions, String> {
    Versions::parse(
        items(given).into_iter().flat_map(|text| text.split([' ', ':'])).filter(|text| !text.is_empty()),
    )
}

/// Cipher suites by OpenSSL's names, or nothing.
pub(super) fn tls_ciphers(given: &SettingTexts) -> Result<Option<String>, String> {
    named_list(given, net::tls::names::check_suites)
}

/// Curves by OpenSSL's names, or nothing.
pub(super) fn tls_curves(given: &SettingTexts) -> Result<Option<String>, String> {
    named_list(given, net::tls::names::check_curves)
}

fn named_list(given: &SettingTexts, check: fn(&str) -> Result<(), String>) -> Result<Option<String>, String> {
    let list = items(given).join(":");
    if list.is_empty() {
        return Ok(None);
    }
    check(&list).map(|()| Some(list))
}

/// A path.
pub(super) fn parse_path(given: &SettingTexts) -> Result<PathBuf, String> {
    match single(given)? {
        "" => Err("is empty; write a path".to_owned()),
        text => Ok(given.resolve(text)),
    }
}

/// A path, or nothing.
pub(super) fn optional_path(given: &SettingTexts) -> Result<Option<PathBuf>, String> {
    if given.values.is_empty() { Ok(None) } else { parse_path(given).map(Some) }
}

/// Folders, or none.
pub(super) fn folders(given: &SettingTexts) -> Result<Vec<PathBuf>, String> {
    Ok(items(given).into_iter().map(|text| given.resolve(text)).collect())
}

/// Files with certificates, and the word for those of the system.
pub(super) fn trusted_certificates(given: &SettingTexts) -> Result<Vec<String>, String> {
    let entry = |entry: &str| match entry {
        TrustRoots::SYSTEM => entry.to_owned(),
        file => given.resolve(file).to_string_lossy().into_owned(),
    };
    let entries: Vec<String> = items(given).into_iter().map(entry).collect();
    if entries.is_empty() { Err("is empty; write `system` or a file".to_owned()) } else { Ok(entries) }
}

/// A text, or nothing.
pub(super) fn optional_text(given: &SettingTexts) -> Result<Option<String>, String> {
    single(given).map(|text| Some(text).filter(|text| !text.is_empty()).map(str::to_owned))
}

/// The id of the instance.
pub(super) fn instance_id(given: &SettingTexts) -> Result<Option<String>, String> {
    match optional_text(given)? {
        Some(text) if !control::instance_id::is_id(&text) => Err(format!(
            "`{text}` is no id: up to {} visible characters without `/`",
            control::instance_id::ID_MAX_BYTES
        )),
        id => Ok(id),
    }
}

/// The value of `Alt-Svc`.
pub(super) fn alt_svc(given: &SettingTexts) -> Result<AltSvc, String> {
    match single(given)? {
        "auto" => Ok(AltSvc::Port),
        "off" => Ok(AltSvc::Off),
        text if !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
            Ok(AltSvc::Text(text.into()))
        }
        text => Err(format!(
            "`{text}` is no value of a field; write `auto`, `off`, or text such as `h3=\":443\"; ma=3600`"
        )),
    }
}

/// The source of resources.
pub(super) fn parse_resource_source(given: &SettingTexts) -> Result<ResourceSource, String> {
    match single(given)? {
        "auto" => Ok(ResourceSource::Auto),
        "store" => Ok(ResourceSource::Store),
        "file" => Ok(ResourceSource::File),
        "etcd" => Ok(ResourceSource::Etcd),
        other => Err(format!("`{other}` is no source; write `store`, `file`, `etcd` or `auto`")),
    }
}

/// The treatment of unknown fields.
pub(super) fn unknown_fields(given: &SettingTexts) -> Result<UnknownFields, String> {
    match single(given)? {
        "refuse" => Ok(UnknownFields::Refuse),
        "warn" => Ok(UnknownFields::Warn),
        "accept" => Ok(UnknownFields::Accept),
        other => Err(format!("`{other}` is none of `refuse`, `warn` and `accept`")),
    }
}

/// The treatment of expired certificates.
pub(super) fn expired_certificates(given: &SettingTexts) -> Result<ExpiredCertificates, String> {
    match single(given)? {
        "serve" => Ok(ExpiredCertificates::Serve),
        "refuse" => Ok(ExpiredCertificates::Refuse),
        other => Err(format!("`{other}` is none of `serve` and `refuse`")),
    }
}

/// A prefix of keys in etcd: a path that begins with a slash and does not end with one.
pub(super) fn etcd_prefix(given: &SettingTexts) -> Result<String, String> {
    let text = single(given)?;
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.len() > 1 && text.starts_with('/') && !text.ends_with('/') && plain {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a prefix such as `/apisix`: a slash in front, none at the end"))
    }
}

/// `true` or `false`, also as `on`/`off` and `yes`/`no`.
pub(super) fn switch(given: &SettingTexts) -> Result<bool, String> {
    match single(given)? {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        other => Err(format!("`{other}` is neither `true` nor `false`")),
    }
}

/// A whole number from `LEAST` to `MOST`.
pub(super) fn parse_number<const LEAST: u64, const MOST: u64>(given: &SettingTexts) -> Result<u64, String> {
    let text = single(given)?;
    let plain = text.replace('_', "");
    match plain.parse::<u64>() {
        Ok(number) if (LEAST..=MOST).contains(&number) => Ok(number),
        Ok(_) => Err(format!("{text} is not between {LEAST} and {MOST}")),
        Err(_) => Err(format!("`{text}` is not a whole number between {LEAST} and {MOST}, without a unit")),
    }
}

/// As [`parse_number`], as a `usize`.
pub(super) fn size<const LEAST: u64, const MOST: u64>(given: &SettingTexts) -> Result<usize, String> {
    parse_number::<LEAST, MOST>(given).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// As [`parse_number`], as a `u32`.
pub(super) fn count<const LEAST: u64, const MOST: u64>(given: &SettingTexts) -> Result<u32, String> {
    parse_number::<LEAST, MOST>(given).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// An amount of memory, `auto` or `off`.
pub(super) fn parse_memory_limit(given: &SettingTexts) -> Result<MemoryLimit, String> {
    let text = single(given)?;
    let (digits, unit) = match text {
        "off" => return Ok(MemoryLimit::Off),
        "auto" => return Ok(MemoryLimit::Auto),
        _ if text.ends_with("MiB") => (&text[..text.len() - 3], 1 << 20),
        _ if text.ends_with("GiB") => (&text[..text.len() - 3], 1 << 30),
        _ => (text, 1),
    };
    let plain = digits.trim_end().replace('_', "");
    match plain.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(bytes) if bytes >= MEMORY_BYTES_MIN => Ok(MemoryLimit::Bytes(bytes)),
        Some(_) => {
            Err(format!("{text} is too little to work in; write at least {}MiB", MEMORY_BYTES_MIN >> 20))
        }
        None => {
            Err(format!("`{text}` is no amount of memory; write bytes, `512MiB`, `2GiB`, `auto` or `off`"))
        }
    }
}

/// The reaction to slow nodes.
pub(super) fn overload(given: &SettingTexts) -> Result<Overload, String> {
    match single(given)? {
        "off" => Ok(Overload::Off),
        "adaptive" => Ok(Overload::Adaptive),
        other => Err(format!("`{other}` is neither `adaptive` nor `off`")),
    }
}

/// A number of workers, or `auto`.
pub(super) fn parse_workers(given: &SettingTexts) -> Result<usize, String> {
    match single(given)? {
        "auto" => Ok(available_cores()),
        _ => size::<1, 1_024>(given).map_err(|reason| format!("{reason}; `auto` takes one for each core")),
    }
}

/// The cores that this process may use, within its affinity and the quota of its cgroup (v1 or v2); at least
/// 1.
pub(crate) fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The name of a router mode.
pub(super) fn router_mode(given: &SettingTexts) -> Result<RouterMode, String> {
    match single(given)? {
        "radixtree_host_uri" => Ok(RouterMode::RadixtreeHostUri),
        "radixtree_uri" => Ok(RouterMode::RadixtreeUri),
        "radixtree_uri_with_parameter" => Ok(RouterMode::RadixtreeUriWithParameter),
        other => Err(format!(
            "`{other}` is not a router mode; write `radixtree_host_uri`, `radixtree_uri` or \
             `radixtree_uri_with_parameter`"
        )),
    }
}

/// The text of a `Server` header, or `off`.
pub(super) fn server_header(given: &SettingTexts) -> Result<Option<String>, String> {
    match single(given)? {
        "off" => Ok(None),
        text if !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
            Ok(Some(text.to_owned()))
        }
        _ => Err("is not a header value: one line of visible ASCII, or `off`".to_owned()),
    }
}

/// The name of a header field.
pub(super) fn field_name(given: &SettingTexts) -> Result<String, String> {
    match single(given)? {
        "proxy_protocol" => {
            Err("the PROXY protocol has listeners of its own, `proxy_protocol`; name a header field"
                .to_owned())
        }
        text if message::Headers::new().append(text, b"").is_ok() => Ok(text.to_owned()),
        text => Err(format!("`{text}` is not the name of a header field, such as `X-Forwarded-For`")),
    }
}

/// A version in numbers and dots, or `off`.
pub(super) fn parse_version(given: &SettingTexts) -> Result<Option<String>, String> {
    let text = single(given)?;
    if text == "off" {
        return Ok(None);
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if text.split('.').count() == 3 && text.split('.').all(is_number) {
        Ok(Some(text.to_owned()))
    } else {
        Err(format!("`{text}` is not a version such as `{}`, nor `off`", control::EMULATED_VERSION))
    }
}

/// Names of built-in plugins; none for `all`.
pub(super) fn parse_enabled_plugins(given: &SettingTexts) -> Result<Option<Vec<String>>, String> {
    let names = items(given);
    if names == ["all"] {
        return Ok(None);
    }
    let known = || ::plugins::ALL.iter().map(|kind| kind.name);
    let name = |name: &&str| match known().find(|known| known == name) {
        Some(known) => Ok(known.to_owned()),
        None => Err(match nearest(name, known()) {
            Some(near) => format!("there is no plugin `{name}`; did you mean `{near}`?"),
            None => format!("there is no plugin `{name}`"),
        }),
    };
    names.iter().map(name).collect::<Result<_, _>>().map(Some)
}

/// Names of plugins, also of those that are not built in.
pub(super) fn parse_plugin_names(given: &SettingTexts) -> Result<Vec<String>, String> {
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let name = |name: &str| match is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("`{name}` is not the name of a plugin, such as `jwt-auth`")),
    };
    items(given).into_iter().map(name).collect()
}

/// The target of the access log.
pub(super) fn parse_access_log(given: &SettingTexts) -> Result<LogTarget, String> {
    match single(given)? {
        "off" => Ok(LogTarget::Off),
        "stdout" => Ok(LogTarget::Stdout),
        "stderr" => Err("`stderr` is for the error log; write `stdout`, `off` or a path".to_owned()),
        _ => parse_path(given).map(LogTarget::File),
    }
}

/// The target of the error log.
pub(super) fn parse_error_log(given: &SettingTexts) -> Result<ErrorLog, String> {
    match single(given)? {
        "stderr" => Ok(ErrorLog::Stderr),
        "stdout" | "off" => Err("is `stderr` or a path; `log_level: off` silences it".to_owned()),
        _ => parse_path(given).map(ErrorLog::File),
    }
}

/// The format of the error log.
pub(super) fn error_log_format(given: &SettingTexts) -> Result<ErrorLogFormat, String> {
    match single(given)? {
        "text" => Ok(ErrorLogFormat::Text),
        "json" => Ok(ErrorLogFormat::Json),
        other => Err(format!("`{other}` is neither `text` nor `json`")),
    }
}

/// A level, or levels by part. Kept as text, because the log also takes a text when its level is changed at
/// run time.
pub(super) fn log_level(given: &SettingTexts) -> Result<String, String> {
    let text = items(given).join(",");
    log_filter(&text).map(|_| text)
}

/// The filter for a `log_level` text.
///
/// # Errors
/// The fault of the text, with the allowed values.
pub(crate) fn log_filter(text: &str) -> Result<Targets, String> {
    let known = |level: &str| LEVELS.contains(&level.to_ascii_lowercase().as_str());
    for part in text.split(',').map(str::trim) {
        let level = part.split_once('=').map_or(part, |(_, level)| level);
        if !known(level) {
            return Err(format!(
                "`{part}` is not a level; write {}, or `part=level`, with commas between",
                LEVELS.join(", ")
            ));
        }
    }
    Targets::from_str(text).map_err(|error| error.to_string())
}

/// The only value. Several values are refused, because ignoring the first ones would hide a mistake.
fn single(given: &SettingTexts) -> Result<&str, String> {
    match &given.values[..] {
        [] => Ok(""),
        [one] => Ok(one.trim()),
        many => Err(format!("takes one value, {} were given", many.len())),
    }
}

/// The values of a list: repeated flags, or one text with commas.
fn items(given: &SettingTexts) -> Vec<&str> {
    let parts = given.values.iter().flat_map(|value| value.split(','));
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Least memory limit: an idle instance with some routes holds about 20 MiB, and each worker keeps up to 12
/// MiB of buffers for reuse.
const MEMORY_BYTES_MIN: u64 = 48 << 20;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[cfg(test)]
mod tests;
