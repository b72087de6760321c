//! Metrics of etcd, under APISIX's names (contract 2.6). It does not know how the state came about.

use model::ObjectKind;
use stdx::prometheus_text::{header, sample, scalar};

use crate::source::etcd::EtcdState;
use crate::view::View;

/// Appends etcd's metrics in the Prometheus text format; none where etcd is not the source.
pub(super) fn write_metrics(view: &View, text: &mut String) {
    let Some(etcd) = &view.etcd else { return };
    let reachable = u8::from(matches!(etcd.state, EtcdState::Following | EtcdState::Behind));
    let copied = u8::from(etcd.copy_fault.is_none());
    let name = "apisix_etcd_reachable";
    scalar(text, name, "gauge", "Whether etcd answers this node.", reachable);
    let name = "weir_etcd_copy_is_current";
    scalar(text, name, "gauge", "Whether this node's disk has what is in force.", copied);
    let name = "apisix_etcd_modify_indexes";
    header(text, name, "gauge", "Last revision that changed something below a key.");
    let mut newest = 0;
    for kind in ObjectKind::ALL {
        let indices = view.snapshot.iter(kind).map(|object| object.written.modified_index);
        let index = indices.max().unwrap_or(0);
        newest = newest.max(index);
        sample(text, name, &[("key", &kind.collection())], index);
    }
    sample(text, name, &[("key", &"max_modify_index")], newest);
    sample(text, name, &[("key", &"x_etcd_index")], etcd.revision);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::etcd::EtcdStatus;

    #[test]
    fn metrics_are_written_for_etcd_only() {
        let mut view = View::default();
        let mut text = String::new();
        write_metrics(&view, &mut text);
        assert_eq!(text, "");
        let mut status = EtcdStatus::starting("http://etcd:2379");
        status.revision = 7;
        view.etcd = Some(status);
        write_metrics(&view, &mut text);
        for line in [
            "apisix_etcd_reachable 0\n",
            "weir_etcd_copy_is_current 1\n",
            "apisix_etcd_modify_indexes{key=\"routes\"} 0\n",
            "apisix_etcd_modify_indexes{key=\"x_etcd_index\"} 7\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
