//! Tests of events on constructed objects.

use core::mem::MaybeUninit;

use libibverbs_sys::object::{ibv_cq, ibv_qp, ibv_srq};
use libibverbs_sys::work::ibv_event_element;

use super::*;
use crate::device::pointer_of;

#[test]
fn each_event_names_whom_it_concerns() {
    // SAFETY: zeros are valid in all of them: null pointers, numbers, and unused locks.
    let (mut cq, mut srq, mut qp) = unsafe {
        (
            MaybeUninit::<ibv_cq>::zeroed().assume_init(),
            MaybeUninit::<ibv_srq>::zeroed().assume_init(),
            MaybeUninit::<ibv_qp>::zeroed().assume_init(),
        )
    };
    cq.cq_context = pointer_of(11).expect("a pointer");
    srq.srq_context = pointer_of(12).expect("a pointer");
    qp.qp_num = 13;
    let of_cq = ibv_event_element { cq: &raw mut cq };
    let of_srq = ibv_event_element { srq: &raw mut srq };
    let of_qp = ibv_event_element { qp: &raw mut qp };
    let of_port = ibv_event_element { port_num: 2 };
    let expected = [
        (of_cq, IBV_EVENT_CQ_ERR, AsyncEvent::CqError(11)),
        (of_qp, IBV_EVENT_QP_FATAL, AsyncEvent::QpFatal(QpNum(13))),
        (of_qp, IBV_EVENT_QP_REQ_ERR, AsyncEvent::QpRequestError(QpNum(13))),
        (of_qp, IBV_EVENT_QP_ACCESS_ERR, AsyncEvent::QpAccessError(QpNum(13))),
        (of_qp, IBV_EVENT_COMM_EST, AsyncEvent::CommEstablished(QpNum(13))),
        (of_qp, IBV_EVENT_SQ_DRAINED, AsyncEvent::SqDrained(QpNum(13))),
        (of_qp, IBV_EVENT_QP_LAST_WQE_REACHED, AsyncEvent::LastWqeReached(QpNum(13))),
        (of_qp, IBV_EVENT_PATH_MIG, AsyncEvent::PathMigrated(QpNum(13))),
        (of_qp, IBV_EVENT_PATH_MIG_ERR, AsyncEvent::PathMigrationFailed(QpNum(13))),
        (of_srq, IBV_EVENT_SRQ_ERR, AsyncEvent::SrqError(12)),
        (of_srq, IBV_EVENT_SRQ_LIMIT_REACHED, AsyncEvent::SrqLimitReached(12)),
        (of_port, IBV_EVENT_PORT_ACTIVE, AsyncEvent::PortActive(2)),
        (of_port, IBV_EVENT_PORT_ERR, AsyncEvent::PortError(2)),
        (of_port, IBV_EVENT_LID_CHANGE, AsyncEvent::LidChange(2)),
        (of_port, IBV_EVENT_PKEY_CHANGE, AsyncEvent::PkeyChange(2)),
        (of_port, IBV_EVENT_GID_CHANGE, AsyncEvent::GidChange(2)),
        (of_port, IBV_EVENT_SM_CHANGE, AsyncEvent::SmChange(2)),
        (of_port, IBV_EVENT_CLIENT_REREGISTER, AsyncEvent::ClientReregister(2)),
        (of_port, IBV_EVENT_DEVICE_FATAL, AsyncEvent::DeviceFatal),
        (of_port, 4711, AsyncEvent::Other(4711)),
    ];
    for (element, event_type, event) in expected {
        // SAFETY: the element is of the event's kind, and its object is live.
        assert_eq!(unsafe { convert(&ibv_async_event { element, event_type }) }, event);
    }
}
