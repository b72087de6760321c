//! The id of an instance: made at its first start and kept in the data folder, so that it is the same after a
//! restart. It is no secret.

use std::io;
use std::path::Path;

use crate::source::store::make_directory;

/// The file in the data folder.
const FILE: &str = "instance.uid";
/// Longest id in bytes; that of the settings and that of the file.
pub const ID_MAX_BYTES: usize = 128;

/// Whether a text may be an id: visible ASCII without `/`, because it becomes the end of a key in etcd.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let is_usable = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    (1..=ID_MAX_BYTES).contains(&text.len()) && text.bytes().all(is_usable)
}

/// The id in `directory`, or a new one, which is a random UUID and is written there.
///
/// # Errors
/// The file cannot be read or written, holds no id, or the system has no random numbers.
pub fn load_or_create_instance_id(directory: &Path) -> io::Result<String> {
    let path = directory.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) if is_id(text.trim()) => return Ok(text.trim().to_owned()),
        Ok(_) => {
            let reason = format!("{}: holds no id; delete it to have a new one made", path.display());
            return Err(io::Error::other(reason));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|fault| io::Error::other(fault.to_string()))?;
    let id = uuid::Builder::from_random_bytes(random).into_uuid().to_string();
    make_directory(directory)?;
    std::fs::write(&path, format!("{id}\n"))?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("data");
        let id = load_or_create_instance_id(&folder).unwrap();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id}");
        assert_eq!(load_or_create_instance_id(&folder).unwrap(), id);
        std::fs::write(folder.join(FILE), "gateway-1\n").unwrap();
        assert_eq!(load_or_create_instance_id(&folder).unwrap(), "gateway-1");
        std::fs::write(folder.join(FILE), "a b\n").unwrap();
        assert!(load_or_create_instance_id(&folder).unwrap_err().to_string().contains("holds no id"));
    }

    #[test]
    fn id_is_one_step_of_a_key() {
        for (text, good) in [
            ("a", true),
            ("gateway-1.example", true),
            ("", false),
            ("a/b", false),
            ("a b", false),
            ("\n", false),
        ] {
            assert_eq!(is_id(text), good, "{text:?}");
        }
        assert!(!is_id(&"a".repeat(ID_MAX_BYTES + 1)));
    }
}
