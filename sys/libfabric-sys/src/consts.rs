//! Constants of the headers that are used.

/// Messages.
pub const FI_MSG: u64 = 1 << 1;
/// Remote memory access.
pub const FI_RMA: u64 = 1 << 2;
/// Tagged messages.
pub const FI_TAGGED: u64 = 1 << 3;
/// Atomic operations.
pub const FI_ATOMIC: u64 = 1 << 4;
/// Initiates reads.
pub const FI_READ: u64 = 1 << 8;
/// Initiates writes.
pub const FI_WRITE: u64 = 1 << 9;
/// Receives messages.
pub const FI_RECV: u64 = 1 << 10;
/// Sends messages.
pub const FI_SEND: u64 = 1 << 11;
/// `FI_SEND` under its name for binding queues.
pub const FI_TRANSMIT: u64 = FI_SEND;
/// Is the target of peers' reads.
pub const FI_REMOTE_READ: u64 = 1 << 12;
/// Is the target of peers' writes.
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
/// A receive buffer takes several messages; in a completion: the buffer takes no more.
pub const FI_MULTI_RECV: u64 = 1 << 16;
/// More operations follow immediately.
pub const FI_MORE: u64 = 1 << 18;
/// Requests a completion.
pub const FI_COMPLETION: u64 = 1 << 24;
/// The buffer is reusable when the call returns.
pub const FI_INJECT: u64 = 1 << 25;
/// The buffer is reusable at completion.
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
/// The peer has the data, or is certain to get it, at completion.
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
/// The data is in the peer's memory at completion.
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
/// Communicates with peers on the same host.
pub const FI_LOCAL_COMM: u64 = 1 << 51;
/// Communicates with peers on other hosts.
pub const FI_REMOTE_COMM: u64 = 1 << 52;
/// Completions of receives have the sender's address.
pub const FI_SOURCE: u64 = 1 << 57;
/// Receive contexts have addresses.
pub const FI_NAMED_RX_CTX: u64 = 1 << 58;
/// Only operations with `FI_COMPLETION` have completions.
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;

/// Operations lend `fi_context` storage to the provider.
pub const FI_CONTEXT: u64 = 1 << 59;
/// Messages have space in front for the provider.
pub const FI_MSG_PREFIX: u64 = 1 << 58;
/// Arrays of iovecs must stay valid until completion.
pub const FI_ASYNC_IOV: u64 = 1 << 57;
/// Completion data uses a receive buffer.
pub const FI_RX_CQ_DATA: u64 = 1 << 56;
/// Operations lend `fi_context2` storage to the provider.
pub const FI_CONTEXT2: u64 = 1 << 52;

/// Local buffers must be registered.
pub const FI_MR_LOCAL: i32 = 1 << 2;
/// Keys are longer than 64 bits.
pub const FI_MR_RAW: i32 = 1 << 3;
/// Regions are addressed by virtual addresses instead of offsets from 0.
pub const FI_MR_VIRT_ADDR: i32 = 1 << 4;
/// Registered memory must have physical pages.
pub const FI_MR_ALLOCATED: i32 = 1 << 5;
/// The provider chooses keys.
pub const FI_MR_PROV_KEY: i32 = 1 << 6;
/// The provider must be told when mappings change.
pub const FI_MR_MMU_NOTIFY: i32 = 1 << 7;
/// Regions with events must be bound to a counter.
pub const FI_MR_RMA_EVENT: i32 = 1 << 8;
/// Regions must be bound to an endpoint and enabled.
pub const FI_MR_ENDPOINT: i32 = 1 << 9;
/// Device memory can be registered.
pub const FI_MR_HMEM: i32 = 1 << 10;
/// `FI_MR_BASIC` of versions before 1.5.
pub const FI_MR_BASIC: i32 = 1;
/// `FI_MR_SCALABLE` of versions before 1.5.
pub const FI_MR_SCALABLE: i32 = 2;

/// Sends arrive in the order of sends.
pub const FI_ORDER_SAS: u64 = 1 << 8;

/// Connected endpoint.
pub const FI_EP_MSG: i32 = 1;
/// Unreliable datagrams.
pub const FI_EP_DGRAM: i32 = 2;
/// Reliable datagrams.
pub const FI_EP_RDM: i32 = 3;

/// The provider chooses.
pub const FI_AV_UNSPEC: i32 = 0;
/// Addresses are opaque values of the provider.
pub const FI_AV_MAP: i32 = 1;
/// Addresses are indices.
pub const FI_AV_TABLE: i32 = 2;

/// The provider makes progress without calls.
pub const FI_PROGRESS_AUTO: i32 = 1;
/// The provider makes progress only when it is called.
pub const FI_PROGRESS_MANUAL: i32 = 2;

/// Threads may use any object at any time.
pub const FI_THREAD_SAFE: i32 = 1;
/// One thread at a time uses a domain and its objects.
pub const FI_THREAD_DOMAIN: i32 = 3;
/// One thread at a time uses a completion queue and what reports to it.
pub const FI_THREAD_COMPLETION: i32 = 4;

/// The provider prevents overruns.
pub const FI_RM_ENABLED: i32 = 2;

/// An address of unknown format.
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

/// Any peer.
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

/// Completions with the context only.
pub const FI_CQ_FORMAT_CONTEXT: i32 = 1;
/// Completions with context, flags and length.
pub const FI_CQ_FORMAT_MSG: i32 = 2;
/// Completions with context, flags, length, buffer and data.
pub const FI_CQ_FORMAT_DATA: i32 = 3;

/// No waiting on the queue.
pub const FI_WAIT_NONE: i32 = 0;
/// The provider chooses the wait object.
pub const FI_WAIT_UNSPEC: i32 = 1;
/// A file descriptor.
pub const FI_WAIT_FD: i32 = 3;

/// `fi_control`: returns the wait object.
pub const FI_GETWAIT: i32 = 5;
/// `fi_control`: enables the object.
pub const FI_ENABLE: i32 = 6;

/// Level of endpoints' options.
pub const FI_OPT_ENDPOINT: i32 = 0;
/// Option: free space below which a multi-receive buffer is released (`size_t`).
pub const FI_OPT_MIN_MULTI_RECV: i32 = 0;

/// The link is up.
pub const FI_LINK_UP: i32 = 2;

/// Class of fabrics.
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

/// Signed word of 32 bits.
pub const FI_INT32: i32 = 4;
/// Unsigned word of 32 bits.
pub const FI_UINT32: i32 = 5;
/// Signed word of 64 bits.
pub const FI_INT64: i32 = 6;
/// Unsigned word of 64 bits.
pub const FI_UINT64: i32 = 7;
/// Atomic: the lesser value.
pub const FI_MIN: i32 = 0;
/// Atomic: the greater value.
pub const FI_MAX: i32 = 1;
/// Atomic: the sum.
pub const FI_SUM: i32 = 2;
/// Atomic: bitwise "or".
pub const FI_BOR: i32 = 6;
/// Atomic: bitwise "and".
pub const FI_BAND: i32 = 7;
/// Atomic: bitwise "exclusive or".
pub const FI_BXOR: i32 = 9;
/// Atomic: stores the operand.
pub const FI_ATOMIC_WRITE: i32 = 11;
/// Atomic: stores the operand if the old value is the expected one.
pub const FI_CSWAP: i32 = 12;

/// Nothing available now (`EAGAIN`).
pub const FI_EAGAIN: i32 = libc::EAGAIN;
/// The completion queue has an error entry.
pub const FI_EAVAIL: i32 = 259;
/// A message was longer than its buffer.
pub const FI_ETRUNC: i32 = 265;
/// No match, or no data.
pub const FI_ENODATA: i32 = libc::ENODATA;
/// The function is not implemented.
pub const FI_ENOSYS: i32 = libc::ENOSYS;
/// The operation was cancelled.
pub const FI_ECANCELED: i32 = libc::ECANCELED;
