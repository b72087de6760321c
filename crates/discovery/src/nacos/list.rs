//! The list of all services of one namespace and group of Nacos, page by page, where routes are made of them.
//! Version 3 has it among its calls of administration only, for which the user needs the right.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::asker::{NacosClient, NacosService};
use crate::Services;
use crate::auto_routes::Names;
use crate::http::RegistryRequest;
use crate::limits::RegistryLimits;
use crate::parts::{encoded, read_names, shortened};

/// Asks for the list without end; ends at once where no routes are made of it.
pub(super) async fn follow_nacos_services(asker: Arc<NacosClient>, services: Services, interval: Duration) {
    let Some(of) = services.list_of() else { return };
    let namespace = if of.namespace.is_empty() { "public" } else { &of.namespace };
    let group = if of.group.is_empty() { "DEFAULT_GROUP" } else { &of.group };
    services.list_by(interval, || all(&asker, namespace, group)).await;
}

/// The names of all pages.
async fn all(asker: &NacosClient, namespace: &str, group: &str) -> Result<Names, String> {
    let mut names = Names::new();
    for number in 1..=RegistryLimits::default().services / PAGE + 1 {
        let query = format!(
            "pageNo={number}&pageSize={PAGE}&namespaceId={}&groupName={}",
            encoded(namespace),
            encoded(group)
        );
        // Version 3 calls the group by another name, and finds parts of it.
        let query = format!("{query}&groupNameParam={}", encoded(group));
        let call = |is_third: bool| RegistryRequest::get(format!("{}?{query}", asker.list_path(is_third)));
        let reply = asker.send(NacosService { group, name: "" }, &call).await?;
        let page = names_of(reply.success()?, group)?;
        let count = page.len();
        names.extend(page.into_iter().flatten());
        if count < PAGE {
            break;
        }
    }
    Ok(names)
}

/// The names of a page; none stands for a service of another group.
fn names_of(body: &[u8], group: &str) -> Result<Vec<Option<Box<str>>>, String> {
    #[derive(Deserialize)]
    struct NacosServicePage {
        /// Version 1.
        doms: Option<Vec<Box<str>>>,
        code: Option<i64>,
        message: Option<String>,
        data: Option<NacosPageData>,
    }
    #[derive(Deserialize)]
    struct NacosPageData {
        #[serde(rename = "pageItems")]
        items: Vec<NacosPageItem>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NacosPageItem {
        name: Box<str>,
        group_name: Option<Box<str>>,
    }
    let page: NacosServicePage = read_names(body).map_err(|error| format!("no list of services: {error}"))?;
    match page {
        NacosServicePage { code: Some(code), message, .. } if code != 0 => {
            Err(format!("Nacos answers code {code}: {}", shortened(&message.unwrap_or_default())))
        }
        NacosServicePage { doms: Some(names), .. } => Ok(names.into_iter().map(Some).collect()),
        NacosServicePage { data: Some(data), .. } => {
            let is_of_it = |item: &NacosPageItem| item.group_name.as_deref().is_none_or(|name| name == group);
            Ok(data.items.into_iter().map(|item| is_of_it(&item).then_some(item.name)).collect())
        }
        _ => Err("the answer has neither `doms` nor `data`".to_owned()),
    }
}

/// Services of one page.
const PAGE: usize = 500;

#[cfg(test)]
mod tests {
    use super::names_of;

    #[test]
    fn pages_of_both_versions_are_read() {
        let read = |body: &str| {
            names_of(body.as_bytes(), "G")
                .map(|names| names.iter().flatten().map(|name| name.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(read(r#"{"count":2,"doms":["a","b"]}"#).unwrap(), ["a", "b"]);
        let third = r#"{"code":0,"data":{"totalCount":2,"pageItems":[{"name":"a","groupName":"G"},{"name":"b","groupName":"GH"}]}}"#;
        assert_eq!(read(third).unwrap(), ["a"]);
        assert!(read(r#"{"code":10001,"message":"no right"}"#).unwrap_err().contains("no right"));
        assert!(read("{}").unwrap_err().contains("neither"));
    }
}
