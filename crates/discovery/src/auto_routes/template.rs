//! The block `auto_routes`: which services get a route, its path, and the parts that all these routes share.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::discovery::ServiceKey;
use model::{ObjectKey, ObjectKind};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The rules that make a route of a service.
#[derive(Debug)]
pub(crate) struct RouteTemplate {
    registry: &'static str,
    include: Vec<Regex>,
    exclude: Vec<Regex>,
    has_lower_case: bool,
    strips_prefix: bool,
    /// In front of all paths; empty, or with a slash at its front only.
    prefix: String,
    /// The path with `{service}`, without slashes at its ends.
    path: String,
    /// The name of a service and the path that is made of its groups.
    mapper: Option<(Regex, String)>,
    args: Map<String, Value>,
    /// For each version its name in paths and the arguments that choose its instances.
    versions: Vec<(String, Map<String, Value>)>,
    /// The path of versions, with `{service}` and `{version}`.
    version_path: String,
    /// The parts of every route.
    route: Map<String, Value>,
}

/// One route.
#[derive(Debug)]
pub(super) struct AutoRoute {
    pub(super) key: ObjectKey,
    pub(super) uri: String,
    pub(super) text: Arc<str>,
}

#[derive(Deserialize)]
struct AutoRoutesBlock {
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default = "yes")]
    lower_case: bool,
    #[serde(default = "yes")]
    strip_prefix: bool,
    #[serde(default)]
    prefix: String,
    #[serde(default = "default_path")]
    path: String,
    pattern: Option<String>,
    replacement: Option<String>,
    #[serde(default)]
    versions: BTreeMap<String, Map<String, Value>>,
    #[serde(default = "default_version_path")]
    version_path: String,
    #[serde(default)]
    discovery_args: Map<String, Value>,
    #[serde(default)]
    route: Map<String, Value>,
}

fn yes() -> bool {
    true
}

fn default_path() -> String {
    SERVICE.to_owned()
}

fn default_version_path() -> String {
    format!("{VERSION}/{SERVICE}")
}

/// The JSON Schema of the block.
pub(crate) fn build_auto_routes_schema() -> Value {
    let globs = |description: &str| {
        json!({
            "description": description,
            "type": "array", "maxItems": 256, "items": {"type": "string", "minLength": 1, "maxLength": 256}
        })
    };
    json!({
        "description": "Makes a route of each service that the registry lists.",
        "type": "object",
        "properties": {
            "include": globs("Services that get a route: names in any case, with `*` and `?`; without it, all."),
            "exclude": globs("Services that get none."),
            "lower_case": {"description": "Whether paths have the name in lower case.", "type": "boolean", "default": true},
            "strip_prefix": {"description": "Whether nodes get the path without the part that names the service.", "type": "boolean", "default": true},
            "prefix": {"description": "In front of all paths, such as /api.", "type": "string", "maxLength": 256},
            "path": {"description": "The path, with {service} for the name; everything below it belongs to the service.", "type": "string", "minLength": 1, "maxLength": 256, "default": SERVICE},
            "pattern": {"description": "A regular expression for whole names of services, with groups such as (?<name>.+)-(?<version>v[0-9]+).", "type": "string", "minLength": 1, "maxLength": 512},
            "replacement": {"description": "The path in place of `path` where `pattern` matches, such as ${version}/${name}.", "type": "string", "minLength": 1, "maxLength": 256},
            "versions": {
                "description": "One more route of each service for each version: its name in paths, and the discovery_args that choose its instances.",
                "type": "object", "maxProperties": 16,
                "propertyNames": {"pattern": "^[A-Za-z0-9_.~-]{1,64}$"},
                "additionalProperties": {"type": "object", "minProperties": 1}
            },
            "version_path": {"description": "The path of those routes, with {service} and {version}.", "type": "string", "minLength": 1, "maxLength": 256, "default": "{version}/{service}"},
            "discovery_args": {"description": "The namespace and group of the services, as in an upstream.", "type": "object"},
            "route": {"description": "Fields that every route has, such as plugins and hosts; `upstream` for fields of its upstream.", "type": "object"}
        },
        "dependencies": {"pattern": ["replacement"], "replacement": ["pattern"]},
        "additionalProperties": false
    })
}

impl RouteTemplate {
    /// The rules of a block that obeys the schema.
    ///
    /// # Errors
    /// A sentence about the fault.
    pub(crate) fn read(registry: &'static str, block: &Value) -> Result<RouteTemplate, String> {
        let block = AutoRoutesBlock::deserialize(block).map_err(|error| error.to_string())?;
        let globs = |all: Vec<String>| all.iter().map(|text| glob(text)).collect::<Result<Vec<_>, _>>();
        let mapper = match (block.pattern, block.replacement) {
            (Some(pattern), Some(replacement)) => {
                let regex = compiled(&format!("^(?:{pattern})$"), false)
                    .map_err(|reason| format!("`pattern` is no regular expression: {reason}"))?;
                Some((regex, replacement))
            }
            _ => None,
        };
        if mapper.is_none() && !block.path.contains(SERVICE) {
            return Err(format!("`path` names no service; write {SERVICE} in it"));
        }
        if !block.version_path.contains(SERVICE) || !block.version_path.contains(VERSION) {
            return Err(format!("`version_path` has to contain {SERVICE} and {VERSION}"));
        }
        if !block.versions.is_empty() && registry == "file" {
            return Err("`versions` needs arguments of discovery, and files of targets have none".to_owned());
        }
        check_route(&block.route, block.strip_prefix)?;
        let prefix = match block.prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("/{prefix}"),
        };
        let template = RouteTemplate {
            registry,
            include: globs(block.include)?,
            exclude: globs(block.exclude)?,
            has_lower_case: block.lower_case,
            strips_prefix: block.strip_prefix,
            prefix,
            path: block.path.trim_matches('/').to_owned(),
            mapper,
            args: block.discovery_args,
            versions: block.versions.into_iter().collect(),
            version_path: block.version_path.trim_matches('/').to_owned(),
            route: block.route,
        };
        for route in template.routes("a") {
            route.map_err(|reason| format!("the path of a service `a` cannot be used: {reason}"))?;
        }
        Ok(template)
    }

    /// See `AutoRoutes::list_of`.
    pub(super) fn list_of(&self) -> ServiceKey {
        let mut key = ServiceKey::new(self.registry, "");
        for (name, value) in &self.args {
            let text: Box<str> = value.as_str().map_or_else(|| value.to_string(), str::to_owned).into();
            match name.as_str() {
                "namespace_id" => key.namespace = text,
                "group_name" => key.group = text,
                _ => drop(key.args.insert(name.as_str().into(), text)),
            }
        }
        key
    }

    /// Whether the service is to get a route.
    pub(super) fn includes(&self, service: &str) -> bool {
        let is_in = |globs: &[Regex]| globs.iter().any(|glob| glob.is_match(service));
        (self.include.is_empty() || is_in(&self.include)) && !is_in(&self.exclude)
    }

    /// The hosts of the routes, as text: routes with other hosts do not compete for a path.
    pub(super) fn hosts(&self) -> String {
        let hosts = self.route.get("hosts").or(self.route.get("host"));
        hosts.map(Value::to_string).unwrap_or_default()
    }

    /// The routes of a service: its own, and one for each version. An error is the reason why there can be
    /// none.
    pub(super) fn routes(&self, service: &str) -> Vec<Result<AutoRoute, String>> {
        let path = self.path(service);
        let own = path.and_then(|path| self.route(service, &path, &self.args, &id(self.registry, service)));
        let version = |(version, args): &(String, Map<String, Value>)| {
            let path = self.version_path.replace(VERSION, version).replace(SERVICE, &self.name(service)?);
            let mut all = self.args.clone();
            all.extend(args.clone());
            // A space is in no name, so that the id is that of no service.
            self.route(
                service,
                &self.below_prefix(&path)?,
                &all,
                &id(self.registry, &format!("{service} {version}")),
            )
        };
        std::iter::once(own).chain(self.versions.iter().map(version)).collect()
    }

    /// The route of a service at this path, with the instances that the arguments choose.
    fn route(
        &self,
        service: &str,
        path: &str,
        args: &Map<String, Value>,
        id: &str,
    ) -> Result<AutoRoute, String> {
        let uri = format!("{path}/*");
        let mut route = self.route.clone();
        let mut upstream = match route.remove("upstream") {
            Some(Value::Object(upstream)) => upstream,
            _ => Map::new(),
        };
        upstream.insert("discovery_type".to_owned(), Value::from(self.registry));
        upstream.insert("service_name".to_owned(), Value::from(service));
        if !args.is_empty() {
            upstream.insert("discovery_args".to_owned(), Value::Object(args.clone()));
        }
        if self.strips_prefix {
            let rewrite = json!([format!("^{}/(.*)", regex::escape(path)), "/$1"]);
            let plugins = route.entry("plugins").or_insert_with(|| json!({}));
            if let Some(plugins) = plugins.as_object_mut() {
                let plugin = plugins.entry("proxy-rewrite").or_insert_with(|| json!({}));
                plugin["regex_uri"] = rewrite;
            }
        }
        route.insert("id".to_owned(), Value::from(id));
        route.insert("uri".to_owned(), Value::from(uri.as_str()));
        route.insert("priority".to_owned(), Value::from(PRIORITY));
        route.insert("upstream".to_owned(), Value::Object(upstream));
        let key = ObjectKey::new(ObjectKind::Route, id).map_err(|error| error.to_string())?;
        Ok(AutoRoute { key, uri, text: Value::Object(route).to_string().into() })
    }

    /// The name of a service in paths.
    fn name(&self, service: &str) -> Result<String, String> {
        if !service.bytes().all(is_plain) {
            return Err("its name has characters other than letters, digits and `-_.~`".to_owned());
        }
        Ok(if self.has_lower_case { service.to_ascii_lowercase() } else { service.to_owned() })
    }

    /// The path of a service, without a slash at its end.
    fn path(&self, service: &str) -> Result<String, String> {
        let name = self.name(service)?;
        let mapped = self.mapper.as_ref().and_then(|(pattern, replacement)| {
            let groups = pattern.captures(&name)?;
            let mut path = String::new();
            groups.expand(replacement, &mut path);
            Some(path)
        });
        self.below_prefix(&mapped.unwrap_or_else(|| self.path.replace(SERVICE, &name)))
    }

    /// A path below the prefix of all paths, if each of its segments is a plain text.
    fn below_prefix(&self, path: &str) -> Result<String, String> {
        let whole = format!("{}/{path}", self.prefix);
        let segments: Vec<&str> = whole.split('/').filter(|segment| !segment.is_empty()).collect();
        match segments
            .iter()
            .find(|segment| matches!(**segment, "." | "..") || !segment.bytes().all(is_plain))
        {
            Some(segment) => Err(format!("its path {whole} has the segment `{segment}`")),
            None if segments.is_empty() => Err("its path is empty".to_owned()),
            None => Ok(format!("/{}", segments.join("/"))),
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// Refuses fields of `route` that the gateway sets itself.
fn check_route(route: &Map<String, Value>, strips_prefix: bool) -> Result<(), String> {
    let own = ["id", "uri", "uris", "priority", "upstream_id"];
    if let Some(name) = own.iter().find(|name| route.contains_key(**name)) {
        return Err(format!("`route.{name}` is made by the gateway; leave it out"));
    }
    let of_upstream =
        |name: &&&str| route.get("upstream").is_some_and(|upstream| upstream.get(**name).is_some());
    if let Some(name) = ["nodes", "discovery_type", "service_name", "discovery_args"].iter().find(of_upstream)
    {
        return Err(format!("`route.upstream.{name}` is made by the gateway; leave it out"));
    }
    for (name, expected) in [("plugins", "plugins"), ("upstream", "fields of an upstream")] {
        if route.get(name).is_some_and(|value| !value.is_object()) {
            return Err(format!("`route.{name}` is a map of {expected}"));
        }
    }
    let rewrite = route.get("plugins").and_then(|plugins| plugins.get("proxy-rewrite"));
    let Some(rewrite) = rewrite.filter(|_| strips_prefix) else { return Ok(()) };
    match ["uri", "regex_uri"].iter().find(|name| rewrite.get(**name).is_some()) {
        Some(name) => Err(format!("`proxy-rewrite.{name}` in `route` needs `strip_prefix: false`")),
        None if rewrite.is_object() => Ok(()),
        None => Err("`proxy-rewrite` in `route` is a map".to_owned()),
    }
}

/// A glob for whole names: `*` is any text, `?` one character, in any case of letters.
fn glob(text: &str) -> Result<Regex, String> {
    let pattern = regex::escape(text).replace("\\*", ".*").replace("\\?", ".");
    compiled(&format!("^{pattern}$"), true)
}

fn compiled(pattern: &str, ignores_case: bool) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).case_insensitive(ignores_case).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| error.to_string())
}

/// The id of a route: readable where the name is an id and short, otherwise with a hash of it.
fn id(registry: &str, service: &str) -> String {
    let id = format!("{ID_PREFIX}{registry}.{service}");
    if ObjectKey::new(ObjectKind::Route, &id).is_ok() {
        return id;
    }
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, service.as_bytes());
    let digest = data_encoding::HEXLOWER.encode(&digest.as_ref()[..ID_HASH_BYTES]);
    format!("{ID_PREFIX}{registry}.{digest}")
}

/// Stands for the name of the service.
const SERVICE: &str = "{service}";
/// Stands for the name of the version.
const VERSION: &str = "{version}";
/// In front of the ids of all automatic routes.
const ID_PREFIX: &str = "auto.";
/// Bytes of the hash in an id; collisions among 2,000 services are out of the question.
const ID_HASH_BYTES: usize = 16;
/// Below every priority that users write, so that a written route with the same path goes first.
const PRIORITY: i64 = -1_000_000_000;
/// Memory of a compiled pattern in bytes; an ordinary one needs some kilobytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
