//! Files that a plugin's configuration names: read whole, when the configuration is compiled. It knows no
//! plugin.

use std::fs::File;
use std::io::Read;

/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads the file that the attribute `name` names.
///
/// # Errors
/// Why it cannot be read, without anything of its contents.
pub(crate) fn read_config_file(name: &str, path: &str) -> Result<String, String> {
    let fault = |reason: &dyn std::fmt::Display| format!("{name}: {path}: {reason}");
    // Opening a pipe would wait for its writer.
    let about = std::fs::metadata(path).map_err(|error| fault(&error))?;
    if !about.is_file() {
        return Err(fault(&"it is no file"));
    }
    let file = File::open(path).map_err(|error| fault(&error))?;
    let mut text = String::new();
    let count = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| fault(&error))?;
    if count as u64 > FILE_BYTES_MAX {
        return Err(fault(&"it is longer than 4 MiB"));
    }
    Ok(text)
}
