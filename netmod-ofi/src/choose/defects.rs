//! Known defects of providers, by version of libfabric, and their workarounds.

use libfabric_sys::version;

/// Workaround of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Do not use the provider unless the user names it.
    RefuseUnlessNamed,
    /// Avoid what triggers the defect, as described.
    Avoided(&'static str),
}

/// A defect of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Full name of the provider.
    pub provider: &'static str,
    /// First version of libfabric without the defect, in the form of `FI_VERSION`; `None` if there
    /// is none.
    pub gone: Option<u32>,
    /// Description of the defect.
    pub what: &'static str,
    /// Workaround.
    pub remedy: Remedy,
}

const NO_TRUNCATION: Remedy = Remedy::Avoided("no frame is longer than its receive buffer");
const OWN_LIVENESS: Remedy = Remedy::Avoided("the netmod checks the liveness of peers without the provider");
const OWN_POLLS: Remedy =
    Remedy::Avoided("the netmod does not rely on automatic progress: the owner of exposed memory polls");
const NO_PUT: Remedy = Remedy::Avoided("large messages use get instead of put");
const OPENED_ONCE: Remedy =
    Remedy::Avoided("an engine opens an endpoint per domain when it starts, and none later");

const V1_19: u32 = version(1, 19);
const V1_20: u32 = version(1, 20);
const V2_0: u32 = version(2, 0);
const V2_6: u32 = version(2, 6);

const WHOLE_BUFFERS: Remedy = Remedy::Avoided("each buffer takes one message, and is large enough for it");
const FULL_EARLY: &str =
    "a multi-receive buffer is reported full while messages of other connections are still written to it";
const FULL: &str = "1024 messages that wait for a receive buffer leave no room for multi-receive buffers: -FI_ENOMEM for ever";

/// Defects observed with 1.17, 2.4 and 2.6. A defect missing in 2.6 is assumed in all earlier
/// versions.
pub const DEFECTS: &[Defect] = &[
    Defect {
        provider: "udp;ofi_rxd",
        gone: Some(V2_6),
        what: "messages in both directions stall for ever once some 1024 are in flight, without FI_EAGAIN",
        remedy: Remedy::RefuseUnlessNamed,
    },
    Defect {
        provider: "udp;ofi_rxd",
        gone: Some(V2_6),
        what: "a message that is longer than its receive buffer is truncated, and reported as a success",
        remedy: NO_TRUNCATION,
    },
    Defect {
        provider: "udp;ofi_rxd",
        gone: None,
        what: "a peer that has ended is never reported",
        remedy: OWN_LIVENESS,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "a message that is longer than its receive buffer makes fi_cq_read loop for ever",
        remedy: NO_TRUNCATION,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "a transfer with a key that is not valid never completes, and error entries may have no context",
        remedy: Remedy::Avoided(
            "keys are used only while their memory is registered; entries without context are dropped",
        ),
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "from 2.0 on, endpoints of one process do not receive each other's messages",
        remedy: Remedy::Avoided("engines connect only with engines of other processes"),
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "a write is not confirmed before the target polls, although its data is there",
        remedy: OWN_POLLS,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "a peer that has ended is never reported, and sends to it fail with FI_EAGAIN for ever",
        remedy: OWN_LIVENESS,
    },
    Defect { provider: "shm", gone: Some(V1_19), what: FULL, remedy: WHOLE_BUFFERS },
    // Known from its source, which is that of shm.
    Defect {
        provider: "sm2",
        gone: Some(V1_19),
        what: FULL,
        remedy: Remedy::Avoided("a single-message buffer is posted instead, for which there is room"),
    },
    Defect {
        provider: "sockets",
        gone: None,
        what: "sends complete while the message is still in the process, so it is lost if the process is killed",
        remedy: Remedy::Avoided(
            "an orderly exit waits until the peers have everything; a killed process loses messages",
        ),
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: Some(V2_6),
        what: "a message that is longer than its receive buffer ends the connection, and later sends complete although they are lost",
        remedy: NO_TRUNCATION,
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: None,
        what: "messages longer than its own buffers (FI_OFI_RXM_BUFFER_SIZE, 16 KiB) are lost in multi-receive buffers",
        remedy: Remedy::Avoided("frames are no longer than its buffers, whatever NETMOD_OFI_FRAME says"),
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: None,
        what: "with FI_OFI_RXM_DEF_TCP_WAIT_OBJ=pollfd, which makes short messages faster, the queue's descriptor does not always become readable",
        remedy: Remedy::Avoided("with that setting, waiting ranks poll with increasing sleeps instead"),
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: Some(V1_20),
        what: "messages of one peer overtake each other in multi-receive buffers, once some had to wait for a buffer",
        remedy: WHOLE_BUFFERS,
    },
    Defect { provider: "net", gone: Some(V1_20), what: FULL_EARLY, remedy: WHOLE_BUFFERS },
    Defect { provider: "tcp", gone: Some(V1_20), what: FULL_EARLY, remedy: WHOLE_BUFFERS },
    Defect {
        provider: "net",
        gone: None,
        what: "a message that is longer than its receive buffer ends the connection",
        remedy: NO_TRUNCATION,
    },
    Defect {
        provider: "net",
        gone: None,
        what: "transfers wait until the target polls, despite claimed automatic progress",
        remedy: OWN_POLLS,
    },
    Defect {
        provider: "net",
        gone: Some(V2_0),
        what: "the descriptor of an empty queue stays readable, so waiting on it uses a whole core",
        remedy: Remedy::Avoided("waiting ranks poll with increasing sleeps instead"),
    },
    Defect {
        provider: "net",
        gone: None,
        what: "sends to a peer that has ended fail with FI_EAGAIN for ever",
        remedy: OWN_LIVENESS,
    },
    Defect {
        provider: "net",
        gone: None,
        what: "some 800 bytes leak per closed endpoint, and as many per connection",
        remedy: OPENED_ONCE,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "some 300 bytes leak per closed endpoint",
        remedy: OPENED_ONCE,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "a peer in the middle of a put still writes to the memory after its registration is closed",
        remedy: NO_PUT,
    },
    Defect {
        provider: "sm2",
        gone: None,
        what: "a peer in the middle of a put still writes to the memory after its registration is closed",
        remedy: NO_PUT,
    },
    Defect {
        provider: "tcp",
        gone: None,
        what: "transfers wait until the target polls, despite claimed automatic progress",
        remedy: OWN_POLLS,
    },
    Defect {
        provider: "tcp",
        gone: None,
        what: "sends to a peer that has ended fail with FI_EAGAIN for ever",
        remedy: OWN_LIVENESS,
    },
];

/// Variable that selects how ofi_rxm's queue over the provider tcp waits (`fi_info -e`).
const RXM_WAITS_BY: &str = "FI_OFI_RXM_DEF_TCP_WAIT_OBJ";

/// Returns true if the descriptor of a provider's queue becomes readable for every event, and only
/// then. `library`: the version; `variable`: reads an environment variable.
pub fn wakes(provider: &str, library: u32, variable: impl FnOnce(&str) -> Option<String>) -> bool {
    match provider {
        "tcp;ofi_rxm" => variable(RXM_WAITS_BY).is_none_or(|by| by != "pollfd"),
        "net" => library >= V2_0,
        _ => true,
    }
}

/// Returns the defects of a provider in a version of libfabric.
pub fn of(provider: &str, library: u32) -> impl Iterator<Item = &'static Defect> {
    DEFECTS.iter().filter(move |d| d.provider == provider && d.gone.is_none_or(|gone| library < gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_does_not_tell_is_known() {
        let set = |to: &'static str| move |name: &str| (name == RXM_WAITS_BY).then(|| to.to_owned());
        let v1 = version(1, 17);
        assert!(!wakes("tcp;ofi_rxm", v1, set("pollfd")));
        assert!(wakes("tcp;ofi_rxm", v1, set("fd")) && wakes("tcp;ofi_rxm", v1, |_| None));
        assert!(wakes("verbs;ofi_rxm", v1, set("pollfd")));
        assert!(!wakes("net", v1, |_| None) && wakes("net", V2_0, set("pollfd")));
    }

    #[test]
    fn defects_are_those_of_the_version() {
        let refused = |provider, library| {
            of(provider, library).filter(|d| d.remedy == Remedy::RefuseUnlessNamed).count()
        };
        assert_eq!(refused("udp;ofi_rxd", version(1, 17)), 1);
        assert_eq!(refused("udp;ofi_rxd", version(2, 5)), 1);
        assert_eq!(refused("udp;ofi_rxd", version(2, 6)), 0);
        assert_eq!(refused("udp", version(1, 17)), 0);
        assert!(of("shm", version(2, 6)).count() >= 2);
        assert_eq!(of("verbs;ofi_rxm", version(1, 17)).count(), 0);
    }
}
