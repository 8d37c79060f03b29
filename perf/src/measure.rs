//! Measures the device and the floors, round by round, between ranks 0 and 1.
//!
//! A round runs every variant of a test once, back to back, for every size; the next round uses the
//! opposite order. A slow moment of the machine then affects neighbouring variants alike. So ratios
//! are taken within each round, and the result is their median.

use std::time::{Duration, Instant};

use ch3_shim::{Comm, Device};

use crate::error::{During, Failure, Result};
use crate::floor::{Bare, Cache, Medium};
use crate::progress::Progress;
use crate::report::{Row, median, rounded};
use crate::sys::{To, Traffic};

/// Tag of measured messages.
const TAG: i32 = 0;
/// Tag of control messages from rank 0 to rank 1.
const CONTROL: i32 = 2;
/// Tag of acknowledgements.
pub(crate) const ACKS: i32 = 3;
/// Duration of a run that ends the calibration.
const CALIBRATED: Duration = Duration::from_millis(3);
const MAX_ITERS: u64 = 1 << 24;
const MIN_ROUNDS: usize = 5;
const MAX_ROUNDS: usize = 1000;
/// Multiple of the planned time after which a test ends with the rounds it has.
const PATIENCE: f64 = 3.0;

/// One rank's view of the two ranks that measure.
pub(crate) struct Pair<'d> {
    pub(crate) dev: &'d mut Device,
    pub(crate) bare: Bare,
    pub(crate) comm: Comm,
    /// True in rank 0, which starts and takes the time.
    pub(crate) lead: bool,
    pub(crate) peer: i32,
    pub(crate) netmod: String,
    pub(crate) address: String,
}

impl<'d> Pair<'d> {
    /// Connects ranks 0 and 1, which both call this. `crowded`: ranks share cores.
    pub(crate) fn new(dev: &'d mut Device, crowded: bool) -> Result<Pair<'d>> {
        let world = dev.world();
        let comm = dev.dup(world)?;
        let (bare, address) = Bare::connect(dev, comm, crowded)?;
        let lead = dev.rank() == 0;
        let peer = if lead { 1 } else { 0 };
        let choice =
            dev.report().into_iter().find(|r| r.rank == peer as u32).map(|r| r.choice).unwrap_or_default();
        // "shm: other node; tcp: chosen"
        let chosen = choice.split("; ").find_map(|c| c.strip_suffix(": chosen")).map(str::to_owned);
        let netmod = chosen.or_else(|| dev.netmods().first().map(ToString::to_string)).unwrap_or_default();
        Ok(Pair { dev, bare, comm, lead, peer, netmod, address })
    }

    /// Returns the destination of measured messages.
    pub(crate) fn to(&self) -> To {
        To { peer: self.peer, tag: TAG, comm: self.comm }
    }

    /// Returns when the other rank has called this, too. A library may still hold data that it
    /// reports as sent, and lose it when its endpoint is closed (libfabric's sockets). So neither
    /// rank may close its endpoint before the other has everything.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let mut theirs = [0];
        self.dev.sendrecv(&[0], self.peer, CONTROL, &mut theirs, self.peer, CONTROL, self.comm)?;
        Ok(())
    }

    /// Makes a number of rank 0 known to both ranks.
    fn agree(&mut self, mine: u64) -> Result<u64> {
        let mut word = mine.to_le_bytes();
        if self.lead {
            self.dev.send(&word, self.peer, CONTROL, self.comm)?;
        } else {
            self.dev.recv(&mut word, self.peer, CONTROL, self.comm)?;
        }
        Ok(u64::from_le_bytes(word))
    }
}

/// A variant of a test: the device, or a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The device.
    Ours,
    /// The floor with this index.
    Floor(usize),
}

/// A variant without the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// Its name.
    pub(crate) name: &'static str,
    /// A memcpy shown beside the floor without counting as one.
    pub(crate) beside: Option<Cache>,
}

impl Floor {
    /// A floor that may be used for the ratio.
    pub(crate) const fn new(name: &'static str) -> Floor {
        Floor { name, beside: None }
    }

    /// A memcpy that is only shown beside the floor.
    pub(crate) const fn beside(cache: Cache) -> Floor {
        Floor { name: "memcpy", beside: Some(cache) }
    }
}

/// A test between two ranks.
pub(crate) trait Test {
    /// Returns the name in the field `test`.
    fn name(&self) -> &'static str;
    /// Returns the unit of the values.
    fn unit(&self) -> &'static str;
    /// Returns the floors for messages of `bytes`; the best of them counts.
    fn floors(&self, medium: Medium, bytes: usize) -> &'static [Floor];
    /// Returns the number of messages in flight, if it is more than one.
    fn window(&self) -> Option<usize>;
    /// Returns the target duration of a run in seconds.
    fn phase(&self) -> f64;
    /// Returns the repetitions of a floor for `iters` of the device; fewer if the floor is much
    /// slower.
    fn floor_iters(&self, _medium: Medium, iters: usize) -> usize {
        iters
    }
    /// Returns true if smaller values are better: a time, not a rate.
    fn less_is_better(&self) -> bool {
        self.unit() == "us"
    }
    /// Runs the variant `iters` times; both ranks call this alike.
    fn run(
        &self,
        pair: &mut Pair<'_>,
        traffic: &mut Traffic,
        variant: Variant,
        bytes: usize,
        iters: usize,
    ) -> Result<()>;
    /// Returns the value of a run that took `seconds`.
    fn value(&self, seconds: f64, bytes: usize, iters: usize) -> f64;
}

/// Amount of measuring.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// Message sizes in bytes.
    pub(crate) bytes: Vec<usize>,
    /// Planned duration of the whole test in seconds, if the rounds are not given.
    pub(crate) seconds: f64,
    /// Number of rounds, if given.
    pub(crate) rounds: Option<usize>,
    /// Repetitions per round, if given.
    pub(crate) iters: Option<usize>,
}

#[derive(Debug)]
struct Series {
    bytes: usize,
    iters: usize,
    ours: Vec<f64>,
    floors: Vec<(Floor, Vec<f64>)>,
}

/// Runs a test; both ranks call this alike. Rank 0 returns the rows.
pub(crate) fn measure(
    pair: &mut Pair<'_>,
    test: &dyn Test,
    effort: &Effort,
    progress: &Progress,
) -> Result<Vec<Row>> {
    let start = Instant::now();
    let largest = effort.bytes.iter().copied().max().unwrap_or(0);
    let mut traffic = Traffic::new(largest.max(crate::floor::GULP), test.window().unwrap_or(1));
    fill_pattern(&mut traffic)?;
    let medium = pair.bare.medium();
    let mut all = Vec::new();
    for &bytes in &effort.bytes {
        progress.show(format!("{} {}", test.name(), crate::report::size(bytes)));
        let iters = calibrate(pair, test, &mut traffic, bytes, effort.iters)?;
        check_pattern(pair, &mut traffic, bytes)?;
        let floors = test.floors(medium, bytes).iter().map(|f| (*f, Vec::new())).collect();
        all.push(Series { bytes, iters, ours: Vec::new(), floors });
    }
    let mut rounds = 0;
    let mut advanced = 0.0;
    loop {
        let spent = start.elapsed().as_secs_f64() / effort.seconds;
        let more = match effort.rounds {
            Some(n) => rounds < n,
            // On a busy machine, even a few rounds may take too long.
            None => {
                rounds < MAX_ROUNDS
                    && (spent < 1.0 || rounds < MIN_ROUNDS)
                    && (spent < PATIENCE || rounds == 0)
            }
        };
        if pair.agree(u64::from(more))? == 0 {
            break;
        }
        for s in &mut all {
            progress.show(format!("{} {}", test.name(), crate::report::size(s.bytes)));
            let floors = s.floors.len();
            for i in 0..=floors {
                let i = if rounds % 2 == 0 { i } else { floors - i };
                let variant = if i == floors { Variant::Ours } else { Variant::Floor(i) };
                let iters =
                    if variant == Variant::Ours { s.iters } else { test.floor_iters(medium, s.iters).max(1) };
                test.run(pair, &mut traffic, variant, s.bytes, warm_up(iters))?;
                let began = Instant::now();
                test.run(pair, &mut traffic, variant, s.bytes, iters)?;
                let value = test.value(began.elapsed().as_secs_f64(), s.bytes, iters);
                match variant {
                    Variant::Ours => s.ours.push(value),
                    Variant::Floor(k) => s.floors[k].1.push(value),
                }
            }
        }
        rounds += 1;
        let done = effort
            .rounds
            .map_or(start.elapsed().as_secs_f64() / effort.seconds, |n| rounds as f64 / n as f64)
            .min(1.0);
        progress.advance((done - advanced) * effort.seconds);
        advanced = done;
    }
    Ok(if pair.lead { all.iter().map(|s| row(pair, test, s, rounds)).collect() } else { Vec::new() })
}

/// Returns the number of unmeasured repetitions before the measured ones.
fn warm_up(iters: usize) -> usize {
    (iters / 10).clamp(1, 200)
}

/// Finds the number of repetitions that makes a run as long as the test wants.
fn calibrate(
    pair: &mut Pair<'_>,
    test: &dyn Test,
    traffic: &mut Traffic,
    bytes: usize,
    given: Option<usize>,
) -> Result<usize> {
    let mut iters = given.unwrap_or(1) as u64;
    let each = loop {
        let n = pair.agree(iters)? as usize;
        let start = Instant::now();
        test.run(pair, traffic, Variant::Ours, bytes, n)?;
        let took = start.elapsed();
        // The first run makes connections and faults pages in, so one repetition tells nothing.
        let last = given.is_some() || iters >= MAX_ITERS || (took >= CALIBRATED && iters > 2);
        if pair.agree(u64::from(last))? != 0 {
            break took.as_secs_f64() / n.max(1) as f64;
        }
        iters *= 4;
    };
    let wanted = given.map_or_else(
        || (test.phase() / each.max(1e-9)).ceil().clamp(1.0, MAX_ITERS as f64) as u64,
        |n| n as u64,
    );
    Ok(pair.agree(wanted)? as usize)
}

fn pattern(i: usize) -> u8 {
    (i.wrapping_mul(31) ^ (i >> 8)).wrapping_add(7) as u8
}

fn fill_pattern(traffic: &mut Traffic) -> Result<()> {
    let (send, _) = traffic.buffers().during("use the buffers")?;
    send.iter_mut().enumerate().for_each(|(i, b)| *b = pattern(i));
    Ok(())
}

/// Checks that the received data is correct; the figures are worthless otherwise.
fn check_pattern(pair: &Pair<'_>, traffic: &mut Traffic, bytes: usize) -> Result<()> {
    let (_, recv) = traffic.buffers().during("use the buffers")?;
    // In a one-way test, rank 0 receives no data of that size.
    let expected = !pair.lead;
    match recv[..bytes].iter().enumerate().position(|(i, b)| *b != pattern(i)) {
        Some(i) if expected => Err(Failure::new(format!(
            "wrong data: byte {i} of a message of {bytes} bytes is {} instead of {}",
            recv[i],
            pattern(i)
        ))),
        _ => Ok(()),
    }
}

fn best(values: &[f64], less: bool) -> f64 {
    let pick = if less { f64::min } else { f64::max };
    values.iter().copied().reduce(pick).unwrap_or(f64::NAN)
}

fn row(pair: &Pair<'_>, test: &dyn Test, s: &Series, rounds: usize) -> Row {
    let less = test.less_is_better();
    // The same floor for all rounds: the best of each round would add the luck of two draws.
    let floor = s.floors.iter().filter(|(f, _)| f.beside.is_none()).min_by(|(_, a), (_, b)| {
        let (a, b) = (median(a), median(b));
        if less { a.total_cmp(&b) } else { b.total_cmp(&a) }
    });
    let memcpy = |cache| {
        let found = s.floors.iter().find(|(f, _)| f.beside == Some(cache));
        found.map(|(_, v)| rounded(median(v)))
    };
    let ratios: Vec<f64> =
        floor.map(|(_, f)| s.ours.iter().zip(f).map(|(o, f)| o / f).collect()).unwrap_or_default();
    Row {
        test: test.name().into(),
        netmod: Some(pair.netmod.clone()),
        bytes: Some(s.bytes),
        window: test.window(),
        value: rounded(median(&s.ours)),
        unit: test.unit().into(),
        floor: floor.map(|(_, f)| rounded(median(f))),
        floor_kind: floor.map(|(f, _)| f.name.into()),
        ratio: floor.map(|_| rounded(median(&ratios))),
        ranks: Some(pair.dev.size()),
        rounds: Some(rounds),
        best: Some(rounded(best(&s.ours, less))),
        floor_best: floor.map(|(_, f)| rounded(best(f, less))),
        memcpy_hot: memcpy(Cache::Hot),
        memcpy_cold: memcpy(Cache::Cold),
        provider: pair.bare.provider().map(str::to_owned),
        address: Some(pair.address.clone()),
        ..Row::default()
    }
}
