//! `APISIX_PROFILE`: selects one of several configuration files in a folder. Reads none of them.

use std::path::{Path, PathBuf};

use super::super::EnvironmentReader;

/// `config-dev.yaml` for `config.yaml`, where the environment names the profile `dev`.
pub(in crate::settings) fn of_profile(path: &Path, environment: &EnvironmentReader<'_>) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let suffix = suffix(environment);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("yaml");
    (!suffix.is_empty()).then(|| path.with_file_name(format!("{stem}{suffix}.{extension}")))
}

/// The suffix of a file's name: `-dev`, or empty without a profile.
pub(super) fn suffix(environment: &EnvironmentReader<'_>) -> String {
    let profile = environment(PROFILE_VARIABLE).filter(|profile| !profile.is_empty());
    profile.map_or_else(String::new, |profile| format!("-{profile}"))
}

const PROFILE_VARIABLE: &str = "APISIX_PROFILE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_selects_the_file() {
        let check = |path: &str, profile: Option<&str>, expected: Option<&str>| {
            let environment = |name: &str| profile.filter(|_| name == "APISIX_PROFILE").map(str::to_owned);
            let found = of_profile(Path::new(path), &environment);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{path} {profile:?}");
        };
        check("conf/config.yaml", Some("dev"), Some("conf/config-dev.yaml"));
        check("config.yml", Some("dev"), Some("config-dev.yml"));
        check("/etc/config", Some("a"), Some("/etc/config-a.yaml"));
        check("config.yaml", Some(""), None);
        check("config.yaml", None, None);
    }
}
