//! The laboratory's files: the scenarios and the contenders' folders, which the program contains and unpacks,
//! or a folder of the user's own. It knows their names and not their content.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, bail};
use stdx::nearest::nearest;

use crate::contender::Definition;
use crate::scenario::Scenario;

/// A file that the program holds.
#[derive(Hash)]
struct File {
    name: &'static str,
    runs: bool,
    bytes: &'static [u8],
}

/// All files, listed by `build.rs`.
static HELD: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Selects the files; an argument of every command that needs them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FilesArguments {
    /// Take `scenarios` and `contenders` from this folder instead of those in the program
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
}

/// The scenarios and contenders of a command, and where installed programs are kept.
#[derive(Clone, Debug)]
pub struct LabFiles {
    folder: PathBuf,
    cache: PathBuf,
}

impl LabFiles {
    /// The requested folder, else the program's own files, unpacked into the cache folder.
    pub fn open(arguments: &FilesArguments) -> anyhow::Result<Self> {
        let cache = cache_folder()?;
        let folder = match &arguments.files {
            Some(folder) => fs::canonicalize(folder)
                .with_context(|| format!("--files {}: no such folder", folder.display()))?,
            None => unpack(&cache)?,
        };
        Ok(Self { folder, cache })
    }

    /// Every scenario, by name. A malformed file is a fault with file, line and reason.
    pub fn scenarios(&self) -> anyhow::Result<Vec<Scenario>> {
        let mut scenarios = Vec::new();
        for path in listing(&self.folder.join("scenarios"))? {
            if path.extension().is_some_and(|ending| ending == "yaml") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let text = read(&path)?;
                scenarios.push(Scenario::parse_file(&name, &path.display().to_string(), &text)?);
            }
        }
        Ok(scenarios)
    }

    /// Every contender, by name.
    pub fn contenders(&self) -> anyhow::Result<Vec<Definition>> {
        let mut contenders = Vec::new();
        for path in listing(&self.folder.join("contenders"))? {
            let file = path.join("contender.yaml");
            if file.is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                contenders.push(Definition::parse_file(&name, &file.display().to_string(), &read(&file)?)?);
            }
        }
        Ok(contenders)
    }

    /// The program that installs and starts a contender.
    pub fn start_script(&self, contender: &Definition) -> PathBuf {
        let folder = contender.variant_of.as_ref().unwrap_or(&contender.name);
        self.folder.join("contenders").join(folder).join("start.sh")
    }

    /// Where start scripts keep what they install (`$CACHE`).
    pub fn installed(&self) -> PathBuf {
        self.cache.join("installed")
    }
}

/// `$WEIR_LAB_DIR`, else `weir-lab` in the user's cache folder.
fn cache_folder() -> anyhow::Result<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("WEIR_LAB_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("weir-lab")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/weir-lab")))
        .context("there is no home folder: name a folder to keep programs in with WEIR_LAB_DIR")?;
    fs::create_dir_all(&folder).with_context(|| {
        format!("cannot make {}: name another folder with WEIR_LAB_DIR", folder.display())
    })?;
    Ok(fs::canonicalize(folder)?)
}

/// Writes the files that the program holds beneath a folder named for their content, once.
fn unpack(cache: &Path) -> anyhow::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    HELD.hash(&mut hasher);
    let folder = cache.join("files").join(format!("{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Unpacked under a temporary name and renamed, because another run may unpack at the same time.
    let fresh = cache.join("files").join(format!(".{}-{:016x}", std::process::id(), hasher.finish()));
    for file in HELD {
        write(&fresh.join(file.name), file).with_context(|| format!("cannot unpack {}", file.name))?;
    }
    if fs::rename(&fresh, &folder).is_err() {
        fs::remove_dir_all(&fresh)?;
        if !folder.is_dir() {
            bail!("cannot write {}", folder.display());
        }
    }
    Ok(folder)
}

fn write(path: &Path, file: &File) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().expect("a file of a folder"))?;
    fs::write(path, file.bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(if file.runs { 0o755 } else { 0o644 }))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn listing(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The named items, in the order of the names; without names all items for which `usual` holds. The error for
/// an unknown name gives the nearest known one.
pub(crate) fn select<T: Clone>(
    kind: &str,
    all: &[T],
    names: &[String],
    name_of: impl Fn(&T) -> &str,
    usual: impl Fn(&T) -> bool,
) -> anyhow::Result<Vec<T>> {
    if names.is_empty() {
        return Ok(all.iter().filter(|item| usual(item)).cloned().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let Some(item) = all.iter().find(|item| name_of(item) == name) else {
            let hint = match nearest(name, all.iter().map(&name_of)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`weir lab list` lists them".to_owned(),
            };
            bail!("unknown {kind} `{name}`; {hint}");
        };
        chosen.push(item.clone());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_program_can_be_read() {
        let cache = tempfile::tempdir().unwrap();
        let folder = unpack(cache.path()).unwrap();
        assert_eq!(unpack(cache.path()).unwrap(), folder, "a second time it is there");
        let files = LabFiles { folder, cache: cache.path().to_owned() };
        let scenarios = files.scenarios().unwrap();
        assert!(scenarios.iter().any(|scenario| scenario.quick));
        let contenders = files.contenders().unwrap();
        let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
        for contender in &contenders {
            let script = files.start_script(contender);
            assert!(script.is_file(), "{} is missing", script.display());
        }
        for scenario in &scenarios {
            for name in scenario.contenders.iter().flatten().chain(&scenario.baseline) {
                assert!(names.contains(&name.as_str()), "{} names {name}", scenario.name);
            }
        }
    }

    #[test]
    fn misspelt_name_is_refused_with_nearest() {
        let all = ["nginx".to_owned(), "haproxy".to_owned()];
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            select("contender", &all, &names, String::as_str, |name| name == "nginx")
        };
        assert_eq!(chosen(&[]).unwrap(), ["nginx"]);
        assert_eq!(chosen(&["haproxy", "nginx"]).unwrap(), ["haproxy", "nginx"]);
        assert_eq!(
            chosen(&["ngnix"]).unwrap_err().to_string(),
            "unknown contender `ngnix`; did you mean `nginx`?"
        );
        assert_eq!(
            chosen(&["apache"]).unwrap_err().to_string(),
            "unknown contender `apache`; `weir lab list` lists them"
        );
    }
}
