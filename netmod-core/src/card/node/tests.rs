//! The node section: of this machine, from text, and across versions.

use super::*;

#[test]
fn this_process_is_described() {
    let node = NodeSection::of_this_process().unwrap();
    assert_eq!(node.pid, std::process::id());
    assert!(node.cores >= 1 && !node.hostname.is_empty());
    assert_ne!(node.boot_id, [0; 16]);
    assert!(node.same_node(&NodeSection::of_this_process().unwrap()));
    let mut card = CardWriter::new();
    node.emit(&mut card).unwrap();
    assert_eq!(crate::Card::parse(&card.finish()).unwrap().node().unwrap(), node);
}

#[test]
fn kernel_files_are_parsed() {
    let id = parse_uuid("01234567-89ab-cdef-0000-00000000ff10").unwrap();
    assert_eq!(id[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]);
    assert_eq!(id[14..], [0xFF, 0x10]);
    for bad in ["", "01234567", "0123456789abcdef000000000000ff10", "é", "-".repeat(36).as_str()] {
        assert_eq!(parse_uuid(bad), None);
    }
    assert_eq!(parse_uuid("g1234567-89ab-cdef-0000-00000000ff10"), None);
}

#[test]
fn later_versions_may_append() {
    let node = NodeSection { hostname: "a".into(), boot_id: [7; 16], pid: 1, cores: 2 };
    let mut card = CardWriter::new();
    node.emit(&mut card).unwrap();
    let card = crate::Card::parse(&card.finish()).unwrap();
    let longer = [card.section(NODE_SECTION).unwrap().body, &[1, 2]].concat();
    let section = |version| Section { name: NODE_SECTION, version, body: &longer };
    assert_eq!(NodeSection::parse(section(2)).unwrap(), node);
    assert!(matches!(NodeSection::parse(section(1)), Err(CardError::Trailing { left: 2, .. })));
}

#[test]
fn values_out_of_bounds_are_refused() {
    let good = NodeSection { hostname: "a".into(), boot_id: [7; 16], pid: 1, cores: 2 };
    let bad = [
        NodeSection { hostname: "x".repeat(256), ..good.clone() },
        NodeSection { hostname: "a\nb".into(), ..good.clone() },
        NodeSection { cores: 0, ..good.clone() },
    ];
    for node in bad {
        let err = node.emit(&mut CardWriter::new()).unwrap_err();
        assert!(matches!(err, CardError::Malformed { .. }), "{err}");
    }
    assert!(good.emit(&mut CardWriter::new()).is_ok());
}
