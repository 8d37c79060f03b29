//! The reasons to refuse a connection, as one byte on the wire.

use core::fmt;

use netmod_core::Refusal;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $transient:literal, $text:literal;)*) => {
        /// The reason why a dial was refused.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum RejectReason {
            $($(#[doc = $doc])* $name = $code,)*
        }

        impl RejectReason {
            /// Every reason.
            pub const ALL: &'static [RejectReason] = &[$(RejectReason::$name),*];

            /// From the wire; `None` if a newer version of the peer knows more reasons.
            pub const fn from_wire(code: u8) -> Option<RejectReason> {
                match code {
                    $($code => Some(RejectReason::$name),)*
                    _ => None,
                }
            }

            /// Returns true if the same dial may succeed a little later.
            pub const fn is_transient(self) -> bool {
                match self {
                    $(RejectReason::$name => $transient,)*
                }
            }
        }

        impl fmt::Display for RejectReason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(RejectReason::$name => $text,)*
                })
            }
        }
    };
}

reasons! {
    /// The responder's own dial is under way and survives; wait for it.
    Crossing = 1, true, "its own dial is under way";
    /// The responder has, or has promised to take, another connection with this peer.
    AlreadyConnected = 2, true, "it still has a connection with this process";
    /// The responder is closing the previous connection.
    Closing = 3, true, "it is closing the previous connection";
    /// The VC is down at the responder and has not been revived.
    VcDown = 4, true, "it has given this process up after a failure";
    /// The responder has finalized.
    Finalized = 5, false, "it has finalized";
    /// The names are equal: a process dialled itself.
    Itself = 6, false, "a process cannot connect to itself";
    /// The responder has as many handshakes under way as it allows.
    Busy = 7, true, "it has too many handshakes under way";
    /// The session to be resumed is unknown to the responder.
    NoSession = 8, false, "no such session: it has given the VC up, or is another process";
    /// The responder cannot use the pair of interfaces that the connection came by; REJECT names
    /// those it can use.
    NoWayBack = 9, true, "its interface of that pair cannot be used, or has no route back";
    /// The decision of the lesser name is another pair; REJECT names it.
    OtherPair = 10, true, "another pair of interfaces was decided";
    /// A rail came for a VC that is not connected, or is not to have any.
    NoRails = 11, true, "its VC is not connected, or takes no rails";
    /// The responder has its VC with this process at another netmod: the two have not chosen alike.
    OtherNetmod = 12, false, "it has its end of the connection with another netmod";
    /// One of the two wants messages to be protected in a way in which the other does not.
    OtherSecurity = 13, false, "NETMOD_TCP_SECURITY is another one there: set it alike for all processes";
    /// No version of the protocol is known to both.
    Version = 16, false, "it speaks other versions of the protocol";
    /// The responder knows no job or group of that id.
    UnknownGroup = 17, false, "it belongs to another job";
    /// The responder is not the process that the initiator wants.
    WrongPeer = 18, false, "it is another process than the one wanted; is the business card old?";
    /// The initiator's rank is not in its group.
    BadRank = 19, false, "the dialling rank is not in its group";
    /// Nobody accepts on that port tag.
    NoSuchPort = 20, false, "nobody accepts on that port";
}

impl From<Refusal> for RejectReason {
    fn from(why: Refusal) -> RejectReason {
        match why {
            Refusal::NotWanted => RejectReason::Finalized,
            Refusal::OtherNetmod => RejectReason::OtherNetmod,
        }
    }
}

impl RejectReason {
    /// The form on the wire.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }
}
