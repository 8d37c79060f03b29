//! Handles of objects. Each keeps alive what must be closed later, and closes its object when it is
//! dropped.

use core::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hca::{
    Channel, Completion, Cq, Data, Errno, Error, ModifyQp, Mr, PathMigState, PostError, Qp, QpCap, QpKindOf,
    QpNum, QpState, RecvWr, SendWr, Srq, SrqNum, To, errno,
};

use crate::bell::Bell;
use crate::fabric::{ContextId, Fabric};
use crate::mem;
use crate::model;
use crate::model::post::{NewSend, NewTo};
use crate::model::qp::Local;
use crate::model::{Id, State};

/// A process, until its device and all objects are closed.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) fabric: Fabric,
    pub(crate) context: ContextId,
    pub(crate) name: String,
}

impl Process {
    #[cold]
    pub(crate) fn error(&self, call: &'static str, what: impl fmt::Display, errno: Errno) -> Error {
        Error::new(call, format!("{}, {what}", self.name), errno)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.fabric.lock().close_context(self.context.0);
    }
}

/// An object of a process, closed with the last handle or object that needs it.
struct Object {
    id: Id,
    close: fn(&mut State, Id, usize),
    process: Arc<Process>,
    /// Objects that must be closed later.
    _parents: Vec<Arc<Object>>,
}

impl Object {
    fn new(
        process: &Arc<Process>,
        id: Id,
        parents: Vec<Arc<Object>>,
        close: fn(&mut State, Id, usize),
    ) -> Arc<Object> {
        Arc::new(Object { id, close, process: process.clone(), _parents: parents })
    }

    fn error(&self, call: &'static str, errno: Errno) -> Error {
        self.process.error(call, format_args!("object {}", self.id.0), errno)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of process {} on {}", self.id.0, self.process.context.0, self.process.name)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let mut state = self.process.fabric.lock();
        // Objects of dead processes were closed when they died.
        if state.contexts[self.process.context.0].open {
            (self.close)(&mut state, self.id, self.process.context.0);
        }
    }
}

/// A channel of completion events.
#[derive(Debug)]
pub struct SimChannel {
    object: Arc<Object>,
    bell: Arc<Bell>,
}

impl SimChannel {
    pub(crate) fn new(process: &Arc<Process>, id: Id, bell: Arc<Bell>) -> SimChannel {
        SimChannel {
            object: Object::new(process, id, vec![], |state, id, _| state.destroy_channel(id)),
            bell,
        }
    }

    pub(crate) fn id(&self) -> Id {
        self.object.id
    }
}

impl Channel for SimChannel {
    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }

    fn drain(&self) -> Result<usize, Error> {
        let drained = self.object.process.fabric.lock().drain(self.object.id);
        drained.map_err(|errno| self.object.error("ibv_get_cq_event", errno))
    }
}

/// A completion queue.
#[derive(Debug)]
pub struct SimCq {
    object: Arc<Object>,
    entries: u32,
}

impl SimCq {
    pub(crate) fn new(process: &Arc<Process>, id: Id, entries: u32, channel: Option<&SimChannel>) -> SimCq {
        let parents = channel.map(|channel| channel.object.clone()).into_iter().collect();
        SimCq { object: Object::new(process, id, parents, |state, id, _| state.destroy_cq(id)), entries }
    }

    pub(crate) fn id(&self) -> Id {
        self.object.id
    }
}

impl Cq for SimCq {
    fn entries(&self) -> u32 {
        self.entries
    }

    fn poll(&self, room: &mut [Completion]) -> Result<usize, Error> {
        let polled = self.object.process.fabric.lock().poll(self.object.id, room);
        polled.map_err(|errno| self.object.error("ibv_poll_cq", errno))
    }

    fn arm(&self, solicited_only: bool) -> Result<(), Error> {
        let armed = self.object.process.fabric.lock().arm(self.object.id, solicited_only);
        armed.map_err(|errno| self.object.error("ibv_req_notify_cq", errno))
    }
}

/// A registration.
#[derive(Debug)]
pub struct SimMr {
    object: Arc<Object>,
    key: u32,
    addr: u64,
    len: usize,
}

impl SimMr {
    pub(crate) fn new(process: &Arc<Process>, id: Id, key: u32, addr: u64, len: usize) -> SimMr {
        let object = Object::new(process, id, vec![], |state, id, _| {
            // A refusal has no consequence here: the registration stays, and is counted.
            let _ = state.deregister(id);
        });
        SimMr { object, key, addr, len }
    }
}

impl Mr for SimMr {
    fn lkey(&self) -> u32 {
        self.key
    }

    fn rkey(&self) -> u32 {
        self.key
    }

    fn addr(&self) -> u64 {
        self.addr
    }

    fn len(&self) -> usize {
        self.len
    }

    fn deregister(self) -> Result<(), (SimMr, Error)> {
        let done = self.object.process.fabric.lock().deregister(self.object.id);
        done.map_err(|errno| {
            let error = self.object.error("ibv_dereg_mr", errno);
            (self, error)
        })
    }
}

/// A shared receive queue.
#[derive(Debug)]
pub struct SimSrq {
    object: Arc<Object>,
    max_wr: u32,
    number: Option<SrqNum>,
}

impl SimSrq {
    pub(crate) fn new(
        process: &Arc<Process>,
        id: Id,
        max_wr: u32,
        number: Option<SrqNum>,
        xrc: Option<(&SimXrcd, &SimCq)>,
    ) -> SimSrq {
        let parents = xrc.map(|(xrcd, cq)| vec![xrcd.object.clone(), cq.object.clone()]).unwrap_or_default();
        SimSrq {
            object: Object::new(process, id, parents, |state, id, _| state.destroy_srq(id)),
            max_wr,
            number,
        }
    }

    pub(crate) fn id(&self) -> Id {
        self.object.id
    }
}

impl Srq for SimSrq {
    fn max_wr(&self) -> u32 {
        self.max_wr
    }

    fn number(&self) -> Option<SrqNum> {
        self.number
    }

    fn set_limit(&self, limit: u32) -> Result<(), Error> {
        let set = self.object.process.fabric.lock().set_limit(self.object.id, limit);
        set.map_err(|errno| self.object.error("ibv_modify_srq", errno))
    }

    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.object.process.fabric.lock().post_srq(self.object.id, list)
    }
}

/// An address handle.
#[derive(Debug)]
pub struct SimAh {
    object: Arc<Object>,
}

impl SimAh {
    pub(crate) fn new(process: &Arc<Process>, id: Id) -> SimAh {
        SimAh { object: Object::new(process, id, vec![], |state, id, _| state.destroy_ah(id)) }
    }
}

/// A membership in an XRC domain.
#[derive(Debug)]
pub struct SimXrcd {
    object: Arc<Object>,
}

impl SimXrcd {
    pub(crate) fn new(process: &Arc<Process>, id: Id) -> SimXrcd {
        SimXrcd { object: Object::new(process, id, vec![], |state, id, _| state.close_xrcd(id)) }
    }

    pub(crate) fn id(&self) -> Id {
        self.object.id
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct SimQp {
    object: Arc<Object>,
    number: QpNum,
    kind: QpKindOf,
    cap: QpCap,
}

impl SimQp {
    pub(crate) fn new(
        process: &Arc<Process>,
        id: Id,
        cqs: [Option<&SimCq>; 2],
        srq: Option<&SimSrq>,
        xrcd: Option<&SimXrcd>,
    ) -> SimQp {
        let mut parents: Vec<_> = cqs.into_iter().flatten().map(|cq| cq.object.clone()).collect();
        parents.extend(srq.map(|srq| srq.object.clone()));
        parents.extend(xrcd.map(|xrcd| xrcd.object.clone()));
        let object = Object::new(process, id, parents, State::destroy_qp);
        let state = process.fabric.lock();
        let qp = state.qps.get(&id);
        // It may have died with its process since it was made.
        let (number, kind, cap) =
            qp.map_or((QpNum(0), QpKindOf::Rc, QpCap::default()), |qp| (qp.number, qp.kind, qp.cap));
        drop(state);
        SimQp { object, number, kind, cap }
    }
}

impl SimQp {
    /// Queries an attribute.
    fn query<T>(&self, attribute: impl FnOnce(&model::qp::Qp) -> T) -> Result<T, Error> {
        let process = &self.object.process;
        let state = process.fabric.lock();
        let found = state
            .usable(process.context.0)
            .and_then(|()| state.qps.get(&self.object.id).map(attribute).ok_or(errno::ENODEV));
        found.map_err(|errno| {
            process.error("ibv_query_qp", format_args!("queue pair {}", self.number.0), errno)
        })
    }
}

impl Qp for SimQp {
    type Ah = SimAh;

    fn number(&self) -> QpNum {
        self.number
    }

    fn kind(&self) -> QpKindOf {
        self.kind
    }

    fn cap(&self) -> QpCap {
        self.cap
    }

    fn modify(&self, step: &ModifyQp) -> Result<(), Error> {
        let process = &self.object.process;
        let done = process.fabric.lock().modify(self.object.id, process.context.0, step);
        done.map_err(|why| {
            let attribute = why.attribute.map_or(String::new(), |attribute| format!(", {attribute}"));
            let what = format_args!("queue pair {} to {step:?}{attribute}", self.number.0);
            process.error("ibv_modify_qp", what, why.errno)
        })
    }

    fn path_mig_state(&self) -> Result<PathMigState, Error> {
        self.query(|qp| qp.paths.state)
    }

    fn state(&self) -> Result<QpState, Error> {
        self.query(|qp| qp.state)
    }

    fn post_send(&self, list: &[SendWr<'_, SimAh>]) -> Result<(), PostError> {
        let process = &self.object.process;
        let list = list.iter().map(|wr| {
            let (local, pieces) = match wr.data {
                Data::Registered(sges) => (Local::Registered(sges.to_vec()), sges.len()),
                Data::Inline(pieces) => (Local::Copied(mem::gather(pieces)), pieces.len()),
            };
            let to = match wr.to {
                To::Peer => NewTo::Peer,
                To::Datagram { ah, qp, qkey } => NewTo::Datagram { route: ah.object.id, number: qp.0, qkey },
                To::Srq(number) => NewTo::Srq(number.0),
            };
            let flags = wr.flags;
            NewSend {
                wr_id: wr.wr_id,
                op: wr.op,
                local,
                pieces,
                signaled: flags.signaled,
                solicited: flags.solicited,
                fence: flags.fence,
                to,
            }
        });
        process.fabric.lock().post_send(self.object.id, process.context.0, list)
    }

    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        let process = &self.object.process;
        process.fabric.lock().post_recv(self.object.id, process.context.0, list)
    }
}
