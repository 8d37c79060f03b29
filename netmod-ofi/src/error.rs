//! Errors: of libfabric's objects, of opening them, of routes to peers.

use core::fmt;

use libfabric_sys::LoadError;
use netmod_core::card::CardError;
use netmod_framed::device;
use netmod_framed::memory::BlockError;
use netmod_matching::quote;

/// The reason why an object of libfabric cannot be opened or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// A call has failed.
    #[error("{call}: {why}")]
    Call {
        /// Name of the call.
        call: &'static str,
        /// libfabric's text for the error number.
        why: String,
    },
    /// The provider is out of resources.
    #[error("{action}: the provider is out of resources")]
    Resources {
        /// The action, or the call.
        action: &'static str,
    },
    /// The provider does not accept an address.
    #[error("fi_av_insert: the provider refuses the address")]
    AddressRefused,
    /// An address to be removed is not in the address vector.
    #[error("fi_av_remove: the address is not in the vector")]
    AddressUnknown,
    /// The peer uses one of several receive contexts, and the provider cannot address them.
    #[error(
        "it is receive context {context} of its endpoint, and the provider here cannot address contexts (FI_NAMED_RX_CTX)"
    )]
    ContextUnnamed {
        /// Index of the context.
        context: u8,
    },
    /// All contexts of the endpoint are taken.
    #[error("the endpoint has no context")]
    NoContext,
    /// The endpoint was shut down.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// Memory for buffers cannot be had.
    #[error(transparent)]
    Memory(#[from] BlockError),
    /// Every key that the provider allows has a registration.
    #[error("all keys that the provider allows are in use")]
    NoKey,
    /// The memory of an atomic operation is too short, or not aligned.
    #[error("an atomic operation has less than three aligned words of local memory")]
    NoScratch,
    /// The system gives no random numbers.
    #[error("no random numbers for a key: {0}")]
    Random(getrandom::Error),
}

/// The reason why the library or a port refuses a call.
pub(crate) type Refused = device::Refused<FabricError>;

impl FabricError {
    /// Returns the error of an action that is not tried again.
    pub(crate) fn of(action: &'static str, refused: Refused) -> FabricError {
        match refused {
            Refused::Again => FabricError::Resources { action },
            Refused::Failed(e) => e,
        }
    }
}

/// The reason why no domain was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// libfabric cannot be loaded.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// No offer of libfabric's is usable.
    #[error(transparent)]
    NoOffer(#[from] NoOffer),
    /// The chosen domains cannot be opened.
    #[error("{}", .reasons.join("; "))]
    NoDomain {
        /// The reason for each domain.
        reasons: Vec<String>,
    },
}

/// No offer of libfabric's is usable; the text explains it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoOffer(pub(crate) String);

/// The reason why two processes have no pair of domains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The versions of the frames differ.
    #[error(
        "its frames are of version {theirs}, those of this process of version {mine}; start all processes with the same netmod"
    )]
    Protocol {
        /// The peer's version.
        theirs: u16,
        /// This process's.
        mine: u16,
    },
    /// The providers differ.
    #[error(
        "it uses libfabric's provider {theirs}, and this process uses {mine}; set NETMOD_OFI_PROVIDER to one that all hosts have"
    )]
    Provider {
        /// The peer's provider.
        theirs: String,
        /// This process's.
        mine: String,
    },
    /// The providers speak different protocols.
    #[error(
        "its provider {provider} speaks {theirs}, and that of this process {mine}; use one version of libfabric on all hosts"
    )]
    ProviderProtocol {
        /// The provider.
        provider: String,
        /// The peer's protocol, with its versions.
        theirs: ProviderProtocol,
        /// This process's.
        mine: ProviderProtocol,
    },
    /// No domain of one side reaches one of the other.
    #[error(
        "no domain of this process has a route to one of the peer's over {provider}: {}; NETMOD_OFI_DOMAIN and NETMOD_OFI_PROVIDER \
         choose others, `netmod-perf info` lists them",
        no_route(.reasons)
    )]
    NoRoute {
        /// This process's provider.
        provider: String,
        /// The reason for each pair of domains.
        reasons: Vec<String>,
    },
}

/// The protocol of a provider, and the version of libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderProtocol {
    /// Protocol number and version.
    pub protocol: (u32, u32),
    /// libfabric's version, in the form of `FI_VERSION`.
    pub library: u32,
}

impl fmt::Display for ProviderProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, version) = self.protocol;
        let (major, minor) = (self.library >> 16, self.library & 0xffff);
        write!(f, "protocol {number} version {version} (libfabric {major}.{minor})")
    }
}

fn no_route(reasons: &[String]) -> String {
    if reasons.is_empty() { "their addresses have no format in common".into() } else { quote(reasons) }
}

/// The reason why there is no route to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The peer does not use this netmod.
    #[error("its card has no section of the netmod ofi")]
    NoSection,
    /// The peer's card is invalid.
    #[error(transparent)]
    Card(#[from] CardError),
    /// No two domains reach each other.
    #[error(transparent)]
    Pair(#[from] PairError),
}
