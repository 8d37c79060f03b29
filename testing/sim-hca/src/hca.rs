//! An opened device.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use hca::{
    Access, AhAttr, AsyncEvent, DeviceAttr, Errno, Error, GidEntry, Hca, PortAttr, QpInit, QpKind, QpNum,
    SrqAttr, XrcdOpen, errno,
};

use crate::bell::Bell;
use crate::fabric::{ContextId, DeviceId, Fabric};
use crate::mem::Lent;
use crate::model::create::NewQp;
use crate::model::device::{Context, PortId};
use crate::object::{Process, SimAh, SimChannel, SimCq, SimMr, SimQp, SimSrq, SimXrcd};

/// An opened device of a [`Fabric`]; it stands for a process.
#[derive(Debug)]
pub struct SimHca {
    process: Arc<Process>,
    attr: DeviceAttr,
    bell: Arc<Bell>,
}

impl Fabric {
    /// Opens a device, as a new process.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn open(&self, device: DeviceId) -> io::Result<SimHca> {
        let bell = Arc::new(Bell::new()?);
        let mut state = self.lock();
        state.call("ibv_open_device").map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let number = state.contexts.len();
        state.contexts.push(Context {
            device: device.0,
            open: true,
            events: Default::default(),
            bell: bell.clone(),
            registered: 0,
        });
        let settings = &state.devices[device.0].settings;
        let (name, attr) = (settings.name.clone(), settings.attr);
        drop(state);
        Ok(SimHca::new(self.clone(), ContextId(number), name, attr, bell))
    }
}

impl SimHca {
    pub(crate) fn new(
        fabric: Fabric,
        context: ContextId,
        name: String,
        attr: DeviceAttr,
        bell: Arc<Bell>,
    ) -> SimHca {
        SimHca { process: Arc::new(Process { fabric, context, name }), attr, bell }
    }

    /// Returns the process that it stands for.
    pub fn context(&self) -> ContextId {
        self.process.context
    }

    fn port_id(&self, port: u8) -> PortId {
        PortId { device: self.process.fabric.lock().contexts[self.process.context.0].device, port }
    }
}

impl Hca for SimHca {
    type Channel = SimChannel;
    type Cq = SimCq;
    type Mr = SimMr;
    type Srq = SimSrq;
    type Qp = SimQp;
    type Ah = SimAh;
    type Xrcd = SimXrcd;

    fn name(&self) -> &str {
        &self.process.name
    }

    fn device(&self) -> &DeviceAttr {
        &self.attr
    }

    fn port(&self, port: u8) -> Result<PortAttr, Error> {
        let port_id = self.port_id(port);
        let state = self.process.fabric.lock();
        let attr = state.usable(self.process.context.0).and_then(|()| state.port(port_id));
        attr.map_err(|errno| self.process.error("ibv_query_port", format_args!("port {port}"), errno))
    }

    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, Error> {
        let port_id = self.port_id(port);
        let state = self.process.fabric.lock();
        let gids = state.usable(self.process.context.0).and_then(|()| state.gids(port_id));
        gids.map_err(|errno| self.process.error("ibv_query_gid_ex", format_args!("port {port}"), errno))
    }

    fn pkey(&self, port: u8, index: u16) -> Result<u16, Error> {
        match self.port(port)?.pkey_table_len {
            len if index < len => Ok(0xffff),
            _ => Err(self.process.error(
                "ibv_query_pkey",
                format_args!("port {port}, entry {index}"),
                errno::EINVAL,
            )),
        }
    }

    fn async_fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }

    fn async_event(&self) -> Result<Option<AsyncEvent>, Error> {
        let event = self.process.fabric.lock().take_event(self.process.context.0);
        event.map_err(|errno| self.process.error("ibv_get_async_event", "events", errno))
    }

    fn create_channel(&self) -> Result<SimChannel, Error> {
        let failed = |errno| self.process.error("ibv_create_comp_channel", "a channel", errno);
        let bell =
            Bell::new().map_err(|error| failed(Errno(error.raw_os_error().unwrap_or(errno::EIO.0))))?;
        let bell = Arc::new(bell);
        let made = self.process.fabric.lock().create_channel(self.process.context.0, bell.clone());
        Ok(SimChannel::new(&self.process, made.map_err(failed)?, bell))
    }

    fn create_cq(&self, entries: u32, token: u64, channel: Option<&SimChannel>) -> Result<SimCq, Error> {
        let id = channel.map(SimChannel::id);
        let made = self.process.fabric.lock().create_cq(self.process.context.0, entries, token, id);
        let made = made.map_err(|errno| {
            self.process.error("ibv_create_cq", format_args!("a completion queue of {entries}"), errno)
        })?;
        Ok(SimCq::new(&self.process, made, entries, channel))
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<SimMr, Error> {
        // SAFETY: the contract is this method's own; the fabric drops it when the registration
        // ends.
        let lent = unsafe { Lent::new(base, len) };
        let addr = lent.addr();
        let made = self.process.fabric.lock().register(self.process.context.0, lent, access);
        let (id, key) =
            made.map_err(|errno| self.process.error("ibv_reg_mr", format_args!("{len} bytes"), errno))?;
        Ok(SimMr::new(&self.process, id, key, addr, len))
    }

    fn create_srq(&self, attr: SrqAttr, token: u64) -> Result<SimSrq, Error> {
        self.new_srq("ibv_create_srq", attr, token, None)
    }

    fn create_xrc_srq(&self, attr: SrqAttr, token: u64, xrcd: &SimXrcd, cq: &SimCq) -> Result<SimSrq, Error> {
        self.new_srq("ibv_create_srq_ex", attr, token, Some((xrcd, cq)))
    }

    fn create_qp(&self, init: &QpInit<'_, Self>) -> Result<SimQp, Error> {
        let (send_cq, recv_cq, srq, xrcd) = match init.kind {
            QpKind::Rc { send_cq, recv_cq, srq } | QpKind::Ud { send_cq, recv_cq, srq } => {
                (Some(send_cq), Some(recv_cq), srq, None)
            }
            QpKind::XrcIni { send_cq } => (Some(send_cq), None, None, None),
            QpKind::XrcTgt { xrcd } => (None, None, None, Some(xrcd)),
        };
        let new = NewQp {
            kind: init.kind.kind(),
            send_cq: send_cq.map(SimCq::id),
            recv_cq: recv_cq.map(SimCq::id),
            srq: srq.map(SimSrq::id),
            xrcd: xrcd.map(SimXrcd::id),
            cap: init.cap,
            signal_all: init.signal_all,
        };
        let made = self.process.fabric.lock().create_qp(self.process.context.0, &new);
        let id = made.map_err(|errno| {
            let what = format_args!("a queue pair of {:?} with {:?}", new.kind, new.cap);
            self.process.error("ibv_create_qp", what, errno)
        })?;
        Ok(SimQp::new(&self.process, id, [send_cq, recv_cq], srq, xrcd))
    }

    fn create_ah(&self, attr: &AhAttr) -> Result<SimAh, Error> {
        let made = self.process.fabric.lock().create_ah(self.process.context.0, *attr);
        let id =
            made.map_err(|errno| self.process.error("ibv_create_ah", format_args!("{attr:?}"), errno))?;
        Ok(SimAh::new(&self.process, id))
    }

    fn open_xrcd(&self, how: XrcdOpen<'_>) -> Result<SimXrcd, Error> {
        let failed = |errno| self.process.error("ibv_open_xrcd", "an XRC domain", errno);
        let identity = |file: BorrowedFd<'_>| {
            let found = file.try_clone_to_owned().and_then(|file| File::from(file).metadata());
            let found = found.map_err(|error| failed(Errno(error.raw_os_error().unwrap_or(errno::EIO.0))))?;
            Ok((found.dev(), found.ino()))
        };
        let (file, create) = match how {
            XrcdOpen::Private => (None, true),
            XrcdOpen::Shared(file) => (Some(identity(file)?), true),
            XrcdOpen::Existing(file) => (Some(identity(file)?), false),
        };
        let opened = self.process.fabric.lock().open_xrcd(self.process.context.0, file, create);
        Ok(SimXrcd::new(&self.process, opened.map_err(failed)?))
    }

    fn open_tgt(&self, xrcd: &SimXrcd, qp: QpNum) -> Result<SimQp, Error> {
        let opened = self.process.fabric.lock().open_tgt(self.process.context.0, xrcd.id(), qp);
        let id = opened
            .map_err(|errno| self.process.error("ibv_open_qp", format_args!("queue pair {}", qp.0), errno))?;
        Ok(SimQp::new(&self.process, id, [None, None], None, Some(xrcd)))
    }
}

impl SimHca {
    fn new_srq(
        &self,
        call: &'static str,
        attr: SrqAttr,
        token: u64,
        xrc: Option<(&SimXrcd, &SimCq)>,
    ) -> Result<SimSrq, Error> {
        let of = xrc.map(|(xrcd, cq)| (xrcd.id(), cq.id()));
        let mut state = self.process.fabric.lock();
        let made = state.create_srq(self.process.context.0, attr, token, of);
        let id = made.map_err(|errno| {
            self.process.error(call, format_args!("a shared receive queue of {}", attr.max_wr), errno)
        })?;
        let number = state.srqs.get(&id).and_then(|srq| srq.xrc_number());
        drop(state);
        Ok(SimSrq::new(&self.process, id, attr.max_wr, number, xrc))
    }
}
