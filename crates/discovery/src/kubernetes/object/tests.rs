//! Tests of the reading of lists.

use serde_json::{Value, json};

use super::*;

fn slice_object() -> Value {
    json!({"metadata": {"name": "web-1", "namespace": "shop", "resourceVersion": "7",
            "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "zone": "z", "targetRef": {"name": "p"}},
            {"addresses": ["10.0.0.2"]},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["10.0.0.4"], "conditions": {"ready": false}},
            {"addresses": ["not one"]}, 7],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "x"}]})
}

#[test]
fn slices_keep_addresses_with_conditions() {
    let list = json!({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [
        slice_object(), {"metadata": {"name": "a", "namespace": "b"}}, {"metadata": {}}]});
    let page = parse_slice_page(list.to_string().as_bytes(), KubernetesKind::EndpointSlices).unwrap();
    assert_eq!((page.version.as_str(), page.next.as_deref(), page.faulty), ("9", Some("more"), 1));
    assert_eq!((page.slices.len(), page.objects), (1, 3));
    let slice = &page.slices[0];
    assert_eq!((&*slice.service, &*slice.name), ("shop/web", "web-1"));
    let states: Vec<AddressState> = slice.subsets[0].addresses.iter().map(|address| address.state).collect();
    assert_eq!(
        states,
        [AddressState::Ready, AddressState::Ready, AddressState::Draining, AddressState::Closed]
    );
    assert_eq!(slice.subsets[0].ports.len(), 1);
    assert!(slice.reason.as_ref().unwrap().contains("is no host"));
}

#[test]
fn endpoints_are_read_by_subset() {
    let list = json!({"metadata": {"resourceVersion": "9"}, "items": [
        {"metadata": {"name": "web", "namespace": "shop"}, "subsets": [
            {"addresses": [{"ip": "10.0.0.1", "nodeName": "n"}], "notReadyAddresses": [{"ip": "10.0.0.2"}],
                "ports": [{"port": 80}]}]},
        {"metadata": {"name": "none", "namespace": "shop"}, "subsets": null}]});
    let page = parse_slice_page(list.to_string().as_bytes(), KubernetesKind::Endpoints).unwrap();
    assert_eq!(page.slices.len(), 2);
    assert_eq!(page.slices[0].subsets[0].addresses.len(), 1);
    assert!(page.slices[1].subsets.is_empty());
}

#[test]
fn garbage_is_refused() {
    for text in
        ["", "{}", "<html>", "{\"metadata\":{},\"items\":[]}", "{\"metadata\":{\"resourceVersion\":\"1\"}}"]
    {
        assert!(parse_slice_page(text.as_bytes(), KubernetesKind::EndpointSlices).is_err(), "{text}");
    }
}
