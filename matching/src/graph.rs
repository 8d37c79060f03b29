//! From endpoints and what joins them to pairs and verdicts, whatever the endpoints are: network interfaces, domains of
//! libfabric, ports of verbs.
//!
//! The pairs come from the first of these stages that gives any: endpoints of the first tier by proper ways; all
//! endpoints by proper ways; endpoints of the first tier by any way; all by any way.

use core::cmp::Reverse;
use core::num::NonZeroU32;

use crate::assign::{Weights, assign};
use crate::weight::{Class, MAX_ENDPOINTS, Packing, Weight, effective_speed};

/// Something that can be paired with one of the peer's.
pub trait Endpoint {
    /// What orders endpoints of a side, whatever order they are given in.
    type Key<'a>: Ord
    where
        Self: 'a;
    /// Why one cannot be used at all, or two not together.
    type Reason;

    /// Its place in the canonical order.
    fn key(&self) -> Self::Key<'_>;
    /// What people call it.
    fn label(&self) -> &str;
    /// What makes it one of the second tier, for people; `None` for the first tier.
    fn second_tier(&self) -> Option<&'static str>;
    /// Mb/s, if known.
    fn speed(&self) -> Option<u32>;
    /// Bytes, if known.
    fn mtu(&self) -> Option<u32>;
    /// Why it is of no use to any peer.
    fn unusable(&self) -> Option<Self::Reason>;
}

/// A way from an endpoint to one of the peer's, usable in both directions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge<W, R> {
    /// How good it is.
    pub class: Class,
    /// If it is to be used only when there is no other way at all between the hosts: why there is no proper one
    /// between these two.
    pub last_resort: Option<R>,
    /// The way.
    pub way: W,
}

/// What limits the choice; that of the deciding side holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Limits {
    /// Pairs that are known to be slower than the fastest one divided by this are left out.
    pub speed_ratio: Option<NonZeroU32>,
    /// Most pairs.
    pub max_rails: Option<NonZeroU32>,
}

/// Why two endpoints are a pair, or are not. "Own" is the left side where sides have no owner.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Verdict<R> {
    /// They are a pair.
    Paired,
    /// They could be one, but all in all others are better: the partners that they have. If neither has one, the
    /// number of rails is limited.
    Lost {
        /// Partner of the own one.
        own: Option<usize>,
        /// Partner of the peer's.
        peer: Option<usize>,
    },
    /// They could be one, but the speed ratio is limited.
    TooSlow {
        /// Mb/s of this pair.
        speed: u32,
        /// Mb/s of the fastest.
        fastest: u32,
    },
    /// They could be one, but one of them is of the second tier, and the first tier gave pairs.
    SecondTier,
    /// They have a way of last resort, and others have proper ones. Why these two have none.
    LastResort(R),
    /// Nothing can use the own one.
    OwnUnusable(R),
    /// Nothing can use the peer's.
    PeerUnusable(R),
    /// There is no way between them.
    Impossible(R),
    /// One of them is beyond the [`MAX_ENDPOINTS`] that are considered.
    Beyond,
}

impl<R> Verdict<R> {
    /// As the other side sees it.
    pub fn mirror(self, reason: impl FnOnce(R) -> R) -> Verdict<R> {
        match self {
            Verdict::Lost { own, peer } => Verdict::Lost { own: peer, peer: own },
            Verdict::OwnUnusable(r) => Verdict::PeerUnusable(reason(r)),
            Verdict::PeerUnusable(r) => Verdict::OwnUnusable(reason(r)),
            Verdict::Impossible(r) => Verdict::Impossible(reason(r)),
            Verdict::LastResort(r) => Verdict::LastResort(reason(r)),
            same @ (Verdict::Paired | Verdict::TooSlow { .. } | Verdict::SecondTier | Verdict::Beyond) => {
                same
            }
        }
    }
}

/// A pair: positions in the slices that were given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined<W> {
    /// On the left.
    pub left: usize,
    /// On the right.
    pub right: usize,
    /// What it is worth.
    pub weight: Weight,
    /// How packets go.
    pub way: W,
}

/// What was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decided<W, R> {
    /// The pairs, in the canonical order of the left side.
    pub pairs: Vec<Joined<W>>,
    left: Vec<Option<usize>>,
    right: Vec<Option<usize>>,
    columns: usize,
    verdicts: Vec<Verdict<R>>,
}

impl<W, R: Clone> Decided<W, R> {
    /// Why these two are a pair, or are not. Positions that do not exist are [`Verdict::Beyond`].
    pub fn verdict(&self, left: usize, right: usize) -> Verdict<R> {
        let at = |side: &[Option<usize>], i: usize| side.get(i).copied().flatten();
        match (at(&self.left, left), at(&self.right, right)) {
            (Some(row), Some(column)) => self.verdicts[row * self.columns + column].clone(),
            _ => Verdict::Beyond,
        }
    }
}

/// Positions of the endpoints, those that promise most first: in use, of the first tier, fast.
pub(crate) fn by_promise<E: Endpoint>(all: &[E]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_cached_key(|i| {
        let e = &all[*i];
        (e.unusable().is_some(), e.second_tier().is_some(), Reverse(effective_speed(e.speed())), e.key())
    });
    order
}

/// Positions of the endpoints that are considered, in canonical order: all, or of very many the [`MAX_ENDPOINTS`] that
/// promise most.
pub fn select<E: Endpoint>(all: &[E]) -> Vec<usize> {
    let mut chosen = if all.len() > MAX_ENDPOINTS { by_promise(all) } else { (0..all.len()).collect() };
    chosen.truncate(MAX_ENDPOINTS);
    chosen.sort_by(|a, b| all[*a].key().cmp(&all[*b].key()));
    chosen
}

/// Pairs the endpoints of two sides.
///
/// Both processes must put the same side on the left. `edge` gets one of the left and one of the right, both usable.
pub fn decide<E: Endpoint, W: Clone>(
    left: &[E],
    right: &[E],
    limits: &Limits,
    mut edge: impl FnMut(&E, &E) -> Result<Edge<W, E::Reason>, E::Reason>,
) -> Decided<W, E::Reason>
where
    E::Reason: Clone,
{
    let (rows, columns) = (select(left), select(right));
    let mut cells = Vec::with_capacity(rows.len() * columns.len());
    for &l in &rows {
        for &r in &columns {
            cells.push(Cell::new(&left[l], &right[r], &mut edge));
        }
    }
    let pairs = stages(&mut cells, columns.len(), rows.len(), limits);

    let (mut of_row, mut of_column) = (vec![None; rows.len()], vec![None; columns.len()]);
    for &(row, column) in &pairs {
        of_row[row] = Some(column);
        of_column[column] = Some(row);
    }
    let mut joined = Vec::with_capacity(pairs.len());
    let mut verdicts = Vec::with_capacity(cells.len());
    for (at, cell) in cells.into_iter().enumerate() {
        let (row, column) = (at / columns.len(), at % columns.len());
        verdicts.push(match cell {
            Cell::No(verdict) => verdict,
            Cell::Way { weight, edge, .. } if of_row[row] == Some(column) => {
                joined.push(Joined { left: rows[row], right: columns[column], weight, way: edge.way });
                Verdict::Paired
            }
            Cell::Way { refused: Some(verdict), .. } => verdict,
            Cell::Way { .. } => Verdict::Lost {
                own: of_row[row].map(|column| columns[column]),
                peer: of_column[column].map(|row| rows[row]),
            },
        });
    }
    let positions = |chosen: &[usize], n: usize| {
        let mut at = vec![None; n];
        for (i, c) in chosen.iter().enumerate() {
            at[*c] = Some(i);
        }
        at
    };
    Decided {
        pairs: joined,
        left: positions(&rows, left.len()),
        right: positions(&columns, right.len()),
        columns: columns.len(),
        verdicts,
    }
}

/// What is between an endpoint of the left and one of the right.
enum Cell<W, R> {
    No(Verdict<R>),
    Way {
        weight: Weight,
        edge: Edge<W, R>,
        second_tier: bool,
        /// The slower end's speed as far as it is known: no more than this.
        known_speed: u32,
        /// Why this way does not take part.
        refused: Option<Verdict<R>>,
    },
}

impl<W, R> Cell<W, R> {
    fn new<E: Endpoint<Reason = R>>(
        l: &E,
        r: &E,
        edge: impl FnOnce(&E, &E) -> Result<Edge<W, R>, R>,
    ) -> Cell<W, R> {
        if let Some(why) = l.unusable() {
            return Cell::No(Verdict::OwnUnusable(why));
        }
        if let Some(why) = r.unusable() {
            return Cell::No(Verdict::PeerUnusable(why));
        }
        match edge(l, r) {
            Err(why) => Cell::No(Verdict::Impossible(why)),
            Ok(edge) => {
                let known = |e: &E| e.speed().filter(|s| *s > 0).unwrap_or(u32::MAX);
                Cell::Way {
                    weight: Weight::new(edge.class, [l.speed(), r.speed()], [l.mtu(), r.mtu()]),
                    second_tier: l.second_tier().is_some() || r.second_tier().is_some(),
                    known_speed: known(l).min(known(r)),
                    edge,
                    refused: None,
                }
            }
        }
    }
}

/// The pairs (row, column) of the first stage that has any; marks the ways that do not take part.
fn stages<W, R: Clone>(
    cells: &mut [Cell<W, R>],
    columns: usize,
    rows: usize,
    limits: &Limits,
) -> Vec<(usize, usize)> {
    for (last_resort, second_tier) in [(false, false), (false, true), (true, false), (true, true)] {
        let takes_part = |c: &Cell<W, R>| match c {
            Cell::Way { edge, second_tier: second, .. } => {
                (last_resort || edge.last_resort.is_none()) && (second_tier || !second)
            }
            Cell::No(_) => false,
        };
        if !cells.iter().any(takes_part) {
            continue;
        }
        let fastest = cells.iter().filter(|c| takes_part(c)).filter_map(Cell::speed).max().unwrap_or(0);
        let mut taking_part: Vec<(usize, Weight)> = Vec::new();
        for (at, cell) in cells.iter_mut().enumerate() {
            let part = takes_part(cell);
            let Cell::Way { weight, edge, known_speed, refused, .. } = cell else { continue };
            if !part {
                *refused = Some(match &edge.last_resort {
                    Some(why) if !last_resort => Verdict::LastResort(why.clone()),
                    _ => Verdict::SecondTier,
                });
                continue;
            }
            let slow =
                |ratio: NonZeroU32| u64::from(*known_speed) * u64::from(ratio.get()) < u64::from(fastest);
            if limits.speed_ratio.is_some_and(slow) {
                *refused = Some(Verdict::TooSlow { speed: *known_speed, fastest });
                continue;
            }
            taking_part.push((at, *weight));
        }
        let packing = Packing::new(rows.min(columns), taking_part.iter().map(|(_, weight)| *weight));
        let mut weights = Weights::new(rows, columns);
        for (at, weight) in taking_part {
            weights.set(at / columns, at % columns, Some(packing.pack(weight)));
        }
        let pairs = assign(&weights);
        return match limits.max_rails {
            Some(most) if pairs.len() > most.get() as usize => at_most(&weights, most.get() as usize),
            _ => pairs,
        };
    }
    Vec::new()
}

impl<W, R> Cell<W, R> {
    fn speed(&self) -> Option<u32> {
        match self {
            Cell::Way { weight, .. } => Some(weight.speed),
            Cell::No(_) => None,
        }
    }
}

/// The best `k` pairs, where more are possible; these need not be among the best more.
///
/// What is to stay alone is matched with a stand-in that only real ones can be matched with, and there are just
/// enough stand-ins that `k` real pairs are left.
fn at_most(weights: &Weights, k: usize) -> Vec<(usize, usize)> {
    let (rows, columns) = (weights.rows(), weights.cols());
    let mut extended = Weights::new(rows + columns - k, columns + rows - k);
    for row in 0..extended.rows() {
        for column in 0..extended.cols() {
            let weight = match (row < rows, column < columns) {
                (true, true) => weights.get(row, column),
                (false, false) => None,
                _ => Some(0),
            };
            extended.set(row, column, weight);
        }
    }
    assign(&extended).into_iter().filter(|(row, column)| *row < rows && *column < columns).collect()
}
