//! The plan of injected faults, and its text form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest delay of a plan.
const LONGEST: Duration = Duration::from_secs(60);

/// A plan of faults: their kinds, probabilities and seed.
///
/// Its text form (`NETMOD_FAULTS`) is a list such as `seed=7,drop=0.001,delay=1ms..5ms,split=0.5`,
/// with the names given at the fields. Every decision depends on the seed, the two ranks of a
/// connection, and the number of the message or byte on that connection. So faults of sends and
/// altered bits repeat from run to run; those of received pieces do as far as the network cuts its
/// pieces the same way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// `seed`: seed of all random decisions.
    pub seed: u64,
    /// `drop`: probability, per message sent, that the connection breaks.
    ///
    /// With a netmod that cannot break a connection, the VC is aborted.
    pub drop: f64,
    /// `abort`: probability, per message sent, that the VC is aborted.
    pub abort: f64,
    /// `delay`: time for which received bytes are held; their order on each VC is kept.
    pub delay: Option<Span>,
    /// `split`: probability that a received piece is cut, and each of its parts again.
    pub split: f64,
    /// `corrupt`: probability, per received byte, that one of its bits is altered.
    pub corrupt: f64,
    /// `refuse`: probability that a connecting peer is refused.
    pub refuse: f64,
    /// `send_delay`: time for which messages are held; their order on each VC is kept.
    pub send_delay: Option<Span>,
    /// `rank`: the only rank with faults; without it all have them.
    pub rank: Option<u32>,
}

/// A range of durations, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Shortest.
    pub min: Duration,
    /// Longest.
    pub max: Duration,
}

impl Span {
    /// Returns a random duration of the range.
    pub(crate) fn pick(self, rng: &mut netmod_harness::Rng) -> Duration {
        let width = self.max.saturating_sub(self.min).as_nanos() as u64;
        self.min + Duration::from_nanos(rng.below(width + 1))
    }
}

/// The reason why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An item is not of the form `name=value`.
    #[error(
        "`{item}` is not of the form name=value; an example is seed=7,drop=0.001,delay=1ms..5ms,split=0.5"
    )]
    Form {
        /// The item.
        item: String,
    },
    /// The name is unknown.
    #[error(
        "there is no fault `{name}`; there are drop, abort, delay, split, corrupt, refuse, send_delay, and seed and rank"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A name is given twice.
    #[error("`{name}` is given twice; leave one of them out")]
    Twice {
        /// The name.
        name: String,
    },
    /// The value is not accepted.
    #[error("{name}={value} is not accepted; expected {expected}")]
    Value {
        /// The name.
        name: String,
        /// The value.
        value: String,
        /// Description of the accepted values.
        expected: &'static str,
    },
}

const PROBABILITY: &str = "a probability from 0 to 1, such as 0.001 or 1e-6";
const NUMBER: &str = "a whole number";
const SPAN: &str = "a time such as 5ms or a range such as 1ms..5ms, of us, ms or s, at most 60s";

fn probability(text: &str) -> Option<f64> {
    text.parse().ok().filter(|p: &f64| (0.0..=1.0).contains(p))
}

fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let n = text[..end].parse().ok()?;
    let d = match &text[end..] {
        "us" => Duration::from_micros(n),
        "ms" => Duration::from_millis(n),
        "s" => Duration::from_secs(n),
        _ => return None,
    };
    (d <= LONGEST).then_some(d)
}

fn span(text: &str) -> Option<Span> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let span = Span { min: duration(min.trim())?, max: duration(max.trim())? };
    (span.min <= span.max).then_some(span)
}

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<FaultPlan, PlanError> {
        let mut plan = FaultPlan::default();
        let mut seen: Vec<&str> = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(PlanError::Form { item: item.escape_debug().to_string() });
            };
            let (name, value) = (name.trim(), value.trim());
            if seen.contains(&name) {
                return Err(PlanError::Twice { name: name.into() });
            }
            let wrong = |expected| PlanError::Value {
                name: name.into(),
                value: value.escape_debug().to_string(),
                expected,
            };
            let chance = || probability(value).ok_or_else(|| wrong(PROBABILITY));
            let time = || span(value).map(Some).ok_or_else(|| wrong(SPAN));
            match name {
                "seed" => plan.seed = value.parse().map_err(|_| wrong(NUMBER))?,
                "rank" => plan.rank = Some(value.parse().map_err(|_| wrong(NUMBER))?),
                "drop" => plan.drop = chance()?,
                "abort" => plan.abort = chance()?,
                "split" => plan.split = chance()?,
                "corrupt" => plan.corrupt = chance()?,
                "refuse" => plan.refuse = chance()?,
                "delay" => plan.delay = time()?,
                "send_delay" => plan.send_delay = time()?,
                _ => return Err(PlanError::Name { name: name.escape_debug().to_string() }),
            }
            seen.push(name);
        }
        Ok(plan)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |d: Duration| d.as_micros();
        if self.min == self.max {
            return write!(f, "{}us", us(self.min));
        }
        write!(f, "{}us..{}us", us(self.min), us(self.max))
    }
}

/// Writes the text form of the plan.
impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        let chances = [
            ("drop", self.drop),
            ("abort", self.abort),
            ("split", self.split),
            ("corrupt", self.corrupt),
            ("refuse", self.refuse),
        ];
        for (name, p) in chances.into_iter().filter(|(_, p)| *p > 0.0) {
            write!(f, ",{name}={p}")?;
        }
        for (name, span) in [("delay", self.delay), ("send_delay", self.send_delay)] {
            if let Some(span) = span {
                write!(f, ",{name}={span}")?;
            }
        }
        self.rank.map_or(Ok(()), |rank| write!(f, ",rank={rank}"))
    }
}

impl FaultPlan {
    /// Creates a plan without faults; set the fields, or use the methods below.
    pub fn new(seed: u64) -> FaultPlan {
        FaultPlan { seed, ..FaultPlan::default() }
    }

    /// Sets the probability that a received piece is cut.
    #[must_use]
    pub fn split(mut self, probability: f64) -> FaultPlan {
        self.split = probability;
        self
    }

    /// Sets the range of times for which received bytes are held.
    #[must_use]
    pub fn delay(mut self, min: Duration, max: Duration) -> FaultPlan {
        self.delay = Some(Span { min, max: max.max(min) });
        self
    }

    /// Sets the range of times for which messages are held.
    #[must_use]
    pub fn send_delay(mut self, min: Duration, max: Duration) -> FaultPlan {
        self.send_delay = Some(Span { min, max: max.max(min) });
        self
    }

    /// Sets the probability, per message sent, that the connection breaks.
    #[must_use]
    pub fn drop(mut self, probability: f64) -> FaultPlan {
        self.drop = probability;
        self
    }

    /// Sets the probability, per message sent, that the VC is aborted.
    #[must_use]
    pub fn abort(mut self, probability: f64) -> FaultPlan {
        self.abort = probability;
        self
    }

    /// Sets the probability, per received byte, that a bit is altered.
    #[must_use]
    pub fn corrupt(mut self, probability: f64) -> FaultPlan {
        self.corrupt = probability;
        self
    }

    /// Returns true if this rank has faults.
    pub fn concerns(&self, rank: u32) -> bool {
        self.rank.is_none_or(|only| only == rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plan_is_read() {
        let plan: FaultPlan =
            "seed=7, drop=0.001,delay=1ms..5ms,split=0.5,corrupt=1e-6,refuse=1,send_delay=20us,rank=3,abort=0"
                .parse()
                .unwrap();
        let ms = Duration::from_millis;
        let us = Duration::from_micros(20);
        let expected = FaultPlan {
            refuse: 1.0,
            rank: Some(3),
            ..FaultPlan::new(7).drop(0.001).delay(ms(1), ms(5)).split(0.5).corrupt(1e-6).send_delay(us, us)
        };
        assert_eq!(plan, expected);
        assert_eq!(plan.to_string().parse::<FaultPlan>().unwrap(), plan);
        assert!(plan.concerns(3) && !plan.concerns(2));
        assert_eq!("".parse::<FaultPlan>(), Ok(FaultPlan::default()));
    }

    #[test]
    fn errors_name_what_is_wrong_and_what_is_right() {
        let error = |text: &str| text.parse::<FaultPlan>().unwrap_err().to_string();
        assert!(error("drop").contains("`drop` is not of the form name=value"));
        assert!(error("dorp=1").contains("there is no fault `dorp`; there are drop, abort"));
        assert!(error("drop=1.5").contains("drop=1.5 is not accepted; expected a probability"));
        assert!(error("drop=nan").contains("a probability"));
        assert!(error("delay=5ms..1ms").contains("expected a time"));
        assert!(error("delay=5").contains("a range such as 1ms..5ms"));
        assert!(error("delay=61s").contains("at most 60s"));
        assert!(error("seed=-1").contains("a whole number"));
        assert!(error("seed=1,seed=2").contains("given twice"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_plan_or_an_error(text in "\\PC{0,40}") {
            let _ = text.parse::<FaultPlan>();
        }

        #[test]
        fn what_is_shown_is_read_again(seed: u64, drop in 0.0..1.0f64, a in 0u64..50_000, b in 0u64..50_000) {
            let us = Duration::from_micros;
            let plan = FaultPlan::new(seed).drop(drop).delay(us(a.min(b)), us(a.max(b)));
            prop_assert_eq!(plan.to_string().parse::<FaultPlan>().unwrap(), plan);
        }
    }
}
