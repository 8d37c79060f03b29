//! Known defects of providers, in which versions of libfabric, and what is done about each.

use libfabric_sys::version;

/// What is done about a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The provider is not used unless it is named.
    RefuseUnlessNamed,
    /// Nothing that the netmod does leads to it: how.
    Avoided(&'static str),
}

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The provider's whole name.
    pub provider: &'static str,
    /// First version of libfabric in which it is known not to be there, as `FI_VERSION` makes it; `None`: in none.
    pub gone: Option<u32>,
    /// What happens.
    pub what: &'static str,
    /// What is done about it.
    pub remedy: Remedy,
}

const NO_TRUNCATION: Remedy =
    Remedy::Avoided("no frame is longer than the room that its receiver keeps for one");
const OWN_LIVENESS: Remedy = Remedy::Avoided("whether a peer lives is found out without the provider");
const OWN_POLLS: Remedy =
    Remedy::Avoided("claims of progress are not relied upon: whoever exposes memory polls");
const NO_PUT: Remedy = Remedy::Avoided("nothing is put, large messages are got");
const OPENED_ONCE: Remedy =
    Remedy::Avoided("an engine opens an endpoint for each domain when it starts, and no more after that");

const V1_19: u32 = version(1, 19);
const V2_0: u32 = version(2, 0);
const V2_6: u32 = version(2, 6);

const FULL: &str = "1024 messages that wait for a receive buffer leave no room for buffers that take several: -FI_ENOMEM for ever";

/// Those that were observed with 1.17, 2.4 and 2.6. What was not there in 2.6 is taken to be in all versions before that.
pub const DEFECTS: &[Defect] = &[
    Defect {
        provider: "udp;ofi_rxd",
        gone: Some(V2_6),
        what: "messages in both directions stall for ever once some 1024 are under way, without FI_EAGAIN",
        remedy: Remedy::RefuseUnlessNamed,
    },
    Defect {
        provider: "udp;ofi_rxd",
        gone: Some(V2_6),
        what: "a message that is longer than its receive buffer is cut, and reported as a success",
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
        what: "a transfer with a key that is not valid never completes, and error entries may come without context",
        remedy: Remedy::Avoided(
            "keys are used only while their owner keeps them registered; entries without context are dropped",
        ),
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "from 2.0 on, endpoints of one process do not hear each other",
        remedy: Remedy::Avoided("an engine has connections with engines of other processes alone"),
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
    Defect {
        provider: "shm",
        gone: Some(V1_19),
        what: FULL,
        remedy: Remedy::Avoided("a buffer takes one message, for which there is room"),
    },
    // By its source; it is that of shm.
    Defect {
        provider: "sm2",
        gone: Some(V1_19),
        what: FULL,
        remedy: Remedy::Avoided("a buffer for one of them is posted, for which there is room"),
    },
    Defect {
        provider: "sockets",
        gone: None,
        what: "sends complete while the message still lies in the process, and a process that is killed takes it along",
        remedy: Remedy::Avoided(
            "who leaves in order waits until its peers have had everything; a killed process has no say",
        ),
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: Some(V2_6),
        what: "a message that is longer than its receive buffer ends the connection, and later sends are lost although they complete",
        remedy: NO_TRUNCATION,
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: None,
        what: "messages that are longer than its own buffers (FI_OFI_RXM_BUFFER_SIZE, 16 KiB) are lost in receive buffers that take several",
        remedy: Remedy::Avoided("frames are no longer than that, whatever NETMOD_OFI_FRAME says"),
    },
    Defect {
        provider: "tcp;ofi_rxm",
        gone: None,
        what: "with FI_OFI_RXM_DEF_TCP_WAIT_OBJ=pollfd, which makes short messages faster, who waits on the queue's descriptor is not always woken",
        remedy: Remedy::Avoided(
            "with that setting one does not wait on it, but looks again after sleeps that grow",
        ),
    },
    Defect {
        provider: "net",
        gone: None,
        what: "a message that is longer than its receive buffer ends the connection",
        remedy: NO_TRUNCATION,
    },
    Defect {
        provider: "net",
        gone: None,
        what: "transfers wait until the target polls, although progress is said to be automatic",
        remedy: OWN_POLLS,
    },
    Defect {
        provider: "net",
        gone: Some(V2_0),
        what: "the descriptor of a queue stays readable while there is nothing, so that who waits on it uses a whole core",
        remedy: Remedy::Avoided("one does not wait on it, but looks again after sleeps that grow"),
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
        what: "some 800 bytes stay of each endpoint that was closed, and as many of each connection",
        remedy: OPENED_ONCE,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "some 300 bytes stay of each endpoint that was closed",
        remedy: OPENED_ONCE,
    },
    Defect {
        provider: "shm",
        gone: None,
        what: "a peer that is in the middle of a put writes to the memory although its registration was closed meanwhile",
        remedy: NO_PUT,
    },
    Defect {
        provider: "sm2",
        gone: None,
        what: "a peer that is in the middle of a put writes to the memory although its registration was closed meanwhile",
        remedy: NO_PUT,
    },
    Defect {
        provider: "tcp",
        gone: None,
        what: "transfers wait until the target polls, although progress is said to be automatic",
        remedy: OWN_POLLS,
    },
    Defect {
        provider: "tcp",
        gone: None,
        what: "sends to a peer that has ended fail with FI_EAGAIN for ever",
        remedy: OWN_LIVENESS,
    },
];

/// By what ofi_rxm's queue over the provider tcp waits (`fi_info -e`).
const RXM_WAITS_BY: &str = "FI_OFI_RXM_DEF_TCP_WAIT_OBJ";

/// Returns true if the descriptor of a provider's queue tells of everything that comes, and of nothing else. `library`: the version;
/// `variable`: what the environment says.
pub fn wakes(provider: &str, library: u32, variable: impl FnOnce(&str) -> Option<String>) -> bool {
    match provider {
        "tcp;ofi_rxm" => variable(RXM_WAITS_BY).is_none_or(|by| by != "pollfd"),
        "net" => library >= V2_0,
        _ => true,
    }
}

/// Those of a provider in a version of libfabric.
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
