//! The four modes, and sets of them.

use core::fmt;

/// The mode of a large message: which side moves the data, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The sender sends it as an ordinary message of the netmod.
    Null,
    /// The sender writes it into the receiver's registered memory.
    Put,
    /// The receiver reads it from the sender's registered memory.
    Get,
    /// Both copy at the same time, through a ring in memory that they share.
    Coop,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 4] = [Mode::Null, Mode::Put, Mode::Get, Mode::Coop];

    /// Returns its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Null => "null",
            Mode::Put => "put",
            Mode::Get => "get",
            Mode::Coop => "coop",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Mode::Null => 0,
            Mode::Put => 1,
            Mode::Get => 2,
            Mode::Coop => 4,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of modes, which always contains [`Mode::Null`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Modes(u8);

impl Modes {
    /// The set of Null alone.
    pub const NULL: Modes = Modes(0);
    const KNOWN: u8 = Mode::Put.bit() | Mode::Get.bit() | Mode::Coop.bit();

    /// Returns the set with one more mode.
    #[must_use]
    pub const fn with(self, mode: Mode) -> Modes {
        Modes(self.0 | mode.bit())
    }

    /// Returns the set without one mode. Null stays.
    #[must_use]
    pub const fn without(self, mode: Mode) -> Modes {
        Modes(self.0 & !mode.bit())
    }

    /// Returns the modes that both sets have.
    #[must_use]
    pub const fn and(self, other: Modes) -> Modes {
        Modes(self.0 & other.0)
    }

    /// Returns true if the set has the mode.
    pub const fn has(self, mode: Mode) -> bool {
        self.0 & mode.bit() == mode.bit()
    }

    /// Returns the wire form: one bit for each mode but Null.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set of these bits; `None` if a bit has no mode.
    pub const fn of_bits(bits: u8) -> Option<Modes> {
        if bits & !Modes::KNOWN == 0 { Some(Modes(bits)) } else { None }
    }
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Mode::ALL.iter().filter(|m| self.has(**m))).finish()
    }
}
