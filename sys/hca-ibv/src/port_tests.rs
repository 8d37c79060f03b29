//! Tests of the entries of GID tables.

use super::*;

fn entry(gid: [u8; 16], gid_index: u32, gid_type: u32) -> ibv_gid_entry {
    ibv_gid_entry { gid: ibv_gid { raw: gid }, gid_index, port_num: 1, gid_type, ndev_ifindex: 7 }
}

#[test]
fn entries_have_a_kind_and_an_address_or_are_none() {
    let kinds = [
        (IBV_GID_TYPE_IB, GidKind::Ib),
        (IBV_GID_TYPE_ROCE_V1, GidKind::RoceV1),
        (IBV_GID_TYPE_ROCE_V2, GidKind::RoceV2),
    ];
    for (code, kind) in kinds {
        let expected = GidEntry { gid: Gid([3; 16]), index: 255, kind, ifindex: 7 };
        assert_eq!(used(&entry([3; 16], 255, code)), Some(expected));
    }
    assert_eq!(used(&entry([0; 16], 1, IBV_GID_TYPE_IB)), None);
    assert_eq!(used(&entry([3; 16], 1, 4711)), None);
    assert_eq!(used(&entry([3; 16], 256, IBV_GID_TYPE_IB)), None);
}

#[test]
fn an_interface_is_found_by_what_the_kernel_says() {
    let root = std::env::temp_dir().join(format!("netmod-hca-ibv-{}", std::process::id()));
    let (device, interfaces) = (root.join("device"), root.join("net"));
    let ndevs = device.join("ports/2/gid_attrs/ndevs");
    std::fs::create_dir_all(&ndevs).expect("a folder");
    std::fs::create_dir_all(interfaces.join("eth7")).expect("a folder");
    std::fs::write(ndevs.join("5"), "eth7\n").expect("a file");
    std::fs::write(interfaces.join("eth7/ifindex"), "12\n").expect("a file");
    assert_eq!(interface(&device, &interfaces, 2, 5), 12);
    assert_eq!(interface(&device, &interfaces, 2, 6), 0);
    assert_eq!(interface(&device, &interfaces, 1, 5), 0);
    std::fs::remove_dir_all(&root).expect("it is there");
}
