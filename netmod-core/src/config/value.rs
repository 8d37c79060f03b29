//! The types of values: the accepted text of each, and its inverse.

use core::fmt;
use core::time::Duration;

/// The accepted values of a variable. `Display` describes them in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// `1`, `yes`, `on`, `true`, or their opposites.
    Bool,
    /// A number.
    Count {
        /// Least value.
        min: usize,
        /// Largest value.
        max: usize,
    },
    /// A number of bytes, optionally with one of the suffixes K, M, G (powers of 1024).
    Size {
        /// Least value.
        min: usize,
        /// Largest value.
        max: usize,
    },
    /// `auto` or a number of bytes.
    AutoSize {
        /// Least value.
        min: usize,
        /// Largest value.
        max: usize,
    },
    /// A whole number with one of the suffixes us, ms, s.
    Duration {
        /// Shortest duration.
        min: Duration,
        /// Longest duration.
        max: Duration,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text without control characters.
    Text {
        /// Largest length in bytes.
        max: usize,
    },
    /// Names separated by commas or spaces, at least one, none twice.
    Names,
    /// A range of ports such as `4000-4100`, one port, or nothing.
    Ports,
    /// `auto` or a number.
    Spin,
}

/// Most names of [`Kind::Names`].
const MAX_NAMES: usize = 16;
const MAX_POLLS: u32 = 1_000_000_000;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kind::Bool => f.write_str("1, yes, on or true, or 0, no, off or false"),
            Kind::Count { min, max } => write!(f, "a number from {min} to {max}"),
            Kind::Size { min, max } => {
                write!(f, "a size from {} to {}, such as 4096, 64K or 1M", size(min), size(max))
            }
            Kind::AutoSize { min, max } => write!(f, "auto or {}", Kind::Size { min, max }),
            Kind::Duration { min, max } => {
                write!(f, "a time from {} to {}, such as 50ms or 10s", time(min), time(max))
            }
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Text { max } => {
                write!(f, "text of at most {max} bytes without control characters")
            }
            Kind::Names => write!(
                f,
                "1 to {MAX_NAMES} different names of lower-case letters and digits, \
                 separated by commas"
            ),
            Kind::Ports => f.write_str("a range of ports from 1 to 65535 such as 4000-4100, or nothing"),
            Kind::Spin => write!(f, "auto or a number from 0 to {MAX_POLLS}"),
        }
    }
}

/// A type of values.
pub trait Setting: Sized {
    /// Parses a value; `None` if the kind does not accept it, or belongs to another type.
    fn parse(kind: Kind, text: &str) -> Option<Self>;

    /// Returns text that [`Setting::parse`] takes for the same value.
    fn show(&self, kind: Kind) -> String;
}

/// Sets `place`; returns false if the text is not accepted.
pub fn assign<T: Setting>(place: &mut T, kind: Kind, text: &str) -> bool {
    match T::parse(kind, text.trim()) {
        Some(value) => {
            *place = value;
            true
        }
        None => false,
    }
}

/// Parses digits and nothing else; `str::parse` would accept a sign.
fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn size(n: usize) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    match units.iter().find(|(shift, _)| n > 0 && n.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{}{unit}", n >> shift),
        None => n.to_string(),
    }
}

fn time(d: Duration) -> String {
    if d.subsec_nanos() == 0 {
        format!("{}s", d.as_secs())
    } else if d.subsec_nanos().is_multiple_of(1_000_000) {
        format!("{}ms", d.as_millis())
    } else {
        format!("{}us", d.as_micros())
    }
}

impl Setting for bool {
    fn parse(kind: Kind, text: &str) -> Option<bool> {
        let is = |words: [&str; 4]| words.iter().any(|w| w.eq_ignore_ascii_case(text));
        match kind {
            Kind::Bool if is(["1", "yes", "on", "true"]) => Some(true),
            Kind::Bool if is(["0", "no", "off", "false"]) => Some(false),
            _ => None,
        }
    }

    fn show(&self, _: Kind) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

impl Setting for usize {
    fn parse(kind: Kind, text: &str) -> Option<usize> {
        let (n, min, max) = match kind {
            Kind::Count { min, max } => (number(text)?, min, max),
            Kind::Size { min, max } => {
                let shift = match text.as_bytes().last()?.to_ascii_uppercase() {
                    b'K' => 10,
                    b'M' => 20,
                    b'G' => 30,
                    _ => 0,
                };
                let digits = if shift > 0 { &text[..text.len() - 1] } else { text };
                (number::<usize>(digits)?.checked_mul(1 << shift)?, min, max)
            }
            _ => return None,
        };
        (min..=max).contains(&n).then_some(n)
    }

    fn show(&self, kind: Kind) -> String {
        match kind {
            Kind::Size { .. } => size(*self),
            _ => self.to_string(),
        }
    }
}

/// `None` stands for `auto`.
impl Setting for Option<usize> {
    fn parse(kind: Kind, text: &str) -> Option<Option<usize>> {
        let Kind::AutoSize { min, max } = kind else {
            return None;
        };
        if text.eq_ignore_ascii_case("auto") {
            return Some(None);
        }
        usize::parse(Kind::Size { min, max }, text).map(Some)
    }

    fn show(&self, _: Kind) -> String {
        self.map_or_else(|| "auto".to_owned(), size)
    }
}

impl Setting for Duration {
    fn parse(kind: Kind, text: &str) -> Option<Duration> {
        let Kind::Duration { min, max } = kind else {
            return None;
        };
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        let n = number(&text[..end])?;
        let d = match text[end..].trim_start() {
            "us" => Duration::from_micros(n),
            "ms" => Duration::from_millis(n),
            "s" => Duration::from_secs(n),
            _ => return None,
        };
        (min..=max).contains(&d).then_some(d)
    }

    fn show(&self, _: Kind) -> String {
        time(*self)
    }
}

impl Setting for &'static str {
    fn parse(kind: Kind, text: &str) -> Option<&'static str> {
        let Kind::Choice(words) = kind else {
            return None;
        };
        words.iter().find(|w| w.eq_ignore_ascii_case(text)).copied()
    }

    fn show(&self, _: Kind) -> String {
        (*self).to_owned()
    }
}

impl Setting for String {
    fn parse(kind: Kind, text: &str) -> Option<String> {
        let Kind::Text { max } = kind else {
            return None;
        };
        (text.len() <= max && !text.contains(char::is_control)).then(|| text.to_owned())
    }

    fn show(&self, _: Kind) -> String {
        self.clone()
    }
}

impl Setting for Vec<String> {
    fn parse(kind: Kind, text: &str) -> Option<Vec<String>> {
        if kind != Kind::Names {
            return None;
        }
        let mut names: Vec<String> = Vec::new();
        let separator = |c: char| c == ',' || c == ' ';
        for name in text.split(separator).filter(|name| !name.is_empty()) {
            let good = name.len() <= crate::card::MAX_NAME
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            if !good || names.len() == MAX_NAMES || names.iter().any(|n| n == name) {
                return None;
            }
            names.push(name.to_owned());
        }
        (!names.is_empty()).then_some(names)
    }

    fn show(&self, _: Kind) -> String {
        self.join(",")
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port, at least 1.
    pub first: u16,
    /// Last port, at least `first`.
    pub last: u16,
}

impl PortRange {
    /// Returns the ports in ascending order.
    pub fn ports(self) -> core::ops::RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Setting for Option<PortRange> {
    fn parse(kind: Kind, text: &str) -> Option<Option<PortRange>> {
        if kind != Kind::Ports {
            return None;
        }
        if text.is_empty() {
            return Some(None);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        (1 <= first && first <= last).then_some(Some(PortRange { first, last }))
    }

    fn show(&self, _: Kind) -> String {
        self.map_or(String::new(), |range| range.to_string())
    }
}

/// Empty polls before blocking, with [`Spin::Auto`] and a core for each rank: enough for a reply
/// over any network.
pub const SPIN_MANY: u32 = 10_000;
/// Empty polls before yielding or blocking, with [`Spin::Auto`] and shared cores.
///
/// A spinning rank would take time from the rank that it waits for.
pub const SPIN_FEW: u32 = 2;

/// Factor by which polling lasts longer while one-sided transfers are in progress.
const PATIENCE: u32 = 64;

/// The time to poll before blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Chosen by the load of the node.
    Auto,
    /// A fixed number of polls.
    Polls(u32),
}

impl Spin {
    /// Returns the number of polls. `crowded`: more threads poll than there are cores.
    pub fn polls(self, crowded: bool) -> u32 {
        match self {
            Spin::Polls(n) => n,
            Spin::Auto if crowded => SPIN_FEW,
            Spin::Auto => SPIN_MANY,
        }
    }

    /// Returns the number of empty polls that do not count while a one-sided transfer is in
    /// progress.
    ///
    /// A transfer of 4 MiB takes longer than any reply, and a process that blocks is woken for each
    /// part of it. `polls` is the result of [`Spin::polls`].
    pub fn patience(self, polls: u32) -> u32 {
        match self {
            Spin::Auto if polls == SPIN_MANY => SPIN_MANY * PATIENCE,
            Spin::Auto | Spin::Polls(_) => 0,
        }
    }
}

impl Setting for Spin {
    fn parse(kind: Kind, text: &str) -> Option<Spin> {
        if kind != Kind::Spin {
            return None;
        }
        if text.eq_ignore_ascii_case("auto") {
            return Some(Spin::Auto);
        }
        number(text).filter(|&n| n <= MAX_POLLS).map(Spin::Polls)
    }

    fn show(&self, _: Kind) -> String {
        match self {
            Spin::Auto => "auto".to_owned(),
            Spin::Polls(n) => n.to_string(),
        }
    }
}
