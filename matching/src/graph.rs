//! Pairs and verdicts from endpoints and edges, whatever the endpoints are: network interfaces,
//! libfabric domains, verbs ports.
//!
//! The pairs come from the first of these stages that gives any:
//!
//! 1. endpoints of the first tier, by proper routes;
//! 2. all endpoints, by proper routes;
//! 3. endpoints of the first tier, by any route;
//! 4. all endpoints, by any route.

use core::cmp::Reverse;
use core::num::NonZeroU32;

use crate::assign::{Weights, assign};
use crate::weight::{Class, MAX_ENDPOINTS, Packing, Weight, effective_speed};

/// One side's candidate for a pair.
pub trait Endpoint {
    /// The key that orders the endpoints of a side, independent of the order in which they are
    /// given.
    type Key<'a>: Ord
    where
        Self: 'a;
    /// The reason why an endpoint is unusable, or two have no edge.
    type Reason;

    /// Returns the key of the canonical order.
    fn key(&self) -> Self::Key<'_>;
    /// Returns the name to show.
    fn label(&self) -> &str;
    /// Returns what puts it into the second tier, human-readable; `None` for the first tier.
    fn second_tier(&self) -> Option<&'static str>;
    /// Returns the speed in Mb/s, if known.
    fn speed(&self) -> Option<u32>;
    /// Returns the MTU in bytes, if known.
    fn mtu(&self) -> Option<u32>;
    /// Returns the reason why no peer can use it, or `None` if it is usable.
    fn unusable(&self) -> Option<Self::Reason>;
}

/// An edge between an endpoint and one of the peer's, usable in both directions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge<T, R> {
    /// Its quality.
    pub class: Class,
    /// The reason why these two have no proper route, for an edge of last resort.
    ///
    /// Such an edge is used only if the hosts have no other at all.
    pub last_resort: Option<R>,
    /// The route that it stands for.
    pub route: T,
}

/// Limits of the choice; the deciding side's apply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Limits {
    /// Pairs slower than the fastest one divided by this are left out, if their speed is known.
    pub speed_ratio: Option<NonZeroU32>,
    /// Most pairs.
    pub max_rails: Option<NonZeroU32>,
}

/// The reason why two endpoints are a pair, or are not.
///
/// "Own" is the left side where sides have no owner.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Verdict<R> {
    /// They are a pair.
    Paired,
    /// They could be a pair, but the partners that they have are better overall.
    ///
    /// If neither has a partner, the number of rails is limited.
    Lost {
        /// Partner of the own endpoint.
        own: Option<usize>,
        /// Partner of the peer's endpoint.
        peer: Option<usize>,
    },
    /// They could be a pair, but the speed ratio is limited.
    TooSlow {
        /// Mb/s of this pair.
        speed: u32,
        /// Mb/s of the fastest pair.
        fastest: u32,
    },
    /// They could be a pair, but one is of the second tier, and the first tier gave pairs.
    SecondTier,
    /// They have only a route of last resort, and others have proper ones. Holds the reason.
    LastResort(R),
    /// The own endpoint is unusable.
    OwnUnusable(R),
    /// The peer's endpoint is unusable.
    PeerUnusable(R),
    /// There is no route between them.
    Impossible(R),
    /// One of them is beyond the [`MAX_ENDPOINTS`] that are considered.
    Beyond,
}

impl<R> Verdict<R> {
    /// Returns the verdict as the other side sees it.
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

/// A pair, as positions in the slices given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined<T> {
    /// Position on the left.
    pub left: usize,
    /// Position on the right.
    pub right: usize,
    /// Its weight.
    pub weight: Weight,
    /// The route of its packets.
    pub route: T,
}

/// The pairs, and the verdict on all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decided<T, R> {
    /// The pairs, in the canonical order of the left side.
    pub pairs: Vec<Joined<T>>,
    left: Vec<Option<usize>>,
    right: Vec<Option<usize>>,
    columns: usize,
    verdicts: Vec<Verdict<R>>,
}

impl<T, R: Clone> Decided<T, R> {
    /// Returns why these two are a pair, or are not; [`Verdict::Beyond`] for positions that do not
    /// exist.
    pub fn verdict(&self, left: usize, right: usize) -> Verdict<R> {
        let at = |side: &[Option<usize>], i: usize| side.get(i).copied().flatten();
        match (at(&self.left, left), at(&self.right, right)) {
            (Some(row), Some(column)) => self.verdicts[row * self.columns + column].clone(),
            _ => Verdict::Beyond,
        }
    }
}

/// Returns the endpoints' positions, most promising first: usable, of the first tier, fast.
pub(crate) fn by_promise<E: Endpoint>(all: &[E]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_cached_key(|i| {
        let e = &all[*i];
        (e.unusable().is_some(), e.second_tier().is_some(), Reverse(effective_speed(e.speed())), e.key())
    });
    order
}

/// Returns the positions of the endpoints that are considered, in canonical order.
///
/// These are all, or the [`MAX_ENDPOINTS`] most promising ones.
pub fn select<E: Endpoint>(all: &[E]) -> Vec<usize> {
    let mut chosen = if all.len() > MAX_ENDPOINTS { by_promise(all) } else { (0..all.len()).collect() };
    chosen.truncate(MAX_ENDPOINTS);
    chosen.sort_by(|a, b| all[*a].key().cmp(&all[*b].key()));
    chosen
}

/// Pairs the endpoints of two sides.
///
/// Both processes must put the same side on the left. `edge` gets one endpoint of the left and one
/// of the right, both usable.
pub fn decide<E: Endpoint, T: Clone>(
    left: &[E],
    right: &[E],
    limits: &Limits,
    mut edge: impl FnMut(&E, &E) -> Result<Edge<T, E::Reason>, E::Reason>,
) -> Decided<T, E::Reason>
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
            Cell::Edge { weight, edge, .. } if of_row[row] == Some(column) => {
                joined.push(Joined { left: rows[row], right: columns[column], weight, route: edge.route });
                Verdict::Paired
            }
            Cell::Edge { refused: Some(verdict), .. } => verdict,
            Cell::Edge { .. } => Verdict::Lost {
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

/// The relation between an endpoint of the left and one of the right.
enum Cell<T, R> {
    No(Verdict<R>),
    Edge {
        weight: Weight,
        edge: Edge<T, R>,
        second_tier: bool,
        /// Upper bound of the speed in Mb/s: that of the slower end, as far as known.
        known_speed: u32,
        /// The verdict that excludes this edge, if any.
        refused: Option<Verdict<R>>,
    },
}

impl<T, R> Cell<T, R> {
    fn new<E: Endpoint<Reason = R>>(
        l: &E,
        r: &E,
        edge: impl FnOnce(&E, &E) -> Result<Edge<T, R>, R>,
    ) -> Cell<T, R> {
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
                Cell::Edge {
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

/// Returns the pairs (row, column) of the first stage that has any; marks the edges that it leaves
/// out.
fn stages<T, R: Clone>(
    cells: &mut [Cell<T, R>],
    columns: usize,
    rows: usize,
    limits: &Limits,
) -> Vec<(usize, usize)> {
    for (last_resort, second_tier) in [(false, false), (false, true), (true, false), (true, true)] {
        let takes_part = |c: &Cell<T, R>| match c {
            Cell::Edge { edge, second_tier: second, .. } => {
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
            let Cell::Edge { weight, edge, known_speed, refused, .. } = cell else { continue };
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

impl<T, R> Cell<T, R> {
    fn speed(&self) -> Option<u32> {
        match self {
            Cell::Edge { weight, .. } => Some(weight.speed),
            Cell::No(_) => None,
        }
    }
}

/// Returns the best `k` pairs where more are possible; they need not be part of a best larger set.
///
/// Endpoints that are to stay alone are matched with stand-ins, which only real endpoints can be
/// matched with. There are just enough stand-ins to leave `k` real pairs.
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
