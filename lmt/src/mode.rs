//! The four modes, and sets of them.

use core::fmt;

/// Who moves the data of a large message, and how.
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
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Null, Mode::Put, Mode::Get, Mode::Coop];

    /// Its name in the configuration.
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

/// A set of modes, which always has [`Mode::Null`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Modes(u8);

impl Modes {
    /// Null alone.
    pub const NULL: Modes = Modes(0);
    const KNOWN: u8 = Mode::Put.bit() | Mode::Get.bit() | Mode::Coop.bit();

    /// The set with one more.
    #[must_use]
    pub const fn with(self, mode: Mode) -> Modes {
        Modes(self.0 | mode.bit())
    }

    /// The set without one. Null stays.
    #[must_use]
    pub const fn without(self, mode: Mode) -> Modes {
        Modes(self.0 & !mode.bit())
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Modes) -> Modes {
        Modes(self.0 & other.0)
    }

    /// Whether it has the mode.
    pub const fn has(self, mode: Mode) -> bool {
        self.0 & mode.bit() == mode.bit()
    }

    /// As it travels: a bit for each but Null.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits; `None` if one of them is of no mode.
    pub const fn of_bits(bits: u8) -> Option<Modes> {
        if bits & !Modes::KNOWN == 0 { Some(Modes(bits)) } else { None }
    }
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Mode::ALL.iter().filter(|m| self.has(**m))).finish()
    }
}
