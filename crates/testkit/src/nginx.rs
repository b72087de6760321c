//! nginx as a peer of a test: an origin or a proxy that was not written here; never installed by a test.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::{ATTEMPTS, Started, free_address, program_version, when_listening};
use crate::process::Process;

/// A running nginx with one server; stopped when dropped.
#[derive(Debug)]
pub struct Nginx {
    address: SocketAddr,
    directory: TempDir,
    process: Process,
}

impl Nginx {
    /// Whether nginx can be run here. `make test` installs it; elsewhere a test may say that it skips itself.
    pub fn is_available() -> bool {
        Nginx::version().is_some()
    }

    /// What `nginx -v` says, `None` where it cannot be run.
    pub fn version() -> Option<String> {
        program_version("nginx")
    }

    /// Starts nginx with `server`, the inside of its `server` block without `listen`. Files beneath
    /// [`Nginx::directory`] can be served by naming it as `root`, written `$DIRECTORY` in the text.
    pub fn start(server: &str) -> Nginx {
        Nginx::start_listening("", "", server)
    }

    /// The same with `beside`, such as `upstream` blocks, in front of the `server` block.
    pub fn start_beside(beside: &str, server: &str) -> Nginx {
        Nginx::start_listening("", beside, server)
    }

    /// The same for clients that speak TLS, with a certificate for this machine.
    pub fn start_with_tls(certificates: &Certificates, server: &str) -> Nginx {
        let (certificate, key) = (certificates.certificate(), certificates.key());
        let (certificate, key) = (certificate.display(), key.display());
        let server = format!("ssl_certificate {certificate}; ssl_certificate_key {key}; {server}");
        Nginx::start_listening(" ssl", "", &server)
    }

    fn start_listening(options: &str, beside: &str, server: &str) -> Nginx {
        // The port is free when it is chosen, but another process may take it before nginx does.
        for _ in 0..ATTEMPTS {
            if let Some(nginx) = Nginx::try_start(options, beside, server) {
                return nginx;
            }
        }
        panic!("nginx found no free port in {ATTEMPTS} attempts");
    }

    /// Starts nginx as a plain proxy for everything to `origin`.
    pub fn proxying(origin: SocketAddr) -> Nginx {
        Nginx::start(&format!(
            "location / {{ proxy_pass http://{origin}; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}"
        ))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its own directory, for files to serve.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// What it wrote to its error log.
    pub fn errors(&self) -> String {
        self.process.stderr.text()
    }

    fn try_start(options: &str, beside: &str, server: &str) -> Option<Nginx> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let address = free_address();
        let path = directory.path().display().to_string();
        let text = TEMPLATE
            .replace("$SERVER", server)
            .replace("$BESIDE", beside)
            .replace("$LISTEN", &format!("{address}{options}"))
            .replace("$DIRECTORY", &path);
        let file = directory.path().join("nginx.conf");
        fs::write(&file, text).expect("a writable temporary directory");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).arg("-e").arg("stderr").arg("-c").arg(&file);
        let mut process = Process::spawn(&mut command).expect("nginx: not found; `make test` installs it");
        match when_listening("nginx", address, &mut process, "Address already in use") {
            Started::Up => Some(Nginx { address, directory, process }),
            Started::PortTaken => None,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master takes its worker along, which a plain kill would leave behind.
        if self.process.signal(rustix::process::Signal::TERM) {
            self.process.wait();
        }
    }
}

/// One worker, everything it writes in its own directory, errors on stderr.
const TEMPLATE: &str = "daemon off;
worker_processes 1;
pid $DIRECTORY/nginx.pid;
error_log stderr error;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path $DIRECTORY/body;
  proxy_temp_path $DIRECTORY/proxy;
  fastcgi_temp_path $DIRECTORY/fastcgi;
  uwsgi_temp_path $DIRECTORY/uwsgi;
  scgi_temp_path $DIRECTORY/scgi;
  $BESIDE
  server {
    listen $LISTEN;
    $SERVER
  }
}
";
#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::origin::Origin;

    #[test]
    fn proxies_to_an_origin() {
        if !Nginx::is_available() {
            return;
        }
        let origin = Origin::answering("through nginx");
        let nginx = Nginx::proxying(origin.address());
        assert_eq!(Client::connect(nginx.address()).get("/").text(), "through nginx", "{}", nginx.errors());
    }
}
