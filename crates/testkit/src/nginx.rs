//! nginx as a peer of a test: an origin or a proxy of another project. Tests do not install it.

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
    /// Whether nginx can be run. `make test` installs it; without it a test may skip itself.
    pub fn is_available() -> bool {
        Nginx::version().is_some()
    }

    /// The first line of `nginx -v`; `None` if it cannot be run.
    pub fn version() -> Option<String> {
        program_version("nginx")
    }

    /// Starts nginx with `server`, the content of its `server` block without `listen`. `$DIRECTORY` in the
    /// text stands for [`Nginx::directory`], for example as `root`.
    pub fn start(server: &str) -> Nginx {
        Nginx::start_listening("", "", server)
    }

    /// As [`Nginx::start`], with `beside` (such as `upstream` blocks) in front of the `server` block.
    pub fn start_beside(beside: &str, server: &str) -> Nginx {
        Nginx::start_listening("", beside, server)
    }

    /// As [`Nginx::start`], with TLS and a certificate for this machine.
    pub fn start_with_tls(certificates: &Certificates, server: &str) -> Nginx {
        let (certificate, key) = (certificates.certificate(), certificates.key());
        let (certificate, key) = (certificate.display(), key.display());
        let server = format!("ssl_certificate {certificate}; ssl_certificate_key {key}; {server}");
        Nginx::start_listening(" ssl", "", &server)
    }

    fn start_listening(options: &str, beside: &str, server: &str) -> Nginx {
        // Another process may take the free port before nginx listens on it.
        for _ in 0..ATTEMPTS {
            if let Some(nginx) = Nginx::try_start(options, beside, server) {
                return nginx;
            }
        }
        panic!("nginx found no free port in {ATTEMPTS} attempts");
    }

    /// Starts nginx as a plain proxy of all requests to `origin`.
    pub fn proxying(origin: SocketAddr) -> Nginx {
        Nginx::start(&format!(
            "location / {{ proxy_pass http://{origin}; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}"
        ))
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its own directory, for files to serve.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Its error log.
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
        // TERM to the master ends its worker too; after KILL of the master the worker would remain.
        if self.process.signal(rustix::process::Signal::TERM) {
            self.process.wait();
        }
    }
}

/// One worker, all files in its own directory, errors on stderr.
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
