//! Requests to `fi_getinfo`, and its records with a Rust copy of their relevant fields.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use core::ops::Deref;
use core::ptr::{self, NonNull};
use std::ffi::CString;

use libfabric_sys::Library;
use libfabric_sys::attr::{fi_info, fid_nic};
use libfabric_sys::consts::{
    FI_EP_RDM, FI_LINK_UP, FI_MR_ALLOCATED, FI_MR_BASIC, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY,
    FI_MR_VIRT_ADDR, FI_MSG, FI_MULTI_RECV, FI_NAMED_RX_CTX, FI_ORDER_SAS, FI_RMA,
};

/// Maximum length of a copied address in bytes. The longest addresses of providers are paths and
/// URIs of some hundred bytes.
pub const MAX_ADDRESS: usize = 1024;

/// `FI_LINK_DOWN`.
const FI_LINK_DOWN: i32 = 1;

/// A request to libfabric: reliable datagrams, ordered sends, and these properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Capabilities.
    pub caps: u64,
    /// Supported modes.
    pub mode: u64,
    /// Supported modes of registration.
    pub mr_mode: i32,
    /// Threading model, `FI_THREAD_*`.
    pub threading: i32,
    /// Name of the only provider to ask; `None` for all.
    pub provider: Option<&'a str>,
}

/// Requirements for registering memory and naming it to peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrMode {
    /// Local buffers of operations must be registered, too.
    pub local: bool,
    /// Peers name memory by virtual address instead of the offset in its region.
    pub virt_addr: bool,
    /// Registered memory must have physical pages.
    pub allocated: bool,
    /// The provider chooses keys, instead of the process that registers.
    pub prov_key: bool,
    /// A region must be bound to its endpoint and enabled.
    pub endpoint: bool,
}

impl MrMode {
    /// All supported bits.
    pub const HONOURED: i32 =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

    /// Converts `mr_mode`; `FI_MR_BASIC` stands for the separate bits that replaced it.
    pub const fn of(bits: i32) -> MrMode {
        let basic = bits & FI_MR_BASIC != 0;
        MrMode {
            local: bits & FI_MR_LOCAL != 0,
            virt_addr: basic || bits & FI_MR_VIRT_ADDR != 0,
            allocated: basic || bits & FI_MR_ALLOCATED != 0,
            prov_key: basic || bits & FI_MR_PROV_KEY != 0,
            endpoint: bits & FI_MR_ENDPOINT != 0,
        }
    }
}

/// A network card, as described by the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicFacts {
    /// Its name.
    pub name: String,
    /// Speed in Mb/s, if known.
    pub speed: Option<u32>,
    /// MTU in bytes, if known.
    pub mtu: Option<u32>,
    /// True if its link is up, if known.
    pub up: Option<bool>,
}

/// Copy of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The provider's name, such as `tcp;ofi_rxm`.
    pub provider: String,
    /// The provider's version, in the form of `FI_VERSION`.
    pub provider_version: u32,
    /// Name of the fabric; for IP networks, the subnet.
    pub fabric: String,
    /// Name of the domain; for IP networks, the interface.
    pub domain: String,
    /// Protocol of the endpoint, `FI_PROTO_*`.
    pub protocol: u32,
    /// Version of the protocol.
    pub protocol_version: u32,
    /// Address format, `FI_SOCKADDR_IN` and so on.
    pub format: u32,
    /// Local address. Its port may be 0 before an endpoint is open. Empty if the provider does not
    /// tell.
    pub address: Box<[u8]>,
    /// Capabilities.
    pub caps: u64,
    /// Modes that the caller must support, of the record and its parts.
    pub mode: u64,
    /// Requirements of registration, `FI_MR_*`.
    pub mr_mode: i32,
    /// Length of a key in bytes.
    pub key_size: usize,
    /// Maximum length of an injected message in bytes (`fi_inject`).
    pub inject: usize,
    /// Capacity of a transmit queue in operations.
    pub tx_size: usize,
    /// Capacity of a receive queue in operations.
    pub rx_size: usize,
    /// Scatter-gather elements of a sent message.
    pub tx_iov: usize,
    /// Scatter-gather elements of a received message.
    pub rx_iov: usize,
    /// Elements of the peer's memory in a transfer.
    pub rma_iov: usize,
    /// Maximum length of a message or transfer in bytes.
    pub max_msg: usize,
    /// Order of transmit operations, `FI_ORDER_*`.
    pub tx_order: u64,
    /// Order of receive operations, `FI_ORDER_*`.
    pub rx_order: u64,
    /// Maximum number of transmit contexts of a scalable endpoint.
    pub tx_contexts: usize,
    /// Maximum number of receive contexts of a scalable endpoint.
    pub rx_contexts: usize,
    /// Control progress model, as claimed by the provider: `FI_PROGRESS_*`.
    pub control_progress: i32,
    /// Data progress model, as claimed by the provider: `FI_PROGRESS_*`.
    pub data_progress: i32,
    /// Threading model, `FI_THREAD_*`.
    pub threading: i32,
    /// The network card.
    pub nic: Option<NicFacts>,
}

impl Facts {
    /// Returns true if peers' memory can be read and written.
    pub fn has_rma(&self) -> bool {
        self.caps & FI_RMA != 0
    }

    /// Returns true if a receive buffer can take several messages.
    pub fn has_multi_recv(&self) -> bool {
        self.caps & FI_MULTI_RECV != 0
    }

    /// Returns the maximum number of context pairs of a scalable endpoint; 1 if there are none.
    pub fn contexts(&self) -> usize {
        if self.caps & FI_NAMED_RX_CTX == 0 { 1 } else { self.tx_contexts.min(self.rx_contexts).max(1) }
    }

    /// Returns the requirements of registration.
    pub fn mr(&self) -> MrMode {
        MrMode::of(self.mr_mode)
    }
}

/// A record of libfabric from which a domain can be opened, and its copy.
#[derive(Debug)]
pub struct Offer {
    facts: Facts,
    info: Info,
}

impl Deref for Offer {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl Offer {
    /// Returns the copied fields.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the record, which lives as long as the offer. Requested attributes, such as the
    /// number of contexts, may be changed for opening an endpoint. Strings and addresses belong to
    /// the library.
    pub fn info(&self) -> *mut fi_info {
        self.info.at.as_ptr()
    }

    /// Duplicates the offer.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn duplicate(&self) -> Result<Offer, InfoError> {
        // SAFETY: the record is live.
        let info = unsafe { Info::copy(&self.info.library, self.info.at.as_ptr()) }?;
        Ok(Offer { facts: self.facts.clone(), info })
    }
}

/// Reason why there are no records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// No provider matches the request.
    #[error("no provider of libfabric matches the request")]
    Nothing,
    /// libfabric is out of memory.
    #[error("libfabric is out of memory")]
    Memory,
    /// The provider's name contains a zero byte.
    #[error("`{}` is not a valid provider name", .0.escape_debug())]
    Name(String),
    /// The call has failed for another reason.
    #[error("fi_getinfo: {text} ({number})")]
    Failed {
        /// The error number.
        number: i32,
        /// Its meaning.
        text: String,
    },
}

/// An owned record.
#[derive(Debug)]
struct Info {
    at: NonNull<fi_info>,
    library: Library,
}

// SAFETY: a record is plain memory of the library's, without ties to a thread, and has one owner.
unsafe impl Send for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: the record came from the library, and nobody has it any more.
        unsafe { (self.library.fi_freeinfo)(self.at.as_ptr()) }
    }
}

impl Info {
    /// Makes an empty record for a request.
    fn empty(library: &Library) -> Result<Info, InfoError> {
        // SAFETY: the library makes an empty record of nothing (that is `fi_allocinfo`).
        unsafe { Info::copy(library, ptr::null()) }
    }

    /// Copies a record.
    ///
    /// # Safety
    /// `of` is a live record of that library, or null.
    unsafe fn copy(library: &Library, of: *const fi_info) -> Result<Info, InfoError> {
        // SAFETY: as above. What follows it in a list is not copied.
        let at = unsafe { (library.fi_dupinfo)(of) };
        NonNull::new(at).map(|at| Info { at, library: *library }).ok_or(InfoError::Memory)
    }
}

/// A list returned by `fi_getinfo`.
struct List {
    first: *mut fi_info,
    library: Library,
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: the whole list came from the library, and nobody else has it.
            unsafe { (self.library.fi_freeinfo)(self.first) }
        }
    }
}

/// Makes the hints for a request.
fn hints(library: &Library, request: &Request<'_>) -> Result<Info, InfoError> {
    let hints = Info::empty(library)?;
    // SAFETY: the record is owned, and no other reference to it or its parts exists.
    let parts = unsafe {
        let info = &mut *hints.at.as_ptr();
        (info.tx_attr.as_mut(), info.rx_attr.as_mut(), info.ep_attr.as_mut(), info.domain_attr.as_mut())
    };
    let (Some(tx), Some(rx), Some(ep), Some(domain)) = parts else { return Err(InfoError::Memory) };
    tx.msg_order = FI_ORDER_SAS;
    rx.msg_order = FI_ORDER_SAS;
    ep.type_ = FI_EP_RDM;
    domain.threading = request.threading;
    domain.mr_mode = request.mr_mode;
    // SAFETY: as above; the parts are other objects than the record.
    let info = unsafe { &mut *hints.at.as_ptr() };
    info.caps = request.caps;
    info.mode = request.mode;
    if let Some(name) = request.provider {
        let text = CString::new(name).map_err(|_| InfoError::Name(name.to_owned()))?;
        // SAFETY: the part belongs to the record. The copy is allocated by malloc, and the library
        // frees it with the record.
        unsafe {
            let fabric = info.fabric_attr.as_mut().ok_or(InfoError::Memory)?;
            fabric.prov_name = libc::strdup(text.as_ptr());
            if fabric.prov_name.is_null() {
                return Err(InfoError::Memory);
            }
        }
    }
    Ok(hints)
}

/// Returns the library's offers for a request, in its order.
///
/// # Errors
/// If there are none, or the call fails.
pub fn getinfo(library: &Library, request: &Request<'_>) -> Result<Vec<Offer>, InfoError> {
    debug_assert!(request.caps & FI_MSG != 0);
    let hints = hints(library, request)?;
    let mut list = List { first: ptr::null_mut(), library: *library };
    // SAFETY: the hints are a live record of the library; the other arguments may be null; the list
    // is written on success.
    let failed = unsafe {
        (library.fi_getinfo)(
            library.api(),
            ptr::null(),
            ptr::null(),
            0,
            hints.at.as_ptr().cast_const(),
            &raw mut list.first,
        )
    };
    if failed != 0 {
        list.first = ptr::null_mut();
        let number = failed.saturating_abs();
        return Err(match number {
            libfabric_sys::consts::FI_ENODATA => InfoError::Nothing,
            _ => InfoError::Failed { number, text: library.error(number.into()) },
        });
    }
    let mut offers = Vec::new();
    let mut at = list.first.cast_const();
    // SAFETY: the list is live until it is dropped, at the end; `next` is the next record, or null.
    while let Some(info) = unsafe { at.as_ref() } {
        // SAFETY: the record is one of a live list of the library.
        if let Some(facts) = unsafe { facts(info) } {
            // SAFETY: as above.
            offers.push(Offer { facts, info: unsafe { Info::copy(library, at) }? });
        }
        at = info.next;
    }
    if offers.is_empty() { Err(InfoError::Nothing) } else { Ok(offers) }
}

/// Copies a C string.
///
/// # Safety
/// A C string, or null.
pub(super) unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: it is a C string.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// Copies bytes.
///
/// # Safety
/// `len` bytes are readable, or the pointer is null.
unsafe fn bytes(at: *const c_void, len: usize) -> Box<[u8]> {
    if at.is_null() || len > MAX_ADDRESS {
        return Box::default();
    }
    // SAFETY: the caller says so.
    unsafe { core::slice::from_raw_parts(at.cast::<u8>(), len) }.into()
}

/// Copies the relevant fields of a record; `None` if it lacks a part.
///
/// # Safety
/// It is a live record of the library.
unsafe fn facts(info: &fi_info) -> Option<Facts> {
    // SAFETY: the parts of a live record are live, or null.
    let (tx, rx, ep, domain, fabric) = unsafe {
        (
            info.tx_attr.as_ref()?,
            info.rx_attr.as_ref()?,
            info.ep_attr.as_ref()?,
            info.domain_attr.as_ref()?,
            info.fabric_attr.as_ref()?,
        )
    };
    // SAFETY: names are C strings or null, the address has the given length, the card is live or
    // null.
    let (provider, fabric_name, domain_name, address, nic) = unsafe {
        (
            text(fabric.prov_name),
            text(fabric.name),
            text(domain.name),
            bytes(info.src_addr, info.src_addrlen),
            nic(info.nic),
        )
    };
    Some(Facts {
        provider,
        provider_version: fabric.prov_version,
        fabric: fabric_name,
        domain: domain_name,
        protocol: ep.protocol,
        protocol_version: ep.protocol_version,
        format: info.addr_format,
        address,
        caps: info.caps,
        mode: info.mode | tx.mode | rx.mode | domain.mode,
        mr_mode: domain.mr_mode,
        key_size: domain.mr_key_size,
        inject: tx.inject_size,
        tx_size: tx.size,
        rx_size: rx.size,
        tx_iov: tx.iov_limit,
        rx_iov: rx.iov_limit,
        rma_iov: tx.rma_iov_limit,
        max_msg: ep.max_msg_size,
        tx_order: tx.msg_order,
        rx_order: rx.msg_order,
        tx_contexts: domain.max_ep_tx_ctx,
        rx_contexts: domain.max_ep_rx_ctx,
        control_progress: domain.control_progress,
        data_progress: domain.data_progress,
        threading: domain.threading,
        nic,
    })
}

/// Copies the description of a card.
///
/// # Safety
/// A live card of a live record, or null.
unsafe fn nic(at: *const fid_nic) -> Option<NicFacts> {
    // SAFETY: the parts of a live card are live, or null.
    let (device, link) = unsafe {
        let nic = at.as_ref()?;
        (nic.device_attr.as_ref(), nic.link_attr.as_ref())
    };
    let known = |n: usize| u32::try_from(n).ok().filter(|n| *n > 0);
    Some(NicFacts {
        // SAFETY: a name is a C string, or null.
        name: device.map_or_else(String::new, |d| unsafe { text(d.name) }),
        speed: link.and_then(|l| known(l.speed / 1_000_000)),
        mtu: link.and_then(|l| known(l.mtu)),
        up: link.and_then(|l| match l.state {
            FI_LINK_UP => Some(true),
            FI_LINK_DOWN => Some(false),
            _ => None,
        }),
    })
}
