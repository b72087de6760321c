//! The hosts file: its answer for a name is final, so that name servers are not asked. It is read again when
//! it has changed. Names of the zone `localhost` never leave the machine (RFC 6761 section 6.3). It chooses
//! no address.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;

/// The bytes of a hosts file that are read; lists of blocked names have some 6 MiB.
const FILE_MAX_BYTES: u64 = 16 << 20;
/// The name of this machine.
const LOCALHOST: &str = "localhost";

/// See the module.
pub(super) struct HostsFile {
    path: PathBuf,
    read: Mutex<HostNames>,
}

/// The names of a file as of its last change.
#[derive(Default)]
struct HostNames {
    stamp: Option<(SystemTime, u64)>,
    addresses: HashMap<Box<str>, Vec<IpAddr>>,
}

impl HostsFile {
    /// The file at `path`; it may be missing.
    pub(super) fn at(path: impl Into<PathBuf>) -> HostsFile {
        HostsFile { path: path.into(), read: Mutex::default() }
    }

    /// The addresses of `name`, in any case of letters and with or without a dot at its end; none where the
    /// file does not have it and it is not of the zone `localhost`.
    pub(super) fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let mut read = self.read.lock();
        read.refresh(&self.path);
        if let Some(addresses) = read.addresses.get(&*name) {
            return Some(addresses.clone());
        }
        let is_local = name == LOCALHOST || name.ends_with(".localhost");
        let loopback = || vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        is_local.then(|| read.addresses.get(LOCALHOST).cloned().unwrap_or_else(loopback))
    }
}

impl HostNames {
    /// Reads the file again if its time or size is another one. A file that cannot be read has no names.
    fn refresh(&mut self, path: &Path) {
        let found = std::fs::metadata(path).ok().filter(Metadata::is_file);
        let stamp = found.and_then(|found| Some((found.modified().ok()?, found.len())));
        if stamp == self.stamp && stamp.is_some() {
            return;
        }
        let mut text = Vec::new();
        if stamp.is_some()
            && let Err(error) =
                File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut text))
        {
            tracing::warn!(path = %path.display(), %error, "cannot read the hosts file");
        }
        *self = HostNames { stamp, addresses: names_of(&String::from_utf8_lossy(&text)) };
    }
}

/// The names of a text: lines of an address and names, with comments behind `#`. Lines without an address are
/// passed over.
fn names_of(text: &str) -> HashMap<Box<str>, Vec<IpAddr>> {
    let mut names: HashMap<Box<str>, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else { continue };
        for name in words {
            let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
            let addresses = names.entry(name.into()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_file_answers_for_its_names_and_localhost() {
        let path = std::env::temp_dir().join(format!("hosts-{}", std::process::id()));
        let hosts = HostsFile::at(&path);
        let check = |text: Option<&str>, rows: &[(&str, Option<&[&str]>)]| {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            for (name, expected) in rows {
                let found = hosts.addresses(name);
                let found: Option<Vec<String>> =
                    found.map(|all| all.iter().map(ToString::to_string).collect());
                let expected =
                    expected.map(|all| all.iter().map(ToString::to_string).collect::<Vec<String>>());
                assert_eq!(found, expected, "{name} in {text:?}");
            }
        };
        let v4: Option<&[&str]> = Some(&["127.0.0.1"]);
        let both: Option<&[&str]> = Some(&["127.0.0.1", "::1"]);
        let text = "# own\n127.0.0.1\tlocalhost # here\n10.0.0.5 Db.test db\nnone x\nfe80::1%lo y\n";
        check(
            Some(text),
            &[
                ("localhost", v4),
                ("LOCALHOST", v4),
                ("localhost.", v4),
                ("foo.localhost", v4),
                ("notlocalhost", None),
                ("db.test", Some(&["10.0.0.5"])),
                ("DB", Some(&["10.0.0.5"])),
                ("x", None),
                ("y", None),
            ],
        );
        let text = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.0.1 localhost\n";
        check(Some(text), &[("localhost", both), ("a.b.localhost.", both), ("db.test", None)]);
        check(Some("10.0.0.9 special.localhost"), &[("special.localhost", Some(&["10.0.0.9"]))]);
        check(None, &[("localhost", both), ("special.localhost", both), ("db.test", None)]);
    }
}
