//! A request for the router, made from its parts.

use std::net::IpAddr;

use router::RequestView;
use router::vars::{Value, Variable, VariableSource};

/// A request of a method, host and path from an address, with query arguments.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The host.
    pub raw_host: String,
    /// The decoded canonical path.
    pub path: String,
    /// The client's address.
    pub address: IpAddr,
    /// The query arguments.
    pub args: Vec<(&'static str, &'static str)>,
    host: String,
}

impl Request {
    /// `GET` from 127.0.0.1 without arguments.
    pub fn get(raw_host: &str, path: &str) -> Self {
        let lower = raw_host.to_ascii_lowercase();
        let host = match lower.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
            _ => lower,
        };
        let address = IpAddr::from([127, 0, 0, 1]);
        Self {
            method: "GET",
            raw_host: raw_host.to_owned(),
            path: path.to_owned(),
            address,
            args: Vec::new(),
            host,
        }
    }
}

impl VariableSource for Request {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        match variable {
            Variable::Arg(name) => {
                self.args.iter().find(|arg| arg.0 == &**name).map(|arg| Value::from(arg.1))
            }
            _ => None,
        }
    }
}

impl RequestView for Request {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn raw_host(&self) -> &[u8] {
        self.raw_host.as_bytes()
    }

    fn method_bit(&self) -> Option<u8> {
        router::methods::method_bit(self.method.as_bytes())
    }

    fn remote_addr(&self) -> IpAddr {
        self.address
    }
}
