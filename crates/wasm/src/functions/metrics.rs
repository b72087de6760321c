//! Metrics that guests define.

use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::AbiStatus;
use crate::host::Host;
use crate::memory::{HostResult, finish, view, write_u32, write_u64};
use crate::metrics::{Metric, MetricKind};

pub(crate) fn add_metric_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_define_metric",
        |mut caller: Caller<'_, Host>, kind: i32, name: i32, size: i32, number: i32| {
            finish(define(&mut caller, kind, name, size, number))
        },
    )?;
    linker.func_wrap(ENV, "proxy_record_metric", |caller: Caller<'_, Host>, number: i32, value: i64| {
        finish(metric(&caller, number).map(|metric| metric.record(value as u64)).map_err(Into::into))
    })?;
    linker.func_wrap(
        ENV,
        "proxy_increment_metric",
        |caller: Caller<'_, Host>, number: i32, delta: i64| {
            finish(metric(&caller, number).and_then(|metric| metric.increment(delta)).map_err(Into::into))
        },
    )?;
    linker.func_wrap(ENV, "proxy_get_metric", |mut caller: Caller<'_, Host>, number: i32, place: i32| {
        let found = metric(&caller, number).map(|metric| metric.value());
        finish(found.and_then(|value| write_u64(&mut caller, place, value)).map_err(Into::into))
    })?;
    Ok(())
}

fn metric(caller: &Caller<'_, Host>, number: i32) -> Result<std::sync::Arc<Metric>, AbiStatus> {
    let identity = &caller.data().identity;
    identity.shared.metrics.get(identity.name, number as u32)
}

fn define(caller: &mut Caller<'_, Host>, kind: i32, name: i32, size: i32, number: i32) -> HostResult {
    let kind = MetricKind::of(kind).ok_or(AbiStatus::BadArgument)?;
    let identity = &caller.data().identity;
    let made = identity.shared.metrics.define(identity.name, kind, view(caller, name, size)?)?;
    Ok(write_u32(caller, number, made)?)
}
