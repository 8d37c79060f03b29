//! Mappings as launchers write them, and malformed ones.

use super::*;
use proptest::prelude::*;

fn nodes(text: &str, size: u32) -> Vec<u32> {
    let mapping = ProcessMapping::parse(text).unwrap();
    let nodes: Vec<u32> = (0..size).map(|rank| mapping.node_of(rank)).collect();
    for node in 0..10 {
        let count = nodes.iter().filter(|n| **n == node).count();
        assert_eq!(mapping.ranks_on(node, size) as usize, count, "{text}, node {node}");
    }
    nodes
}

#[test]
fn blocks_repeat_until_all_ranks_are_placed() {
    assert_eq!(nodes("(vector,(0,1,1))", 4), [0, 0, 0, 0]);
    assert_eq!(nodes("(vector,(0,1,4))", 4), [0, 0, 0, 0]);
    assert_eq!(nodes("(vector,(0,2,2))", 4), [0, 0, 1, 1]);
    assert_eq!(nodes("(vector,(0,2,2))", 3), [0, 0, 1]);
    assert_eq!(nodes("(vector,(0,2,1),(0,2,1))", 4), [0, 1, 0, 1]);
    assert_eq!(nodes("(vector,(0,2,1))", 5), [0, 1, 0, 1, 0]);
    assert_eq!(nodes("(vector,(0,1,3),(1,2,1))", 7), [0, 0, 0, 1, 2, 0, 0]);
    // Hydra 5's repetitions, and nodes with one rank as mere numbers.
    assert_eq!(nodes("(vector,[(0,2,1)]x2)", 4), [0, 1, 0, 1]);
    assert_eq!(nodes("(vector,[(0,2,1)]x2)", 6), [0, 1, 0, 1, 0, 1]);
    assert_eq!(nodes("(vector,2,0,1)", 4), [2, 0, 1, 2]);
    assert_eq!(nodes("(vector,[(0,2,1),5]x2,(7,1,2),[1]x3)", 13), [0, 1, 5, 0, 1, 5, 7, 7, 1, 1, 1, 0, 1]);
    assert_eq!(nodes(" ( vector , (3,1,2) ,(1, 1,1) ) ", 3), [3, 3, 1]);
}

#[test]
fn nonsense_is_an_error_that_shows_it() {
    for text in [
        "",
        "()",
        "(vector)",
        "(vector,)",
        "vector,(0,1,1)",
        "(matrix,(0,1,1))",
        "(vector,(0,1))",
        "(vector,(0,1,1,1))",
        "(vector,(0,0,1))",
        "(vector,(0,1,0))",
        "(vector,(-1,1,1))",
        "(vector,(a,1,1))",
        "(vector,(4294967295,2,1))",
        "(vector,(0,1,1)",
        "(vector,(0,1,1),)",
        "(vector,(0,1,1)(1,1,1))",
        "(vector,[(0,1,1)])",
        "(vector,[(0,1,1)]x)",
        "(vector,[(0,1,1)]x0)",
        "(vector,[]x2)",
        "(vector,[[(0,1,1)]x2]x2)",
        "(vector,(0,1,1)) more",
        "(vector,4294967296)",
        "(vector,[(0,4294967295,4294967295)]x2)",
        "(vector,(0,4294967295,4294967295),(0,4294967295,4294967295))",
    ] {
        let error = ProcessMapping::parse(text).unwrap_err();
        assert!(error.to_string().contains(&format!("\"{text}\"")), "{error}");
    }
}

#[test]
fn huge_numbers_do_not_overflow() {
    let mapping = ProcessMapping::parse("(vector,(7,4294967288,4294967295))").unwrap();
    assert_eq!(mapping.node_of(u32::MAX), 8);
    assert_eq!(mapping.ranks_on(7, u32::MAX), u32::MAX);
    assert_eq!(mapping.ranks_on(8, u32::MAX), 0);
}

proptest! {
    #[test]
    fn any_text_is_harmless(text in "\\(vector[0-9(),x\\[\\] -]{0,60}\\)") {
        if let Ok(mapping) = ProcessMapping::parse(&text) {
            let node = mapping.node_of(12345);
            prop_assert!(mapping.ranks_on(node, 20_000) > 0);
        }
    }

    #[test]
    fn formula_and_walk_agree(
        groups in prop::collection::vec(
            (prop::collection::vec((0u32..6, 1u32..4, 1u32..4), 1..4), 1u32..4),
            1..4,
        ),
        size in 1u32..90,
    ) {
        let mut text = String::new();
        let mut once = Vec::new();
        for (blocks, times) in &groups {
            let list: Vec<_> = blocks.iter().map(|(a, b, c)| format!("({a},{b},{c})")).collect();
            text += &format!(",[{}]x{times}", list.join(","));
            for _ in 0..*times {
                for (first, nodes, ranks) in blocks {
                    once.extend((*first..first + nodes).flat_map(|n| vec![n; *ranks as usize]));
                }
            }
        }
        let mut walk = once.repeat(size as usize / once.len() + 1);
        walk.truncate(size as usize);
        prop_assert_eq!(nodes(&format!("(vector{text})"), size), walk);
    }
}
