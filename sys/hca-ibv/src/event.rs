//! Converts asynchronous events.

#![allow(unsafe_code)]

use core::ffi::c_void;

use hca::{AsyncEvent, QpNum};
use libibverbs_sys::consts::*;
use libibverbs_sys::work::ibv_async_event;

/// Returns the token that an object's user pointer holds.
pub(crate) fn token(pointer: *mut c_void) -> u64 {
    pointer.addr() as u64
}

/// Converts an event.
///
/// # Safety
/// The library has written the event: its element is of the kind that its type says, and the object
/// is live.
pub(crate) unsafe fn convert(event: &ibv_async_event) -> AsyncEvent {
    let element = event.element;
    // SAFETY: the caller's promise; the closure of each member is called only for types that have
    // this member.
    let (cq, srq, qp, port) = unsafe {
        (
            || token((*element.cq).cq_context),
            || token((*element.srq).srq_context),
            || QpNum((*element.qp).qp_num),
            || element.port_num as u8,
        )
    };
    match event.event_type {
        IBV_EVENT_CQ_ERR => AsyncEvent::CqError(cq()),
        IBV_EVENT_QP_FATAL => AsyncEvent::QpFatal(qp()),
        IBV_EVENT_QP_REQ_ERR => AsyncEvent::QpRequestError(qp()),
        IBV_EVENT_QP_ACCESS_ERR => AsyncEvent::QpAccessError(qp()),
        IBV_EVENT_COMM_EST => AsyncEvent::CommEstablished(qp()),
        IBV_EVENT_PATH_MIG => AsyncEvent::PathMigrated(qp()),
        IBV_EVENT_PATH_MIG_ERR => AsyncEvent::PathMigrationFailed(qp()),
        IBV_EVENT_SQ_DRAINED => AsyncEvent::SqDrained(qp()),
        IBV_EVENT_QP_LAST_WQE_REACHED => AsyncEvent::LastWqeReached(qp()),
        IBV_EVENT_SRQ_ERR => AsyncEvent::SrqError(srq()),
        IBV_EVENT_SRQ_LIMIT_REACHED => AsyncEvent::SrqLimitReached(srq()),
        IBV_EVENT_PORT_ACTIVE => AsyncEvent::PortActive(port()),
        IBV_EVENT_PORT_ERR => AsyncEvent::PortError(port()),
        IBV_EVENT_LID_CHANGE => AsyncEvent::LidChange(port()),
        IBV_EVENT_PKEY_CHANGE => AsyncEvent::PkeyChange(port()),
        IBV_EVENT_GID_CHANGE => AsyncEvent::GidChange(port()),
        IBV_EVENT_SM_CHANGE => AsyncEvent::SmChange(port()),
        IBV_EVENT_CLIENT_REREGISTER => AsyncEvent::ClientReregister(port()),
        IBV_EVENT_DEVICE_FATAL => AsyncEvent::DeviceFatal,
        // Types that are newer than this list.
        other => AsyncEvent::Other(other),
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
