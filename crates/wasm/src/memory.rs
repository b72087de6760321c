//! The memory of a guest as host functions read and write it: every address is checked, and a faulty one is a
//! status.

use wasmtime::{Caller, Error};

use crate::abi::AbiStatus;
use crate::host::Host;

/// Why a host function ends without its result.
pub(crate) enum HostFunctionError {
    /// The guest is told so.
    Status(AbiStatus),
    /// The guest ends.
    Trap(Error),
}

impl From<AbiStatus> for HostFunctionError {
    fn from(status: AbiStatus) -> HostFunctionError {
        HostFunctionError::Status(status)
    }
}

/// The result of a host function.
pub(crate) type HostResult<T = ()> = Result<T, HostFunctionError>;

/// The number that the guest gets for `outcome`.
pub(crate) fn finish(outcome: HostResult) -> Result<i32, Error> {
    match outcome {
        Ok(()) => Ok(AbiStatus::Ok as i32),
        Err(HostFunctionError::Status(status)) => Ok(status as i32),
        Err(HostFunctionError::Trap(error)) => Err(error),
    }
}

/// The bytes at `place`, without a copy.
pub(crate) fn view<'a>(caller: &'a Caller<'_, Host>, place: i32, length: i32) -> Result<&'a [u8], AbiStatus> {
    let memory = caller.data().memory.ok_or(AbiStatus::InvalidMemoryAccess)?;
    part(memory.data(caller), place, length)
}

/// Checks that `length` bytes at `place` lie in `data`. Addresses are unsigned.
pub(crate) fn part(data: &[u8], place: i32, length: i32) -> Result<&[u8], AbiStatus> {
    let (start, length) = (place as u32 as usize, length as u32 as usize);
    let end = start.checked_add(length).ok_or(AbiStatus::InvalidMemoryAccess)?;
    data.get(start..end).ok_or(AbiStatus::InvalidMemoryAccess)
}

/// Calls `work` with the bytes at two places and the host.
pub(crate) fn with_two<R>(
    caller: &mut Caller<'_, Host>,
    first: (i32, i32),
    second: (i32, i32),
    work: impl FnOnce(&[u8], &[u8], &mut Host) -> R,
) -> Result<R, AbiStatus> {
    let memory = caller.data().memory.ok_or(AbiStatus::InvalidMemoryAccess)?;
    let (data, host) = memory.data_and_store_mut(caller);
    Ok(work(part(data, first.0, first.1)?, part(data, second.0, second.1)?, host))
}

/// Writes `bytes` at `place`.
pub(crate) fn write(caller: &mut Caller<'_, Host>, place: i32, bytes: &[u8]) -> Result<(), AbiStatus> {
    let memory = caller.data().memory.ok_or(AbiStatus::InvalidMemoryAccess)?;
    let start = place as u32 as usize;
    let end = start.checked_add(bytes.len()).ok_or(AbiStatus::InvalidMemoryAccess)?;
    let room = memory.data_mut(caller).get_mut(start..end).ok_or(AbiStatus::InvalidMemoryAccess)?;
    room.copy_from_slice(bytes);
    Ok(())
}

/// Writes a number of 32 bits at `place`.
pub(crate) fn write_u32(caller: &mut Caller<'_, Host>, place: i32, value: u32) -> Result<(), AbiStatus> {
    write(caller, place, &value.to_le_bytes())
}

/// Writes a number of 64 bits at `place`.
pub(crate) fn write_u64(caller: &mut Caller<'_, Host>, place: i32, value: u64) -> Result<(), AbiStatus> {
    write(caller, place, &value.to_le_bytes())
}

/// Copies `bytes` into memory that the guest allocates, and writes their address and length at the two
/// places. Nothing is allocated for no bytes.
pub(crate) fn give(
    caller: &mut Caller<'_, Host>,
    bytes: &[u8],
    data_place: i32,
    length_place: i32,
) -> HostResult {
    // Before anything is allocated, because the guest would not learn of it.
    write_u32(caller, data_place, 0)?;
    write_u32(caller, length_place, 0)?;
    if bytes.is_empty() {
        return Ok(());
    }
    let length = i32::try_from(bytes.len()).map_err(|_| AbiStatus::InternalFailure)?;
    let host = caller.data_mut();
    // An allocator that asks for data would be called for the room of them, without end.
    let (Some(allocate), false) = (host.allocate.clone(), host.allocates) else {
        return Err(AbiStatus::InternalFailure.into());
    };
    host.allocates = true;
    let allocated = allocate.call(&mut *caller, length);
    caller.data_mut().allocates = false;
    let place = allocated.map_err(HostFunctionError::Trap)?;
    if place == 0 {
        return Err(AbiStatus::InvalidMemoryAccess.into());
    }
    write(caller, place, bytes)?;
    write_u32(caller, data_place, place as u32)?;
    write_u32(caller, length_place, bytes.len() as u32)?;
    Ok(())
}
