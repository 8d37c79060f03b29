//! What a world is like: what its provider demands, what it can do, what goes wrong.

use serde::{Deserialize, Serialize};

/// What addresses look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressFormat {
    /// `sockaddr_in`, 16 bytes.
    Inet,
    /// Strings (`FI_ADDR_STR`), each of another length, of at most so many bytes with the zero; at least 40, at most 300.
    Text(usize),
}

/// Who moves data. Whatever is said here, everything happens within calls of `fi_cq_read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Any endpoint's queue that is read moves the data of all.
    Auto,
    /// Nothing moves to an endpoint, nor to or from its memory, unless a queue of its own is read.
    Manual,
    /// As `Manual`, but the provider says that it is `Auto`, as some real ones do.
    ClaimsAuto,
}

/// What becomes of operations whose peer is dead, closed, or was never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTheDead {
    /// Messages complete as if all were well; reads and writes never do.
    Silence,
    /// `-FI_EAGAIN` for ever; what is under way never completes.
    Again,
    /// Everything completes with an error.
    Error,
}

/// How memory registration is spoken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MrDialect {
    /// By bits, as since version 1.5; see [`Settings::mr_mode`].
    Bits,
    /// Only `FI_MR_BASIC`, which means virtual addresses, allocated memory and keys of the provider.
    Basic,
    /// Only `FI_MR_SCALABLE`, which demands nothing.
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
    /// The same for all calls.
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

/// Probabilities that an operation which was accepted fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Of a send, or of what is injected; every second time the message arrives nevertheless.
    pub send: f64,
    /// Of a receive: the message is lost.
    pub recv: f64,
    /// Of a read: nothing was read.
    pub read: f64,
    /// Of a write: nothing was written.
    pub write: f64,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $default:expr,)*) => {
        /// What a world is like. The default is an easy-going provider without faults: no mode bits, 64 bytes inject, multi-recv.
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
    /// Everything that chance decides follows from it and from the calls that are made.
    seed: u64 = 1,

    /// Which of `FI_MR_LOCAL`, `VIRT_ADDR`, `ALLOCATED`, `PROV_KEY`, `ENDPOINT` are demanded.
    mr_mode: i32 = 0,
    /// Whether these bits are used, or one of the two words of before 1.5.
    mr_dialect: MrDialect = MrDialect::Bits,
    /// Bytes of a key, 1 to 8.
    mr_key_size: usize = 8,
    /// Regions that a domain can have at once.
    mr_count: usize = 65_536,
    /// Which of `FI_CONTEXT`, `FI_CONTEXT2`, `FI_ASYNC_IOV` are demanded.
    mode: u64 = 0,

    /// Whether there is remote memory access.
    rma: bool = true,
    /// Whether a receive buffer may take several messages.
    multi_recv: bool = true,
    /// Messages in such a buffer begin at multiples of it.
    multi_recv_align: usize = 1,
    /// Longest message that can be injected; 0 for none but empty ones.
    inject_size: usize = 64,
    /// Operations of a transmit context under way.
    tx_size: usize = 256,
    /// Receives posted in a receive context.
    rx_size: usize = 256,
    /// Messages that wait at a receive context without a buffer; a sender gets `-FI_EAGAIN` beyond.
    unexpected_max: usize = 4096,
    /// With so many messages that wait at a receive context without a buffer none can be posted that takes several (`-FI_ENOMEM`): shm of 1.17
    /// keeps both in the same places. 0: with any number one can.
    unexpected_full: usize = 0,
    /// Longest message, read or write.
    max_msg_size: usize = 1 << 30,
    /// Pieces of local memory in an operation.
    iov_limit: usize = 4,
    /// Pieces of remote memory in an operation.
    rma_iov_limit: usize = 1,
    /// Entries of a completion queue that asks for none in particular.
    cq_size: usize = 1024,
    /// Transmit contexts of an endpoint; 1: there are no scalable endpoints.
    max_ep_tx_ctx: usize = 1,
    /// Receive contexts of an endpoint; 1: there are no scalable endpoints.
    max_ep_rx_ctx: usize = 1,
    /// Whether receive contexts have addresses (`FI_NAMED_RX_CTX`).
    named_rx_ctx: bool = true,
    /// Form of addresses.
    address: AddressFormat = AddressFormat::Inet,
    /// Kinds of address vectors, as bits: 1 map, 2 table. The first one is taken if the application leaves it open.
    av_types: u32 = 3,
    /// Who moves data.
    progress: Progress = Progress::Auto,
    /// Whether there are descriptors to wait on.
    wait_fd: bool = true,
    /// What the network card says of its link, in bits per second; `None`: there is no card to be seen.
    link_speed: Option<usize> = None,
    /// Whether that link is up.
    link_up: bool = true,

    /// `-FI_EAGAIN` for no reason.
    again: Again = Again::default(),
    /// Arrivals, reads and writes take up to so many calls of `fi_cq_read`.
    delivery_delay: u64 = 0,
    /// Completions take up to so many calls of `fi_cq_read`.
    completion_delay: u64 = 0,
    /// Whether things overtake each other, other than messages from one context to one context. With delays they do so far.
    reorder: bool = false,
    /// Whether operations that do not ask for `FI_DELIVERY_COMPLETE` may complete before the data has arrived.
    complete_early: bool = true,
    /// Operations that fail.
    failure: Failure = Failure::default(),
    /// Error numbers in completions are negative.
    negative_errors: bool = false,
    /// Completions with error of receives, reads and writes have no context. What was injected never has one.
    anonymous_errors: bool = false,
    /// Probability that the completion of a send has a shorter length than what was sent.
    short_length: f64 = 0.0,
    /// Probability that `FI_MULTI_RECV` comes in an entry of its own, behind those of the messages.
    release_alone: f64 = 0.0,
    /// Probability, at each call of `fi_cq_read`, of a completion of nothing: no context, no flags.
    spurious: f64 = 0.0,
    /// Whether what has not arrived is lost when its sender closes the endpoint.
    close_loses: bool = false,
    /// What becomes of operations whose peer is gone.
    to_the_dead: ToTheDead = ToTheDead::Silence,
}
