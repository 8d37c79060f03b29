//! Numbers of the headers, as far as they are used.

/// Messages.
pub const FI_MSG: u64 = 1 << 1;
/// Remote memory access.
pub const FI_RMA: u64 = 1 << 2;
/// Messages with tags.
pub const FI_TAGGED: u64 = 1 << 3;
/// Atomic operations.
pub const FI_ATOMIC: u64 = 1 << 4;
/// Reads are started.
pub const FI_READ: u64 = 1 << 8;
/// Writes are started.
pub const FI_WRITE: u64 = 1 << 9;
/// Messages are received.
pub const FI_RECV: u64 = 1 << 10;
/// Messages are sent.
pub const FI_SEND: u64 = 1 << 11;
/// The same bit, for binding queues.
pub const FI_TRANSMIT: u64 = FI_SEND;
/// Peers read.
pub const FI_REMOTE_READ: u64 = 1 << 12;
/// Peers write.
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
/// A receive buffer takes several messages; in a completion: it takes no more.
pub const FI_MULTI_RECV: u64 = 1 << 16;
/// More operations follow at once.
pub const FI_MORE: u64 = 1 << 18;
/// A completion is wanted.
pub const FI_COMPLETION: u64 = 1 << 24;
/// The buffer is free when the call returns.
pub const FI_INJECT: u64 = 1 << 25;
/// The buffer is free at completion.
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
/// The peer has the data, or will have, at completion.
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
/// The data is in the peer's memory at completion.
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
/// Only peers of the host.
pub const FI_LOCAL_COMM: u64 = 1 << 51;
/// Peers of other hosts.
pub const FI_REMOTE_COMM: u64 = 1 << 52;
/// The sender's address comes with messages.
pub const FI_SOURCE: u64 = 1 << 57;
/// Receive contexts have addresses.
pub const FI_NAMED_RX_CTX: u64 = 1 << 58;
/// Only operations with `FI_COMPLETION` have completions.
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;

/// Operations lend `fi_context` storage to the provider.
pub const FI_CONTEXT: u64 = 1 << 59;
/// Messages have room in front for the provider.
pub const FI_MSG_PREFIX: u64 = 1 << 58;
/// Arrays of iovecs stay until completion.
pub const FI_ASYNC_IOV: u64 = 1 << 57;
/// Data in completions takes a receive buffer.
pub const FI_RX_CQ_DATA: u64 = 1 << 56;
/// Operations lend `fi_context2` storage to the provider.
pub const FI_CONTEXT2: u64 = 1 << 52;

/// Local buffers are registered.
pub const FI_MR_LOCAL: i32 = 1 << 2;
/// Keys are longer than 64 bits.
pub const FI_MR_RAW: i32 = 1 << 3;
/// Regions are addressed by virtual addresses, otherwise from 0.
pub const FI_MR_VIRT_ADDR: i32 = 1 << 4;
/// What is registered has memory behind it.
pub const FI_MR_ALLOCATED: i32 = 1 << 5;
/// The provider chooses keys.
pub const FI_MR_PROV_KEY: i32 = 1 << 6;
/// The provider is told when mappings change.
pub const FI_MR_MMU_NOTIFY: i32 = 1 << 7;
/// Regions with events are bound to a counter.
pub const FI_MR_RMA_EVENT: i32 = 1 << 8;
/// Regions are bound to an endpoint, and enabled.
pub const FI_MR_ENDPOINT: i32 = 1 << 9;
/// Memory of devices.
pub const FI_MR_HMEM: i32 = 1 << 10;
/// `FI_MR_BASIC` of versions before 1.5.
pub const FI_MR_BASIC: i32 = 1;
/// `FI_MR_SCALABLE` of versions before 1.5.
pub const FI_MR_SCALABLE: i32 = 2;

/// Sends stay in order with sends.
pub const FI_ORDER_SAS: u64 = 1 << 8;

/// Connected endpoint.
pub const FI_EP_MSG: i32 = 1;
/// Datagrams.
pub const FI_EP_DGRAM: i32 = 2;
/// Reliable datagrams.
pub const FI_EP_RDM: i32 = 3;

/// The provider chooses.
pub const FI_AV_UNSPEC: i32 = 0;
/// Addresses are the provider's.
pub const FI_AV_MAP: i32 = 1;
/// Addresses are indices.
pub const FI_AV_TABLE: i32 = 2;

/// The provider makes progress by itself.
pub const FI_PROGRESS_AUTO: i32 = 1;
/// The provider makes progress when it is called.
pub const FI_PROGRESS_MANUAL: i32 = 2;

/// Any thread may use anything.
pub const FI_THREAD_SAFE: i32 = 1;
/// One thread at a time uses a domain and what belongs to it.
pub const FI_THREAD_DOMAIN: i32 = 3;
/// One thread at a time uses a completion queue and what reports to it.
pub const FI_THREAD_COMPLETION: i32 = 4;

/// The provider cares for overruns.
pub const FI_RM_ENABLED: i32 = 2;

/// An address of unknown form.
pub const FI_FORMAT_UNSPEC: u32 = 0;
/// `sockaddr`.
pub const FI_SOCKADDR: u32 = 1;
/// `sockaddr_in`.
pub const FI_SOCKADDR_IN: u32 = 2;
/// `sockaddr_in6`.
pub const FI_SOCKADDR_IN6: u32 = 3;
/// `sockaddr_ib`.
pub const FI_SOCKADDR_IB: u32 = 4;
/// A string.
pub const FI_ADDR_STR: u32 = 9;

/// Whoever it is.
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

/// Completions with context only.
pub const FI_CQ_FORMAT_CONTEXT: i32 = 1;
/// And with flags and length.
pub const FI_CQ_FORMAT_MSG: i32 = 2;
/// And with buffer and data.
pub const FI_CQ_FORMAT_DATA: i32 = 3;

/// Nobody waits.
pub const FI_WAIT_NONE: i32 = 0;
/// Whatever the provider has.
pub const FI_WAIT_UNSPEC: i32 = 1;
/// A descriptor.
pub const FI_WAIT_FD: i32 = 3;

/// `fi_control`: the object to wait on.
pub const FI_GETWAIT: i32 = 5;
/// `fi_control`: begin.
pub const FI_ENABLE: i32 = 6;

/// Level of endpoints' options.
pub const FI_OPT_ENDPOINT: i32 = 0;
/// Option: how much room a buffer for several messages must have to take another one (`size_t`).
pub const FI_OPT_MIN_MULTI_RECV: i32 = 0;

/// `FI_LINK_UP`.
pub const FI_LINK_UP: i32 = 2;

/// Classes of objects.
pub const FI_CLASS_FABRIC: usize = 1;
/// Class of domains.
pub const FI_CLASS_DOMAIN: usize = 2;
/// Class of endpoints.
pub const FI_CLASS_EP: usize = 3;
/// Class of scalable endpoints.
pub const FI_CLASS_SEP: usize = 4;
/// Class of receive contexts.
pub const FI_CLASS_RX_CTX: usize = 5;
/// Class of transmit contexts.
pub const FI_CLASS_TX_CTX: usize = 7;
/// Class of address vectors.
pub const FI_CLASS_AV: usize = 11;
/// Class of memory regions.
pub const FI_CLASS_MR: usize = 12;
/// Class of event queues.
pub const FI_CLASS_EQ: usize = 13;
/// Class of completion queues.
pub const FI_CLASS_CQ: usize = 14;
/// Class of descriptions of network cards.
pub const FI_CLASS_NIC: usize = 20;

/// Nothing to be had now (`EAGAIN`).
pub const FI_EAGAIN: i32 = libc::EAGAIN;
/// An error entry waits in the completion queue.
pub const FI_EAVAIL: i32 = 259;
/// A message was longer than its buffer.
pub const FI_ETRUNC: i32 = 265;
/// There is nothing that fits.
pub const FI_ENODATA: i32 = libc::ENODATA;
/// The function is not there.
pub const FI_ENOSYS: i32 = libc::ENOSYS;
/// The operation was cancelled.
pub const FI_ECANCELED: i32 = libc::ECANCELED;
