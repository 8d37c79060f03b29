//! Explanations of a pairing: as data, and as human-readable text.

use core::fmt;

use crate::canonical::{GO_FIRST, Omission, Omitted};
use crate::graph::{Endpoint, Verdict};
use crate::ip::Basis;
use crate::pairing::Pairing;
use crate::reach::MAX_REACH;
use crate::reason::{Reason, Whose};
use crate::record::{Cut, Nic};
use crate::size::{MAX_ADDRESSES, MAX_LEN};
use crate::weight::UNKNOWN_SPEED;

/// Width of the text in columns if the format does not give one (`{:80}`).
const WIDTH: usize = 110;
/// Least width of the last column of a table.
const LEAST: usize = 24;

/// A pair, human-readable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairLine {
    /// Own interface.
    pub own: String,
    /// Peer's interface.
    pub peer: String,
    /// Addresses, class and speed.
    pub text: String,
}

/// An interface without a partner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnusedLine {
    /// The side that it belongs to.
    pub whose: Whose,
    /// Name of the interface.
    pub nic: String,
    /// The reason.
    pub why: String,
}

/// The verdict on an own interface and one of the peer's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerdictLine {
    /// Own interface.
    pub own: String,
    /// Peer's interface.
    pub peer: String,
    /// The verdict; positions are those in the records.
    pub verdict: Verdict<Reason>,
    /// The verdict as text.
    pub text: String,
}

/// The whole explanation.
///
/// Names are escaped, so that a peer's names cannot send control sequences to a terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The pairs, in their canonical order.
    pub pairs: Vec<PairLine>,
    /// Interfaces without a partner, own ones first, in the order of the records.
    pub unused: Vec<UnusedLine>,
    /// Each own interface with each of the peer's, in the order of the records, without those that
    /// the records leave out.
    pub verdicts: Vec<VerdictLine>,
    /// Everything that was left out of either record.
    pub omitted: Vec<(Whose, Omitted)>,
    /// The counts of what did not fit into either record; empty if everything did.
    pub cut: Vec<CutLine>,
}

/// Counts of what did not fit into a host's record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutLine {
    /// The side whose record it is.
    pub whose: Whose,
    /// The counts.
    pub cut: Cut,
    /// The counts as text.
    pub text: String,
}

impl CutLine {
    fn new(whose: Whose, cut: Cut) -> Option<CutLine> {
        let parts = [(cut.nics, "interfaces"), (cut.addresses, "addresses"), (cut.routes, "routes")];
        let said: Vec<String> = parts
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n}{} {what}", if n == u16::MAX { " or more" } else { "" }))
            .collect();
        (!said.is_empty()).then(|| CutLine {
            whose,
            cut,
            text: format!(
                "{} had no room in what the host publishes of itself ({} KiB; {MAX_ADDRESSES} addresses of an interface, \
                 {MAX_REACH} routes of an address): of interfaces, {GO_FIRST} go first, of routes those with long prefixes; \
                 NETMOD_TCP_INTERFACE chooses interfaces",
                said.join(", "),
                MAX_LEN >> 10
            ),
        })
    }
}

fn escaped(name: &str) -> String {
    name.escape_debug().to_string()
}

fn name(nics: &[Nic], at: usize) -> String {
    nics.get(at).map_or_else(String::new, |n| escaped(&n.name))
}

impl Pairing {
    /// Explains why each pair of interfaces is one or is not, as data and as a table.
    pub fn explain(&self) -> Explanation {
        let [own, peer] = [&self.own, &self.peer];
        Explanation::new(self, [(&own.nics, &own.omitted, own.cut), (&peer.nics, &peer.omitted, peer.cut)])
    }
}

impl Explanation {
    /// Explains a pairing of these two records.
    fn new(pairing: &Pairing, records: [(&[Nic], &[Omitted], Cut); 2]) -> Explanation {
        let [(own, own_omitted, own_cut), (peer, peer_omitted, peer_cut)] = records;
        let mut verdicts = Vec::new();
        // The best verdict over all partners that each interface could have.
        let mut own_best: Vec<Option<Best>> = vec![None; own.len()];
        let mut peer_best: Vec<Option<Best>> = vec![None; peer.len()];
        let considered = |whose, nics: &[Nic]| -> Vec<usize> {
            (0..nics.len()).filter(|at| pairing.considers(whose, *at)).collect()
        };
        let peers = considered(Whose::Peer, peer);
        for o in considered(Whose::Own, own) {
            for &p in &peers {
                let (own_nic, peer_nic) = (&own[o], &peer[p]);
                let verdict = pairing.verdict(o, p);
                let text = text(&verdict, (own, o), (peer, p));
                Best::offer(&mut own_best[o], (Whose::Own, peer_nic), &verdict, &text);
                Best::offer(&mut peer_best[p], (Whose::Peer, own_nic), &verdict, &text);
                verdicts.push(VerdictLine {
                    own: escaped(&own_nic.name),
                    peer: escaped(&peer_nic.name),
                    verdict,
                    text,
                });
            }
        }
        let mut unused = Vec::new();
        let sides = [(Whose::Own, own, own_best, peer), (Whose::Peer, peer, peer_best, own)];
        for (whose, nics, best, others) in sides {
            for at in pairing.unmatched(whose) {
                let why = match &best[at] {
                    _ if !pairing.considers(whose, at) => continue,
                    None | Some(Best { rank: 0, .. }) if others.is_empty() => {
                        "the other side has no interfaces".to_owned()
                    }
                    None | Some(Best { rank: 0, .. }) => match nics[at].unusable() {
                        Some(reason) => reason.to_string(),
                        None => "none of the other side's interfaces is of use".to_owned(),
                    },
                    Some(best) => best.text.clone(),
                };
                let said = matches!(nics[at].unusable(), Some(Reason::Loopback | Reason::Port))
                    || best[at].as_ref().is_some_and(|b| b.says_kind);
                let note = nics[at].second_tier().filter(|_| !said);
                let note = note.map_or_else(String::new, |note| format!("{note}: "));
                unused.push(UnusedLine { whose, nic: escaped(&nics[at].name), why: note + &why });
            }
        }
        let pairs = pairing.pairs.iter().map(|p| {
            let basis = match p.basis {
                Basis::SameLocation => "; the same host and network namespace",
                Basis::BothTables => "",
                Basis::OneTable => "; by one side's routing tables, the other's are not known",
                Basis::Prefixes => "; guessed from the addresses' prefixes, no routing table was asked",
            };
            let (class, speed) = (p.weight.class.name(), p.weight.speed);
            let unknown = own[p.own].speed.is_none() || peer[p.peer].speed.is_none();
            let assumed = if unknown && speed == UNKNOWN_SPEED { " assumed" } else { "" };
            PairLine {
                own: name(own, p.own),
                peer: name(peer, p.peer),
                text: format!(
                    "{} to {}, {class}, {speed} Mb/s{assumed}{basis}",
                    p.own_address, p.peer_address
                ),
            }
        });
        let of = |whose, list: &[Omitted]| list.iter().map(|o| (whose, o.clone())).collect::<Vec<_>>();
        Explanation {
            pairs: pairs.collect(),
            unused,
            verdicts,
            omitted: [of(Whose::Own, own_omitted), of(Whose::Peer, peer_omitted)].concat(),
            cut: [CutLine::new(Whose::Own, own_cut), CutLine::new(Whose::Peer, peer_cut)]
                .into_iter()
                .flatten()
                .collect(),
        }
    }
}

/// The verdict that explains best why an interface has no partner.
#[derive(Clone)]
struct Best {
    rank: u8,
    reason: Option<Reason>,
    /// True if the text says what kind of interface it is.
    says_kind: bool,
    text: String,
}

impl Best {
    fn offer(best: &mut Option<Best>, (whose, with): (Whose, &Nic), verdict: &Verdict<Reason>, text: &str) {
        let (rank, reason) = (rank(verdict, whose), reason(verdict));
        if best.as_ref().is_none_or(|b| (b.rank, b.reason.as_ref()) < (rank, reason)) {
            let text = match reason {
                Some(_) => text.to_owned(),
                None => format!("with {}: {text}", escaped(&with.name)),
            };
            let says_kind = *verdict == Verdict::SecondTier;
            *best = Some(Best { rank, reason: reason.cloned(), says_kind, text });
        }
    }
}

fn reason(verdict: &Verdict<Reason>) -> Option<&Reason> {
    match verdict {
        Verdict::LastResort(r)
        | Verdict::Impossible(r)
        | Verdict::OwnUnusable(r)
        | Verdict::PeerUnusable(r) => Some(r),
        _ => None,
    }
}

/// Returns how close these two were to being a pair, seen from this side's interface.
fn rank(verdict: &Verdict<Reason>, whose: Whose) -> u8 {
    match (verdict, whose) {
        (Verdict::Paired, _) => 7,
        (Verdict::Lost { .. }, _) => 6,
        (Verdict::TooSlow { .. }, _) => 5,
        (Verdict::SecondTier, _) => 4,
        (Verdict::OwnUnusable(_), Whose::Own) | (Verdict::PeerUnusable(_), Whose::Peer) => 3,
        (Verdict::LastResort(_), _) => 2,
        (Verdict::Impossible(_), _) => 1,
        (Verdict::OwnUnusable(_) | Verdict::PeerUnusable(_) | Verdict::Beyond, _) => 0,
    }
}

/// Returns a verdict as text.
fn text(verdict: &Verdict<Reason>, (own, o): (&[Nic], usize), (peer, p): (&[Nic], usize)) -> String {
    match verdict {
        Verdict::Paired => "a pair".into(),
        Verdict::Lost { own: o_with, peer: p_with } => {
            let mut with = Vec::new();
            if let Some(at) = o_with {
                with.push(format!("{} with {}", name(own, o), name(peer, *at)));
            }
            if let Some(at) = p_with {
                with.push(format!("{} with {}", name(own, *at), name(peer, p)));
            }
            match with.is_empty() {
                false => format!("they could talk, but these pairs are better: {}", with.join(", ")),
                true => "they could talk, but no more rails are wanted".into(),
            }
        }
        Verdict::TooSlow { speed, fastest } => {
            format!("they could talk, but {speed} Mb/s are too little beside {fastest} Mb/s")
        }
        Verdict::SecondTier => {
            let note =
                own[o].second_tier().map(|n| (o, own, n)).or(peer[p].second_tier().map(|n| (p, peer, n)));
            match note {
                Some((at, nics, note)) => format!(
                    "they could talk, but {} is {note}: it serves only if no interfaces of the ordinary kinds do",
                    name(nics, at)
                ),
                None => "one of them is of the second tier".into(),
            }
        }
        Verdict::LastResort(Reason::OnlyLinkLocal) => {
            format!("{}: they serve only if nothing else does", Reason::OnlyLinkLocal)
        }
        Verdict::LastResort(why) => format!("{why}; link-local addresses serve only if nothing else does"),
        Verdict::OwnUnusable(why) | Verdict::PeerUnusable(why) | Verdict::Impossible(why) => why.to_string(),
        Verdict::Beyond => "one of them is not in the published records".into(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(WIDTH);
        if self.pairs.is_empty() {
            writeln!(f, "no pairs: no interface of one side can talk to one of the other\n")?;
        } else {
            let rows = self.pairs.iter().map(|p| [p.own.clone(), p.peer.clone(), p.text.clone()]);
            table(f, width, ["pair", "with peer's", "how"], rows.collect())?;
        }
        let rows = self.unused_rows();
        if !rows.is_empty() {
            table(f, width, ["not used", "interface", "why"], rows)?;
        }
        let rows = self.omitted.iter().map(|(whose, o)| {
            let what = match o.address {
                Some(a) if o.why != Omission::Address => format!("{}/{}: {}", a.ip, a.prefix, o.why),
                Some(a) => format!("{}: {}", a.ip, o.why),
                None => o.why.to_string(),
            };
            [side(*whose), escaped(&o.nic), what]
        });
        let cut = self.cut.iter().map(|c| [side(c.whose), "*".into(), c.text.clone()]);
        let rows: Vec<_> = rows.chain(cut).collect();
        if !rows.is_empty() {
            table(f, width, ["left out", "interface", "why"], rows)?;
        }
        let rows = self.verdict_rows();
        if !rows.is_empty() {
            table(f, width, ["own", "peer's", "why they are a pair or not"], rows)?;
        }
        Ok(())
    }
}

fn side(whose: Whose) -> String {
    match whose {
        Whose::Own => "own".into(),
        Whose::Peer => "peer's".into(),
    }
}

impl Explanation {
    /// Returns the interfaces without a partner; those that both sides have for the same reason
    /// share a row.
    fn unused_rows(&self) -> Vec<[String; 3]> {
        let of = |whose| self.unused.iter().filter(move |u| u.whose == whose);
        let same = |a: &UnusedLine, b: &UnusedLine| a.nic == b.nic && a.why == b.why;
        let mut rows = Vec::new();
        for u in of(Whose::Own) {
            let both = of(Whose::Peer).any(|p| same(u, p));
            rows.push([if both { "both".into() } else { side(Whose::Own) }, u.nic.clone(), u.why.clone()]);
        }
        for u in of(Whose::Peer).filter(|u| !of(Whose::Own).any(|o| same(o, u))) {
            rows.push([side(Whose::Peer), u.nic.clone(), u.why.clone()]);
        }
        rows
    }

    /// Returns the verdicts, one row for all partners that share one; unusable interfaces are
    /// listed elsewhere.
    fn verdict_rows(&self) -> Vec<[String; 3]> {
        let mut rows: Vec<(String, Vec<String>, String)> = Vec::new();
        let mut first = 0;
        for (at, line) in self.verdicts.iter().enumerate() {
            if at > 0 && self.verdicts[at - 1].own != line.own {
                first = rows.len();
            }
            if matches!(line.verdict, Verdict::OwnUnusable(_) | Verdict::PeerUnusable(_)) {
                continue;
            }
            match rows[first..].iter_mut().find(|r| r.2 == line.text) {
                Some(row) => row.1.push(line.peer.clone()),
                None => rows.push((line.own.clone(), vec![line.peer.clone()], line.text.clone())),
            }
        }
        rows.into_iter().map(|(own, peers, text)| [own, peers.join(", "), text]).collect()
    }
}

/// Writes columns side by side; the last one wraps at the width, the second one at a third of it.
fn table(f: &mut fmt::Formatter<'_>, width: usize, header: [&str; 3], rows: Vec<[String; 3]>) -> fmt::Result {
    let longest = |column: usize| {
        let cells = rows.iter().map(|r| r[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let one = longest(0).min(width / 4);
    let two = longest(1).min(width / 3);
    let three = width.saturating_sub(one + two + 4).max(LEAST);
    let header = header.map(str::to_owned);
    for row in core::iter::once(&header).chain(&rows) {
        let cells = [wrap(&row[0], one), wrap(&row[1], two), wrap(&row[2], three)];
        for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let cell = |c: usize| cells[c].get(at).map_or("", String::as_str);
            let line = format!("{:one$}  {:two$}  {}", cell(0), cell(1), cell(2));
            writeln!(f, "{}", line.trim_end())?;
        }
    }
    writeln!(f)
}

/// Splits text into lines of at most `width` characters, at spaces where possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let line = lines.last_mut().expect("one at least");
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + word.len() <= width {
                if gap > 0 {
                    line.push(' ');
                }
                line.extend(&word);
                break;
            }
            if used == 0 {
                line.extend(word.drain(..width));
            }
            lines.push(String::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests;
