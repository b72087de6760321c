//! All secret managers. A manager is one file in `managers/` and one line in [`ALL`]; its name is the one in
//! `$secret://NAME/ID/PATH/KEY`.

mod vault;

use super::manager::SecretManager;

/// Every secret manager.
const ALL: [&dyn SecretManager; 1] = [&vault::Vault];

/// The manager of that name.
///
/// # Errors
/// A sentence that lists the known managers.
pub(super) fn find_secret_manager(name: &str) -> Result<&'static dyn SecretManager, String> {
    ALL.into_iter().find(|manager| manager.name() == name).ok_or_else(|| {
        let known = ALL.map(SecretManager::name).join(", ");
        format!("references to the secret manager {name} are not supported yet: only {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_managers_are_found_by_name() {
        for manager in ALL {
            assert_eq!(find_secret_manager(manager.name()).unwrap().name(), manager.name());
        }
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/secret/managers")).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = files.map(|file| file.trim_end_matches(".rs").to_owned()).collect();
        files.sort();
        let mut listed = ALL.map(SecretManager::name);
        listed.sort_unstable();
        assert_eq!(files, listed, "one file and one line a manager");
    }

    #[test]
    fn unknown_manager_is_refused_with_known_ones() {
        let refused = find_secret_manager("safe").err().unwrap();
        assert!(refused.contains("manager safe are not supported yet: only "), "{refused}");
        assert!(ALL.iter().all(|manager| refused.contains(manager.name())), "{refused}");
    }
}
