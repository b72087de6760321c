//! The settings of the plugin runner: its command, its user and its variables. Starts nothing.

use super::written::SettingTexts;

/// The user that a runner runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunnerUser {
    /// The number of the user.
    pub(crate) uid: u32,
    /// The number of the group.
    pub(crate) gid: u32,
}

/// The file with the users of the machine.
const USERS: &str = "/etc/passwd";

/// A program and its arguments: a list, a list as JSON, or words with spaces between.
pub(super) fn command(given: &SettingTexts) -> Result<Vec<String>, String> {
    let words = match given.values.as_slice() {
        [] => Vec::new(),
        [text] if text.trim_start().starts_with('[') => serde_json::from_str(text)
            .map_err(|_| "is no list of texts in JSON, such as `[\"./runner\", \"run\"]`".to_owned())?,
        [text] => text.split_whitespace().map(str::to_owned).collect(),
        several => several.to_vec(),
    };
    match words.first() {
        Some(program) if program.is_empty() => Err("has no program".to_owned()),
        _ if words.iter().any(|word| word.contains('\0')) => Err("has a zero byte".to_owned()),
        _ => Ok(words),
    }
}

/// Names of variables, or names with values.
pub(super) fn environment(given: &SettingTexts) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        let first = name.bytes().next();
        first.is_some_and(|byte| !byte.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let entries = match given.values.as_slice() {
        // A value in a list may hold commas.
        [text] if !text.contains('=') => text.split(',').map(str::trim).collect(),
        several => several.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    let entries: Vec<String> =
        entries.into_iter().filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
    for entry in &entries {
        let name = entry.split_once('=').map_or(&**entry, |(name, _)| name);
        if !is_name(name) || entry.contains('\0') {
            return Err(format!("`{entry}` is no variable; write NAME or NAME=VALUE"));
        }
        if name.starts_with("WEIR_") {
            return Err(format!("`{name}` may be a secret of the gateway, which no runner gets"));
        }
    }
    Ok(entries)
}

/// A user by name, or by number with the group.
pub(super) fn user(given: &SettingTexts) -> Result<Option<RunnerUser>, String> {
    let Some(text) = given.values.first().filter(|text| !text.is_empty()) else { return Ok(None) };
    let numbers = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    if let Some((uid, gid)) = numbers {
        return Ok(Some(RunnerUser { uid, gid }));
    }
    let users = std::fs::read_to_string(USERS).map_err(|error| format!("{USERS} cannot be read: {error}"))?;
    find(&users, text)
        .map(Some)
        .ok_or_else(|| format!("`{text}` is no user in {USERS}; write a name or UID:GID"))
}

/// The user of that name in a file such as /etc/passwd (passwd(5)).
fn find(users: &str, name: &str) -> Option<RunnerUser> {
    let entry =
        users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|entry| entry[0] == name)?;
    Some(RunnerUser { uid: entry.get(2)?.parse().ok()?, gid: entry.get(3)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::super::fault::SettingLocation;
    use super::*;

    fn given(values: &[&str]) -> SettingTexts {
        SettingTexts {
            values: values.iter().map(|text| (*text).to_owned()).collect(),
            place: SettingLocation::Default,
        }
    }

    #[test]
    fn commands_are_lists_or_words() {
        let check =
            |values: &[&str], expected: &[&str]| assert_eq!(command(&given(values)).unwrap(), expected);
        check(&[], &[]);
        check(&["java -jar r.jar"], &["java", "-jar", "r.jar"]);
        check(&["[\"/a b/runner\", \"run\"]"], &["/a b/runner", "run"]);
        check(&["/a b/runner", "run"], &["/a b/runner", "run"]);
        assert!(command(&given(&["[1]"])).is_err());
        assert!(command(&given(&["", "run"])).is_err());
    }

    #[test]
    fn variables_have_names_and_no_secrets() {
        assert_eq!(environment(&given(&["A, B_1"])).unwrap(), ["A", "B_1"]);
        assert_eq!(environment(&given(&["A=1,2", "B"])).unwrap(), ["A=1,2", "B"]);
        assert!(environment(&given(&[])).unwrap().is_empty());
        for faulty in ["1A", "A B", "=1", "WEIR_ADMIN_KEY", "WEIR_X=1"] {
            assert!(environment(&given(&[faulty])).is_err(), "{faulty}");
        }
    }

    #[test]
    fn users_are_found_by_name_or_number() {
        assert_eq!(user(&given(&["7:8"])), Ok(Some(RunnerUser { uid: 7, gid: 8 })));
        assert_eq!(user(&given(&[])), Ok(None));
        let users = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:34::/:/bin/false\n";
        assert_eq!(find(users, "www"), Some(RunnerUser { uid: 33, gid: 34 }));
        assert_eq!(find(users, "ww"), None);
    }
}
