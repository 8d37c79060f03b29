//! `match`: cost of tag matching, which must not grow with the queue.

use ch3_shim::tagmatch::bench;

use crate::cli::{MatchArgs, MatchOrder};
use crate::progress::Progress;
use crate::report::{Row, median, rounded};

/// Runs the rounds, each with all queue lengths in turn.
pub(crate) fn measure(args: &MatchArgs, seconds: f64, progress: &Progress) -> Vec<Row> {
    let one = match args.order {
        MatchOrder::InOrder => bench::exact_in_order,
        MatchOrder::Random => bench::exact_random,
    };
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); args.queue.len()];
    for _ in 0..args.rounds {
        for (queue, times) in args.queue.iter().zip(&mut times) {
            progress.show(format!("match {queue} receives"));
            times.push(one(*queue, args.iters as usize));
        }
        progress.advance(seconds / f64::from(args.rounds));
    }
    let shortest = (0..args.queue.len()).min_by_key(|&i| args.queue[i]);
    let rows = args.queue.iter().enumerate().map(|(i, queue)| {
        let floor = shortest.filter(|s| *s != i);
        let ratios: Option<Vec<f64>> =
            floor.map(|s| times[i].iter().zip(&times[s]).map(|(v, f)| v / f).collect());
        Row {
            test: "match".into(),
            queue: Some(*queue),
            order: Some(args.order.name().into()),
            value: rounded(median(&times[i])),
            unit: "ns".into(),
            floor: floor.map(|s| rounded(median(&times[s]))),
            floor_kind: floor.map(|s| format!("the same with {} receives", args.queue[s])),
            ratio: ratios.map(|r| rounded(median(&r))),
            rounds: Some(args.rounds as usize),
            best: times[i].iter().copied().reduce(f64::min).map(rounded),
            ..Row::default()
        }
    });
    rows.collect()
}
