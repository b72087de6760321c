//! The setting of the zones, in the form of `apisix.proxy_cache` of the contract.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The zones of this instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    pub(super) zones: Vec<ZoneSettings>,
    /// Seconds for which a response on disk is fresh that says nothing of it.
    pub(super) disk_ttl_s: u64,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneSettings {
    pub(super) name: Box<str>,
    /// The entries of a zone in memory, the index of one on disk.
    pub(super) memory_bytes: u64,
    pub(super) disk: Option<DiskSettings>,
}

/// The part of a zone that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskSettings {
    pub(super) path: PathBuf,
    pub(super) size_bytes: u64,
    /// The digits of a file's name that name each folder above it.
    pub(super) levels: Box<[usize]>,
}

/// A zone in memory smaller than this holds nothing worth the name.
const BYTES_MIN: u64 = 1 << 20;
/// Zones of one instance.
const ZONES_MAX: usize = 64;
const DEFAULT_TTL_S: u64 = 10;
const DEFAULT_MEMORY: u64 = 50 << 20;
const DEFAULT_DISK: u64 = 1 << 30;

impl CacheSettings {
    /// The zones of the contract's default configuration, the one on disk in the folder `data`.
    pub fn in_folder(data: &Path) -> CacheSettings {
        let disk = DiskSettings {
            path: data.join("cache").join(super::DEFAULT_ZONE),
            size_bytes: DEFAULT_DISK,
            levels: [1, 2].into(),
        };
        let zone = |name: &str, disk| ZoneSettings { name: name.into(), memory_bytes: DEFAULT_MEMORY, disk };
        CacheSettings {
            zones: vec![zone(super::DEFAULT_ZONE, Some(disk)), zone("memory_cache", None)],
            disk_ttl_s: DEFAULT_TTL_S,
        }
    }

    /// Reads `{"cache_ttl": …, "zones": […]}`; a relative path is one below `folder`.
    ///
    /// # Errors
    /// The field with the fault, and the form of a good value.
    pub fn parse(written: &Value, folder: &Path) -> Result<CacheSettings, String> {
        let fields = written.as_object().ok_or("is a map with `zones` and `cache_ttl`")?;
        known(fields, &["cache_ttl", "zones"], "")?;
        let disk_ttl_s = match fields.get("cache_ttl") {
            Some(time) => seconds(time).ok_or("cache_ttl: is a time such as `10s` or `5m`")?,
            None => DEFAULT_TTL_S,
        };
        let zones = match fields.get("zones") {
            Some(Value::Array(zones)) => zones.as_slice(),
            Some(_) => return Err("zones: is a list".to_owned()),
            None => return Ok(CacheSettings { disk_ttl_s, ..CacheSettings::in_folder(folder) }),
        };
        if zones.len() > ZONES_MAX {
            return Err(format!("zones: there are at most {ZONES_MAX}"));
        }
        let mut read: Vec<ZoneSettings> = Vec::new();
        for (index, zone) in zones.iter().enumerate() {
            let zone =
                ZoneSettings::parse(zone, folder).map_err(|reason| format!("zones[{index}]: {reason}"))?;
            if read.iter().any(|other| other.name == zone.name) {
                return Err(format!("zones[{index}]: the name `{}` is taken", zone.name));
            }
            let path = |zone: &ZoneSettings| zone.disk.as_ref().map(|disk| disk.path.clone());
            if let Some(path) = path(&zone)
                && read.iter().any(|other| self::overlaps(&path, other))
            {
                return Err(format!("zones[{index}]: another zone has the folder `{}`", path.display()));
            }
            read.push(zone);
        }
        Ok(CacheSettings { zones: read, disk_ttl_s })
    }
}

/// Whether a folder is that of `zone`, above or below it.
fn overlaps(path: &Path, zone: &ZoneSettings) -> bool {
    let held = zone.disk.as_ref().map(|disk| &disk.path);
    held.is_some_and(|held| held.starts_with(path) || path.starts_with(held))
}

impl ZoneSettings {
    fn parse(written: &Value, folder: &Path) -> Result<ZoneSettings, String> {
        let fields = written.as_object().ok_or("is a map with `name` and `memory_size`")?;
        known(fields, &["name", "memory_size", "disk_size", "disk_path", "cache_levels"], "")?;
        let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() || name.len() > 100 {
            return Err("name: is a text of 1 to 100 bytes".to_owned());
        }
        let size = |field: &str| match fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(size) => match bytes(size).filter(|bytes| *bytes >= BYTES_MIN) {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(format!("{field}: is a size such as `50m` or `1g`, at least `1m`")),
            },
        };
        let memory_bytes =
            size("memory_size")?.ok_or("memory_size: is missing; write a size such as `50m`")?;
        let disk_bytes = size("disk_size")?;
        let disk = match fields.get("disk_path").and_then(Value::as_str).filter(|path| !path.is_empty()) {
            Some(path) => Some(DiskSettings {
                path: folder.join(path),
                size_bytes: disk_bytes.ok_or("disk_size: is missing; write a size such as `1g`")?,
                levels: levels(fields.get("cache_levels")).ok_or(
                    "cache_levels: are one to three digits, `1` or `2`, with colons between, such as `1:2`",
                )?,
            }),
            None if disk_bytes.is_some() => return Err("disk_path: is missing beside `disk_size`".to_owned()),
            None => None,
        };
        Ok(ZoneSettings { name: name.into(), memory_bytes, disk })
    }
}

fn known(fields: &serde_json::Map<String, Value>, names: &[&str], at: &str) -> Result<(), String> {
    let Some(name) = fields.keys().find(|name| !names.contains(&name.as_str())) else { return Ok(()) };
    Err(match stdx::nearest::nearest(name, names.iter().copied()) {
        Some(near) => format!("{at}unknown field `{name}`; did you mean `{near}`?"),
        None => format!("{at}unknown field `{name}`"),
    })
}

/// Bytes of a number or of `50m`.
fn bytes(written: &Value) -> Option<u64> {
    let Value::String(text) = written else { return written.as_u64() };
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Seconds of a number or of `10s`; at least one.
fn seconds(written: &Value) -> Option<u64> {
    let Value::String(text) = written else { return written.as_u64().filter(|seconds| *seconds > 0) };
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit).filter(|seconds| *seconds > 0)
}

fn levels(written: Option<&Value>) -> Option<Box<[usize]>> {
    let text = match written {
        None | Some(Value::Null) => "1:2".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return None,
    };
    let level = |part: &str| match part {
        "1" => Some(1),
        "2" => Some(2),
        _ => None,
    };
    let levels: Option<Box<[usize]>> = text.split(':').map(level).collect();
    levels.filter(|levels| levels.len() <= 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zones_of_the_contract_are_read() {
        let written = json!({"cache_ttl": "5m", "zones": [
            {"name": "d", "memory_size": "50m", "disk_size": "1G", "disk_path": "/tmp/d", "cache_levels": "2:2:1"},
            {"name": "m", "memory_size": 2_097_152},
        ]});
        let got = CacheSettings::parse(&written, Path::new("/data")).unwrap();
        let disk = DiskSettings { path: "/tmp/d".into(), size_bytes: 1 << 30, levels: [2, 2, 1].into() };
        let zones = vec![
            ZoneSettings { name: "d".into(), memory_bytes: 50 << 20, disk: Some(disk) },
            ZoneSettings { name: "m".into(), memory_bytes: 2 << 20, disk: None },
        ];
        assert_eq!(got, CacheSettings { zones, disk_ttl_s: 300 });
        let default = CacheSettings::parse(&json!({}), Path::new("/data")).unwrap();
        assert_eq!(default, CacheSettings::in_folder(Path::new("/data")));
    }

    #[test]
    fn faulty_zones_are_refused_with_field() {
        let check = |zones: Value, expected: &str| {
            let got = CacheSettings::parse(&json!({"zones": zones}), Path::new("/")).unwrap_err();
            assert!(got.contains(expected), "{zones}: {got}");
        };
        check(json!({}), "zones: is a list");
        check(json!([1]), "zones[0]: is a map");
        check(json!([{"memory_size": "1m"}]), "name:");
        check(json!([{"name": "a"}]), "memory_size: is missing");
        check(json!([{"name": "a", "memory_size": "1k"}]), "at least `1m`");
        check(json!([{"name": "a", "memory_size": "1x"}]), "memory_size:");
        check(json!([{"name": "a", "memory_sise": "1m"}]), "did you mean `memory_size`?");
        check(json!([{"name": "a", "memory_size": "1m", "disk_path": "/d"}]), "disk_size: is missing");
        check(json!([{"name": "a", "memory_size": "1m", "disk_size": "1g"}]), "disk_path: is missing");
        let disk = |name: &str, path: &str, levels: &str| json!({"name": name, "memory_size": "1m", "disk_size": "1g", "disk_path": path, "cache_levels": levels});
        check(json!([disk("a", "/d", "3")]), "cache_levels");
        check(json!([disk("a", "/d", "1:2:1:2")]), "cache_levels");
        check(json!([disk("a", "/d", "1"), disk("a", "/e", "1")]), "the name `a` is taken");
        check(json!([disk("a", "/d", "1"), disk("b", "/d/e", "1")]), "another zone has the folder");
        let ttl = CacheSettings::parse(&json!({"cache_ttl": "0"}), Path::new("/")).unwrap_err();
        assert!(ttl.contains("cache_ttl"), "{ttl}");
    }
}
