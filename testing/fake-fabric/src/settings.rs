//! Properties of a world: the provider's requirements, capabilities and faults.

use serde::{Deserialize, Serialize};

/// Format of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressFormat {
    /// `sockaddr_in`, 16 bytes.
    Inet,
    /// Strings (`FI_ADDR_STR`) of different lengths, at most this many bytes with the final zero;
    /// at least 40, at most 300.
    Text(usize),
}

/// Progress model. In each of them, events happen only within calls of `fi_cq_read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Reading any endpoint's queue moves the data of all endpoints.
    Auto,
    /// Data to an endpoint, or to and from its memory, moves only when one of its own queues is
    /// read.
    Manual,
    /// Behaves like `Manual`, but claims `Auto`, as some real providers do.
    ClaimsAuto,
}

/// Result of operations whose peer is dead, closed, or never existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTheDead {
    /// Messages complete successfully; reads and writes never complete.
    Silence,
    /// `-FI_EAGAIN` for ever; operations in flight never complete.
    Again,
    /// Operations complete with an error.
    Error,
}

/// Form of the requirements for memory registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MrDialect {
    /// Bits, as since version 1.5; see [`Settings::mr_mode`].
    Bits,
    /// `FI_MR_BASIC` only: virtual addresses, allocated memory and keys chosen by the provider.
    Basic,
    /// `FI_MR_SCALABLE` only: no requirements.
    Scalable,
}

/// Probabilities of `-FI_EAGAIN`, by call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Again {
    pub send: f64,
    pub inject: f64,
    pub recv: f64,
    pub read: f64,
    pub write: f64,
}

impl Again {
    /// Makes the same probability for all calls.
    pub fn all(probability: f64) -> Again {
        Again {
            send: probability,
            inject: probability,
            recv: probability,
            read: probability,
            write: probability,
        }
    }
}

/// Probabilities that an accepted operation fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Failure of a send, also of an injected one; every second message is delivered nevertheless.
    pub send: f64,
    /// Failure of a receive: the message is lost.
    pub recv: f64,
    /// Failure of a read: no data is read.
    pub read: f64,
    /// Failure of a write or atomic operation: nothing is written.
    pub write: f64,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $default:expr,)*) => {
        /// Properties of a world. The default is a provider without special requirements or faults:
        /// no mode bits, 64 bytes inject, multi-receive.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Settings {
            $($(#[doc = $doc])* pub $name: $type,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($name: $default,)* }
            }
        }

        impl Settings {
            $(
                $(#[doc = $doc])*
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Settings {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

settings! {
    /// Seed of all random decisions, which depend only on it and on the calls made.
    seed: u64 = 1,

    /// Required bits of `FI_MR_LOCAL`, `VIRT_ADDR`, `ALLOCATED`, `PROV_KEY`, `ENDPOINT`.
    mr_mode: i32 = 0,
    /// Form of the requirements: these bits, or one of the two modes from before 1.5.
    mr_dialect: MrDialect = MrDialect::Bits,
    /// Length of a key in bytes, 1 to 8.
    mr_key_size: usize = 8,
    /// Maximum number of regions of a domain.
    mr_count: usize = 65_536,
    /// Required modes of `FI_CONTEXT`, `FI_CONTEXT2`, `FI_ASYNC_IOV`.
    mode: u64 = 0,

    /// True if there is remote memory access.
    rma: bool = true,
    /// True if there are atomic operations, on words of 32 and 64 bits.
    atomics: bool = true,
    /// True if a receive buffer can take several messages.
    multi_recv: bool = true,
    /// Alignment of messages in such a buffer.
    multi_recv_align: usize = 1,
    /// Maximum length of an injected message; 0 allows only empty ones.
    inject_size: usize = 64,
    /// Maximum number of operations in flight of a transmit context.
    tx_size: usize = 256,
    /// Maximum number of receives posted to a receive context.
    rx_size: usize = 256,
    /// Maximum number of messages that wait at a receive context without a buffer; beyond, senders
    /// get `-FI_EAGAIN`.
    unexpected_max: usize = 4096,
    /// Number of waiting messages from which on multi-receives cannot be posted (`-FI_ENOMEM`), as
    /// in shm of 1.17, which keeps both in the same slots. 0: no such limit.
    unexpected_full: usize = 0,
    /// Maximum length of a message, read or write.
    max_msg_size: usize = 1 << 30,
    /// Maximum number of pieces of local memory in an operation.
    iov_limit: usize = 4,
    /// Maximum number of pieces of remote memory in an operation.
    rma_iov_limit: usize = 1,
    /// Default capacity of a completion queue.
    cq_size: usize = 1024,
    /// Transmit contexts of an endpoint; 1: there are no scalable endpoints.
    max_ep_tx_ctx: usize = 1,
    /// Receive contexts of an endpoint; 1: there are no scalable endpoints.
    max_ep_rx_ctx: usize = 1,
    /// True if receive contexts have addresses (`FI_NAMED_RX_CTX`).
    named_rx_ctx: bool = true,
    /// Address format.
    address: AddressFormat = AddressFormat::Inet,
    /// Types of address vectors, as bits: 1 map, 2 table. The first one is the default.
    av_types: u32 = 3,
    /// Progress model.
    progress: Progress = Progress::Auto,
    /// True if there are descriptors to wait on.
    wait_fd: bool = true,
    /// Link speed of the network card in bits per second; `None`: there is no card.
    link_speed: Option<usize> = None,
    /// True if the link is up.
    link_up: bool = true,

    /// Probabilities of random `-FI_EAGAIN`.
    again: Again = Again::default(),
    /// Maximum delay of arrivals, reads and writes, in calls of `fi_cq_read`.
    delivery_delay: u64 = 0,
    /// Maximum delay of completions, in calls of `fi_cq_read`.
    completion_delay: u64 = 0,
    /// True if events may be reordered, except messages from one context to one context. With
    /// delays they may be in any case.
    reorder: bool = false,
    /// True if operations without `FI_DELIVERY_COMPLETE` may complete before their data arrives.
    complete_early: bool = true,
    /// Probabilities of failed operations.
    failure: Failure = Failure::default(),
    /// True if error numbers in completions are negative.
    negative_errors: bool = false,
    /// True if error entries of receives, reads and writes have no context. Those of injected
    /// messages never have one.
    anonymous_errors: bool = false,
    /// Probability that a send's completion has too short a length.
    short_length: f64 = 0.0,
    /// Probability that `FI_MULTI_RECV` comes in an entry of its own, after those of the messages.
    release_alone: f64 = 0.0,
    /// Probability, per call of `fi_cq_read`, of a completion without an operation: no context, no
    /// flags.
    spurious: f64 = 0.0,
    /// True if undelivered messages are lost when their sender closes the endpoint.
    close_loses: bool = false,
    /// Result of operations whose peer is gone.
    to_the_dead: ToTheDead = ToTheDead::Silence,
}
