//! The clock and the dates of `ngx`, and `ngx.sleep`.

use std::time::{Duration, UNIX_EPOCH};

use mlua::{Error, LuaString, MultiValue};
use net::env;

use super::{Adder, session};
use crate::runtime::limits::DELAY_MAX_SECONDS;

pub(super) fn install_clock(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("time", |_, _, ()| Ok(now().as_secs() as f64))?;
    add.add("http_time", |_, _, seconds: f64| {
        let seconds = seconds.clamp(0.0, 253_402_300_799.0) as u64;
        Ok(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds)))
    })?;
    add.add("parse_http_time", |_, _, text: LuaString| {
        let time = httpdate::parse_http_date(&text.to_string_lossy()).ok();
        Ok(time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs() as f64))
    })?;
    add.add("start_time", |state, _, ()| {
        if let Some(began) = session::start_time(state) {
            return Ok(began);
        }
        state.read(|exchange| {
            let (seconds, nanoseconds) = exchange.local().wall_at(exchange.times.started_ns);
            seconds as f64 + f64::from(nanoseconds / 1_000_000) / 1_000.0
        })
    })?;
    add.add("worker_id", |state, _, ()| {
        let of_request = state.read(|exchange| exchange.local().index as f64).ok();
        Ok(of_request.or_else(|| session::worker(state)).unwrap_or(0.0))
    })?;
    add.add("worker_pid", |_, _, ()| Ok(f64::from(std::process::id())))?;
    add.add("worker_count", |_, _, ()| {
        Ok(std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64))
    })?;
    add.add("start_sleep", |state, _, seconds: f64| {
        if !(0.0..=DELAY_MAX_SECONDS).contains(&seconds) {
            return Err(Error::runtime(format!("a time from 0 to {DELAY_MAX_SECONDS} seconds expected")));
        }
        let milliseconds = (seconds * 1_000.0).ceil() as u64;
        state.wait(async move {
            env::sleep_ms(milliseconds).await;
            Ok(MultiValue::new())
        })
    })
}

fn now() -> Duration {
    stdx::clock::unix_time()
}
