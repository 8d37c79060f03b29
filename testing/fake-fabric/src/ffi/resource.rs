//! Fabrics, domains, address vectors, completion queues and memory regions.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;

use super::handle::{Guard, Handle, close, code, fid_ops, id_of, table};
use super::worlds::Shared;
use super::{endpoint, info};
use crate::errno::{FI_EAGAIN, FI_EBADFLAGS, FI_EINVAL, FI_ENODATA, FI_ENOSYS};
use crate::mem::Lent;
use crate::model::queue::{Entry, Queue};
use libfabric_sys::API;
use libfabric_sys::attr::{
    fi_addr_t, fi_av_attr, fi_cq_attr, fi_cq_data_entry, fi_cq_err_entry, fi_cq_msg_entry, fi_info,
};
use libfabric_sys::consts::{
    FI_ADDR_UNSPEC, FI_CLASS_AV, FI_CLASS_CQ, FI_CLASS_DOMAIN, FI_CLASS_FABRIC, FI_CLASS_MR,
    FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG, FI_ENABLE, FI_GETWAIT, FI_THREAD_DOMAIN,
    FI_WAIT_FD, FI_WAIT_NONE, FI_WAIT_UNSPEC,
};
use libfabric_sys::fid::{
    fi_ops, fi_ops_av, fi_ops_cq, fi_ops_domain, fi_ops_fabric, fi_ops_mr, fid, fid_av, fid_cq, fid_domain,
    fid_fabric, fid_mr,
};

static FABRIC: fi_ops = fid_ops!(fid_fabric, None, None);
static DOMAIN: fi_ops = fid_ops!(fid_domain, None, None);
static VECTOR: fi_ops = fid_ops!(fid_av, None, None);
static QUEUE: fi_ops = fid_ops!(fid_cq, None, Some(queue_control));
static REGION: fi_ops = fid_ops!(fid_mr, Some(mr_bind), Some(mr_control));

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(domain),
    passive_ep: None,
    eq_open: None,
    wait_open: None,
    trywait: Some(trywait),
    domain2: None,
};

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(av_open),
    cq_open: Some(cq_open),
    endpoint: Some(endpoint::endpoint),
    scalable_ep: Some(endpoint::scalable),
    cntr_open: None,
    poll_open: None,
    stx_ctx: None,
    srx_ctx: None,
    query_atomic: None,
    query_collective: None,
    endpoint2: None,
};

static MR_OPS: fi_ops_mr =
    fi_ops_mr { size: size_of::<fi_ops_mr>(), reg: Some(mr_reg), regv: None, regattr: None };

static AV_OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(av_insert),
    insertsvc: None,
    insertsym: None,
    remove: Some(av_remove),
    lookup: None,
    straddr: Some(av_straddr),
    av_set: None,
};

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(cq_read),
    readfrom: None,
    readerr: Some(cq_readerr),
    sread: None,
    sreadfrom: None,
    signal: None,
    strerror: Some(cq_strerror),
};

/// Opens a fabric.
pub(super) fn fabric(world: &Arc<Shared>, context: *mut c_void) -> *mut fid_fabric {
    let id = world.lock().open_fabric();
    let face = fid_fabric {
        fid: fid { fclass: FI_CLASS_FABRIC, context, ops: table(&FABRIC) },
        ops: table(&FABRIC_OPS),
        api_version: API,
    };
    Handle::make(face, world, None, id)
}

// In all functions below: SAFETY: objects and each `fi_info` are this library's; pointers are as
// the man page of the function requires. Functions are called only through the tables of such
// objects.

unsafe extern "C" fn domain(
    fabric: *mut fid_fabric,
    request: *mut fi_info,
    made: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let (handle, request) =
        unsafe { (Handle::of(fabric), request.as_ref().map(|request| info::read(request))) };
    let Some(request) = request else { return -FI_EINVAL };
    let id = match handle.enter_live("fi_domain") {
        Err(error) => return -error,
        Ok(mut entered) => {
            // The request must be what was offered, or less.
            if request.domain.as_ref() != Some(&entered.state.name)
                || entered.state.offer(Some(&request)).is_none()
            {
                entered.state.violation(format!("fi_domain with what was not offered: {request:?}"));
                return -FI_ENODATA;
            }
            entered.state.open_domain(handle.id)
        }
    };
    let guard = Guard::new(request.threading == FI_THREAD_DOMAIN);
    let face = fid_domain {
        fid: fid { fclass: FI_CLASS_DOMAIN, context, ops: table(&DOMAIN) },
        ops: table(&DOMAIN_OPS),
        mr: table(&MR_OPS),
    };
    // SAFETY: see above.
    unsafe { *made = Handle::make(face, &handle.world, Some(&Arc::new(guard)), id) };
    0
}

unsafe extern "C" fn trywait(fabric: *mut fid_fabric, objects: *mut *mut fid, count: c_int) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(fabric) };
    let mut entered = match handle.enter_live("fi_trywait") {
        Ok(entered) => entered,
        Err(error) => return -error,
    };
    // All queues are asked, since this makes the ones that may be waited for unreadable.
    let mut result = 0;
    for number in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: see above: an array of `count` objects.
        let Some(id) = (unsafe { id_of(*objects.add(number)) }) else { return -FI_EINVAL };
        if entered.state.live(id, "fi_trywait").and_then(|()| entered.state.may_wait(id)).is_err() {
            result = -FI_EAGAIN;
        }
    }
    result
}

unsafe extern "C" fn av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    made: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let (handle, Some(attr)) = (unsafe { Handle::of(domain) }, unsafe { attr.as_mut() }) else {
        return -FI_EINVAL;
    };
    let opened = handle.enter_live("fi_av_open").and_then(|mut entered| {
        if attr.flags != 0 || !attr.name.is_null() {
            return Err(FI_ENOSYS);
        }
        entered.state.open_vector(handle.id, attr.type_, attr.rx_ctx_bits)
    });
    match opened {
        Err(error) => -error,
        Ok((id, kind)) => {
            attr.type_ = kind;
            let face = fid_av {
                fid: fid { fclass: FI_CLASS_AV, context, ops: table(&VECTOR) },
                ops: table(&AV_OPS),
            };
            // SAFETY: see above.
            unsafe { *made = Handle::make(face, &handle.world, handle.guard.as_ref(), id) };
            0
        }
    }
}

unsafe extern "C" fn av_insert(
    av: *mut fid_av,
    from: *const c_void,
    count: usize,
    to: *mut fi_addr_t,
    flags: u64,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(av) };
    let mut entered = match handle.enter_live("fi_av_insert") {
        Ok(entered) => entered,
        Err(error) => return -error,
    };
    // FI_MORE, which announces further inserts, has no effect.
    if flags & !libfabric_sys::consts::FI_MORE != 0 {
        return -FI_EBADFLAGS;
    }
    let text = matches!(entered.state.settings.address, crate::settings::AddressFormat::Text(_));
    let (mut at, mut inserted) = (from.cast::<u8>(), 0);
    for number in 0..count {
        // SAFETY: see above: `count` consecutive addresses of 16 bytes, or zero-terminated strings.
        let address = unsafe {
            let len = if text { CStr::from_ptr(at.cast()).to_bytes_with_nul().len() } else { 16 };
            let address = core::slice::from_raw_parts(at, len);
            at = at.add(len);
            address
        };
        let found = entered.state.insert_address(handle.id, address);
        inserted += c_int::from(found.is_some());
        if !to.is_null() {
            // SAFETY: see above: an array of `count` places.
            unsafe { *to.add(number) = found.unwrap_or(FI_ADDR_UNSPEC) };
        }
    }
    inserted
}

unsafe extern "C" fn av_remove(av: *mut fid_av, from: *mut fi_addr_t, count: usize, _flags: u64) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(av) };
    let removed = handle.enter_live("fi_av_remove").and_then(|mut entered| {
        (0..count).try_for_each(|number| {
            // SAFETY: see above: an array of `count` numbers.
            entered.state.remove_address(handle.id, unsafe { *from.add(number) })
        })
    });
    code(removed)
}

unsafe extern "C" fn av_straddr(
    av: *mut fid_av,
    address: *const c_void,
    to: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: see above: an address of this provider, and a place of `len` bytes.
    unsafe {
        let world = Handle::of(av).world.lock();
        let text = match world.settings.address {
            crate::settings::AddressFormat::Text(_) => CStr::from_ptr(address.cast()).to_bytes().to_vec(),
            crate::settings::AddressFormat::Inet => {
                let bytes = core::slice::from_raw_parts(address.cast::<u8>(), 16);
                let port = u16::from_be_bytes([bytes[2], bytes[3]]);
                let ip = format!("{}.{}.{}.{}", bytes[4], bytes[5], bytes[6], bytes[7]);
                format!("fi_sockaddr_in://{ip}:{port}").into_bytes()
            }
        };
        let room = (*len).saturating_sub(1).min(text.len());
        if *len != 0 {
            core::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), room);
            *to.add(room) = 0;
        }
        *len = text.len() + 1;
        to
    }
}

unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    made: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let (handle, Some(attr)) = (unsafe { Handle::of(domain) }, unsafe { attr.as_ref() }) else {
        return -FI_EINVAL;
    };
    let opened = handle.enter_live("fi_cq_open").and_then(|mut entered| {
        let format = match attr.format {
            0 => FI_CQ_FORMAT_CONTEXT,
            format if (FI_CQ_FORMAT_CONTEXT..=FI_CQ_FORMAT_DATA).contains(&format) => format,
            _ => return Err(FI_ENOSYS),
        };
        let event = match attr.wait_obj {
            FI_WAIT_NONE => None,
            FI_WAIT_FD | FI_WAIT_UNSPEC if entered.state.settings.wait_fd => Some(eventfd()?),
            FI_WAIT_UNSPEC => None,
            _ => return Err(FI_ENOSYS),
        };
        let size = if attr.size == 0 { entered.state.settings.cq_size } else { attr.size };
        Ok(entered.state.add_queue(handle.id, Queue::new(format, size, event)))
    });
    match opened {
        Err(error) => -error,
        Ok(id) => {
            let face =
                fid_cq { fid: fid { fclass: FI_CLASS_CQ, context, ops: table(&QUEUE) }, ops: table(&CQ_OPS) };
            // SAFETY: see above.
            unsafe { *made = Handle::make(face, &handle.world, handle.guard.as_ref(), id) };
            0
        }
    }
}

fn eventfd() -> Result<File, i32> {
    // SAFETY: the call takes plain numbers; a descriptor that it returns is nobody else's.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        if fd < 0 {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(FI_EINVAL));
        }
        Ok(File::from_raw_fd(fd))
    }
}

unsafe extern "C" fn queue_control(queue: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::<fid_cq>::of(queue.cast()) };
    let entered = match handle.enter_live("fi_control") {
        Ok(entered) => entered,
        Err(error) => return -error,
    };
    let fd = entered.state.queues.get(&handle.id).and_then(Queue::event).map(File::as_raw_fd);
    match (command, fd) {
        (FI_GETWAIT, Some(fd)) => {
            // SAFETY: see above: a place for a descriptor.
            unsafe { *arg.cast::<c_int>() = fd };
            0
        }
        _ => -FI_ENOSYS,
    }
}

unsafe extern "C" fn cq_read(queue: *mut fid_cq, to: *mut c_void, count: usize) -> isize {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(queue) };
    let mut entered = match handle.enter_live("fi_cq_read") {
        Ok(entered) => entered,
        Err(error) => return -(error as isize),
    };
    entered.state.poll(handle.id);
    let entries = match entered.state.take(handle.id, count) {
        Ok(entries) => entries,
        Err(error) => return -(error as isize),
    };
    let format = entered.state.queues.get(&handle.id).map_or(0, |queue| queue.format);
    for (number, entry) in entries.iter().enumerate() {
        let op_context = core::ptr::with_exposed_provenance_mut(entry.context);
        let Entry { flags, len, .. } = *entry;
        // SAFETY: see above: an array of `count` entries of the queue's format, and there are at
        // most that many.
        unsafe {
            match format {
                FI_CQ_FORMAT_MSG => {
                    *to.cast::<fi_cq_msg_entry>().add(number) = fi_cq_msg_entry { op_context, flags, len };
                }
                FI_CQ_FORMAT_DATA => {
                    let buf = core::ptr::with_exposed_provenance_mut(entry.buf);
                    *to.cast::<fi_cq_data_entry>().add(number) =
                        fi_cq_data_entry { op_context, flags, len, buf, data: 0 };
                }
                _ => *to.cast::<*mut c_void>().add(number) = op_context,
            }
        }
    }
    entries.len() as isize
}

/// A provider-specific error number, which a test may print.
const PROV_ERRNO: c_int = 4711;

unsafe extern "C" fn cq_readerr(queue: *mut fid_cq, to: *mut fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(queue) };
    let mut entered = match handle.enter_live("fi_cq_readerr") {
        Ok(entered) => entered,
        Err(error) => return -(error as isize),
    };
    let Some(entry) = entered.state.take_error(handle.id) else { return -(FI_EAGAIN as isize) };
    // SAFETY: see above: an entry, of version 1.17 at least, which has no `src_addr`.
    unsafe {
        if (*to).err_data_size != 0 && (*to).err_data.is_null() {
            entered.state.violation("fi_cq_readerr: the entry was not cleared".into());
        }
        (*to).op_context = core::ptr::with_exposed_provenance_mut(entry.context);
        (*to).flags = entry.flags;
        (*to).len = entry.len;
        (*to).buf = core::ptr::null_mut();
        (*to).data = 0;
        (*to).tag = 0;
        (*to).olen = entry.olen;
        (*to).err = entry.error;
        (*to).prov_errno = PROV_ERRNO;
    }
    1
}

unsafe extern "C" fn cq_strerror(
    _queue: *mut fid_cq,
    _number: c_int,
    _data: *const c_void,
    to: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = c"an error that the fake provider was told to make, or that it found";
    if !to.is_null() && len != 0 {
        let room = (len - 1).min(text.count_bytes());
        // SAFETY: see above: a place of `len` bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), to, room);
            *to.add(room) = 0;
        }
    }
    text.as_ptr()
}

unsafe extern "C" fn mr_reg(
    domain: *mut fid,
    base: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    made: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::<fid_domain>::of(domain.cast()) };
    let opened = handle.enter_live("fi_mr_reg").and_then(|mut entered| {
        if offset != 0 || flags != 0 {
            return Err(FI_EBADFLAGS);
        }
        // SAFETY: a registration lends its memory until it is closed; the model accesses it only as
        // `access` permits.
        let memory = unsafe { Lent::new(base, len) };
        let id = entered.state.register(handle.id, memory, access, key)?;
        Ok((id, entered.state.shown_key(id), entered.state.regions.get(&id).map_or(0, |region| region.desc)))
    });
    match opened {
        Err(error) => -error,
        Ok((id, key, desc)) => {
            let face = fid_mr {
                fid: fid { fclass: FI_CLASS_MR, context, ops: table(&REGION) },
                mem_desc: core::ptr::without_provenance_mut(desc),
                key,
            };
            // SAFETY: see above.
            unsafe { *made = Handle::make(face, &handle.world, handle.guard.as_ref(), id) };
            0
        }
    }
}

unsafe extern "C" fn mr_bind(region: *mut fid, to: *mut fid, _flags: u64) -> c_int {
    // SAFETY: see above.
    let (handle, to) = unsafe { (Handle::<fid_mr>::of(region.cast()), id_of(to)) };
    let bound = handle
        .enter_live("fi_mr_bind")
        .and_then(|mut entered| entered.state.bind_region(handle.id, to.ok_or(FI_EINVAL)?));
    code(bound)
}

unsafe extern "C" fn mr_control(region: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    let key = {
        // SAFETY: see above.
        let handle = unsafe { Handle::<fid_mr>::of(region.cast()) };
        let enabled = handle.enter_live("fi_mr_enable").and_then(|mut entered| match command {
            FI_ENABLE => {
                entered.state.enable_region(handle.id)?;
                Ok(entered.state.shown_key(handle.id))
            }
            _ => Err(FI_ENOSYS),
        });
        match enabled {
            Ok(key) => key,
            Err(error) => return -error,
        }
    };
    // SAFETY: see above; the reference to the object has ended.
    unsafe { (*region.cast::<fid_mr>()).key = key };
    0
}
