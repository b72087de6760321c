//! OpenLDAP's server as a peer of a test, with a directory of a few users. `lab/install.sh test` installs it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::{ATTEMPTS, free_address, listens};
use crate::process::Process;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Slapd {
    plain: SocketAddr,
    tls: SocketAddr,
    folder: TempDir,
    /// Kept, because the files go with it.
    _certificates: Certificates,
    process: Option<Process>,
}

impl Slapd {
    /// Starts a server with these users below `ou=users,dc=example,dc=org`: the value of `cn` as it stands in
    /// a distinguished name, and the password.
    pub fn start(certificates: &Certificates, users: &[(&str, &str)]) -> Slapd {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::tempdir().expect("a temporary directory");
            write_directory(folder.path(), certificates, users);
            let mut slapd = Slapd {
                plain: free_address(),
                tls: free_address(),
                folder,
                _certificates: certificates.clone(),
                process: None,
            };
            if slapd.spawn() {
                return slapd;
            }
        }
        panic!("slapd found no free ports in {ATTEMPTS} attempts");
    }

    /// The address of LDAP in clear text.
    pub fn address(&self) -> SocketAddr {
        self.plain
    }

    /// The address of LDAP over TLS.
    pub fn tls_address(&self) -> SocketAddr {
        self.tls
    }

    /// Ends it; its data stays.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again after [`Slapd::stop`].
    pub fn go_on(&mut self) {
        let is_up = self.spawn();
        let errors = self.process.as_ref().map(|process| process.stderr.text()).unwrap_or_default();
        assert!(is_up, "slapd does not start again: {errors}");
    }

    fn spawn(&mut self) -> bool {
        let mut command = Command::new("/usr/sbin/slapd");
        command.args(["-d", "stats", "-h", &format!("ldap://{}/ ldaps://{}/", self.plain, self.tls)]);
        command.arg("-f").arg(self.folder.path().join(CONFIGURATION));
        let mut process = Process::spawn(&mut command).expect("slapd: `lab/install.sh test` installs it");
        let is_up = listens(self.plain, &mut process) && listens(self.tls, &mut process);
        self.process = Some(process);
        is_up
    }
}

/// Writes the configuration, and the users into the database.
fn write_directory(folder: &Path, certificates: &Certificates, users: &[(&str, &str)]) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a writable directory");
    fs::create_dir(folder.join("data")).expect("a writable directory");
    let configuration = TEMPLATE
        .replace("$FOLDER", &folder.display().to_string())
        .replace("$CERTIFICATE", &certificates.certificate().display().to_string())
        .replace("$KEY", &certificates.key().display().to_string());
    write(CONFIGURATION, configuration);
    let mut entries =
        "dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\no: example\n\n\
                       dn: ou=users,dc=example,dc=org\nobjectClass: organizationalUnit\n\n"
            .to_owned();
    for (name, password) in users {
        entries += &format!(
            "dn: cn={name},ou=users,dc=example,dc=org\nobjectClass: person\nsn: user\nuserPassword: {password}\n\n"
        );
    }
    write("entries.ldif", entries);
    let mut add = Command::new("/usr/sbin/slapadd");
    add.arg("-f").arg(folder.join(CONFIGURATION)).arg("-l").arg(folder.join("entries.ldif"));
    let added = add.output().expect("slapadd: `lab/install.sh test` installs it");
    assert!(added.status.success(), "slapadd: {}", String::from_utf8_lossy(&added.stderr));
}

const CONFIGURATION: &str = "slapd.conf";
const TEMPLATE: &str = "include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $FOLDER/slapd.pid
TLSCertificateFile $CERTIFICATE
TLSCertificateKeyFile $KEY
database mdb
suffix dc=example,dc=org
directory $FOLDER/data
";
