//! A client that keeps cookies, follows redirects and fills in forms, for logins at real providers. It runs
//! no scripts.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;

use crate::client::{Client, Response};

/// A browser with its cookies.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    hosts: HashMap<String, SocketAddr>,
    cookies: Vec<Cookie>,
}

/// A cookie as the browser keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The authority that has set it.
    pub host: String,
    /// The path that it is sent for.
    pub path: String,
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A response with the URL that it is from.
#[derive(Clone, Debug)]
pub struct Page {
    /// The URL.
    pub url: String,
    /// The response.
    pub response: Response,
}

impl Browser {
    /// A browser without cookies.
    pub fn new() -> Browser {
        Browser::default()
    }

    /// Finds `host` at this address; other hosts have to be addresses.
    pub fn know(mut self, host: &str, address: SocketAddr) -> Browser {
        self.hosts.insert(host.to_owned(), address);
        self
    }

    /// The cookies, for tests that read or change them.
    pub fn cookies(&mut self) -> &mut Vec<Cookie> {
        &mut self.cookies
    }

    /// Asks for `url` and follows no redirect.
    pub fn step(&mut self, url: &str) -> Page {
        self.ask("GET", url, &[], "")
    }

    /// As [`Browser::step`], with further fields.
    pub fn step_with(&mut self, url: &str, fields: &[(&str, &str)]) -> Page {
        self.ask("GET", url, fields, "")
    }

    /// Asks for `url` and follows redirects.
    pub fn visit(&mut self, url: &str) -> Page {
        let page = self.step(url);
        self.follow(page)
    }

    /// Follows the redirects of a page.
    pub fn follow(&mut self, mut page: Page) -> Page {
        for _ in 0..REDIRECTS_MAX {
            match page.location() {
                Some(url) => page = self.step(&url),
                None => return page,
            }
        }
        panic!("more than {REDIRECTS_MAX} redirects, the last one from {}", page.url);
    }

    /// Follows redirects until one leads to a URL that begins with `start`, which is not asked for; gives
    /// that URL.
    pub fn follow_to(&mut self, mut page: Page, start: &str) -> String {
        for _ in 0..REDIRECTS_MAX {
            let url = page.location();
            let url = url.unwrap_or_else(|| panic!("{} answered {}", page.url, page.response.status));
            if url.starts_with(start) {
                return url;
            }
            page = self.step(&url);
        }
        panic!("more than {REDIRECTS_MAX} redirects, the last one from {}", page.url);
    }

    /// Submits the first form of a page with these values beside its hidden ones, and follows no redirect.
    pub fn submit(&mut self, page: &Page, values: &[(&str, &str)]) -> Page {
        let text = page.response.text();
        let form = Form::first_of(&text).unwrap_or_else(|| panic!("{} has no form: {text}", page.url));
        let hidden = form.hidden.iter().map(|(name, value)| (&**name, &**value));
        let body = encoded(hidden.chain(values.iter().copied()));
        let fields = [("Content-Type", "application/x-www-form-urlencoded")];
        self.ask("POST", &resolve(&page.url, &form.action), &fields, &body)
    }

    /// Logs in at the provider with this page, and agrees to what it asks for; follows redirects up to the
    /// one to a URL that begins with `back`, which is not asked for.
    pub fn log_in(&mut self, mut page: Page, user: &str, password: &str, back: &str) -> String {
        for _ in 0..FORMS_MAX {
            let credentials = [("login", user), ("username", user), ("password", password)];
            let has_password = page.response.text().contains("name=\"password\"");
            let next = self.submit(&page, if has_password { &credentials } else { &[] });
            let mut next = next;
            loop {
                match next.location() {
                    Some(url) if url.starts_with(back) => return url,
                    Some(url) => next = self.step(&url),
                    None => break,
                }
            }
            page = next;
        }
        panic!("no way back after {FORMS_MAX} forms: {} {}", page.url, page.response.text());
    }

    fn ask(&mut self, method: &str, url: &str, fields: &[(&str, &str)], body: &str) -> Page {
        let (host, target) = split(url);
        let address = self.hosts.get(host).copied().or_else(|| host.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the browser does not know {host} of {url}"));
        let path = target.split('?').next().unwrap_or_default();
        let is_for = |cookie: &&Cookie| cookie.host == host && path.starts_with(&*cookie.path);
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .filter(is_for)
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        let cookies = cookies.join("; ");
        let mut all = vec![("Host", host)];
        if !cookies.is_empty() {
            all.push(("Cookie", &cookies));
        }
        all.extend(fields);
        let response = Client::connect(address).request(method, target, &all, body.as_bytes());
        for line in response.header_all("set-cookie") {
            self.keep(host, line);
        }
        Page { url: url.to_owned(), response }
    }

    fn keep(&mut self, host: &str, line: &str) {
        let mut parts = line.split(';').map(str::trim);
        let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).unwrap_or_default();
        let attribute = |wanted: &str| {
            let named = line.split(';').filter_map(|part| part.trim().split_once('='));
            named.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).next_back()
        };
        let path = attribute("path").unwrap_or("/");
        self.cookies.retain(|cookie| (&*cookie.host, &*cookie.path, &*cookie.name) != (host, path, name));
        let is_removal = attribute("max-age") == Some("0")
            || attribute("expires").is_some_and(|date| date.contains(" 1970 "));
        if !is_removal {
            let [host, path, name, value] = [host, path, name, value].map(str::to_owned);
            self.cookies.push(Cookie { host, path, name, value });
        }
    }
}

impl Page {
    /// The absolute URL that a redirect leads to.
    pub fn location(&self) -> Option<String> {
        let is_redirect = (300..400).contains(&self.response.status);
        let location = self.response.header("location").filter(|_| is_redirect)?;
        Some(resolve(&self.url, location))
    }
}

struct Form {
    action: String,
    hidden: Vec<(String, String)>,
}

impl Form {
    fn first_of(html: &str) -> Option<Form> {
        let start = html.find("<form")?;
        let form = &html[start..];
        let form = &form[..form.find("</form>")?];
        let action = attribute(&form[..form.find('>')?], "action")?;
        let inputs = form.split("<input").skip(1).map(|tag| tag.split('>').next().unwrap_or_default());
        let hidden = inputs.filter(|tag| attribute(tag, "type").as_deref() == Some("hidden"));
        let pair = |tag: &str| Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()));
        Some(Form { action, hidden: hidden.filter_map(pair).collect() })
    }
}

/// The value of an attribute in a tag, without the character references that providers write.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = &tag[start..];
    Some(value[..value.find('"')?].replace("&amp;", "&"))
}

/// Authority and target of an absolute URL.
fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url} is no http URL"));
    rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash))
}

fn resolve(base: &str, reference: &str) -> String {
    if reference.starts_with("http://") || reference.starts_with("https://") {
        return reference.to_owned();
    }
    let (host, target) = split(base);
    let folder = &target[..target.split('?').next().unwrap_or_default().rfind('/').unwrap_or(0)];
    match reference.strip_prefix('/') {
        Some(path) => format!("http://{host}/{path}"),
        None => format!("http://{host}{folder}/{reference}"),
    }
}

fn encoded<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        for (part, end) in [(name, "="), (value, "")] {
            for byte in part.bytes() {
                if byte.is_ascii_alphanumeric() {
                    text.push(char::from(byte));
                } else {
                    write!(text, "%{byte:02X}").expect("a text grows");
                }
            }
            text.push_str(end);
        }
    }
    text
}

/// The most redirects in a row.
const REDIRECTS_MAX: usize = 20;
/// The most forms of one login.
const FORMS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_read_with_hidden_values() {
        let html = "<p><form id=\"f\" action=\"/a?b=1&amp;c=2\" method=\"post\"><input type=\"hidden\" name=\"h\" \
                    value=\"v\"/><input type=\"text\" name=\"t\"/></form>";
        let form = Form::first_of(html).unwrap();
        assert_eq!((&*form.action, form.hidden), ("/a?b=1&c=2", vec![("h".to_owned(), "v".to_owned())]));
    }

    #[test]
    fn references_are_resolved() {
        let check =
            |reference: &str, expected: &str| assert_eq!(resolve("http://a/b/c?d=/e", reference), expected);
        check("http://x/y", "http://x/y");
        check("/y", "http://a/y");
        check("y", "http://a/b/y");
    }
}
