//! Tests with files in the kernel's format.

use super::*;
use crate::consts::IBV_LINK_LAYER_INFINIBAND;

#[test]
fn types_are_read_as_the_kernel_writes_them() {
    let device = std::env::temp_dir().join(format!("netmod-gid-{}", std::process::id()));
    let types = device.join("ports/1/gid_attrs/types");
    std::fs::create_dir_all(&types).expect("a folder");
    for (index, text) in ["IB/RoCE v1\n", "RoCE v2\n", "RoCE v3\n"].into_iter().enumerate() {
        std::fs::write(types.join(index.to_string()), text).expect("a file");
    }
    let of = |index, layer| gid_type(&device, 1, index, layer);
    assert_eq!(of(0, IBV_LINK_LAYER_ETHERNET).expect("RoCE"), IBV_GID_TYPE_ROCE_V1);
    assert_eq!(of(0, IBV_LINK_LAYER_INFINIBAND).expect("InfiniBand"), IBV_GID_TYPE_IB);
    assert_eq!(of(1, IBV_LINK_LAYER_ETHERNET).expect("RoCE"), IBV_GID_TYPE_ROCE_V2);
    let error = of(2, IBV_LINK_LAYER_ETHERNET).expect_err("nobody knows that");
    assert!(error.to_string().contains("types/2") && error.to_string().contains("RoCE v3"), "{error}");
    let error = of(9, IBV_LINK_LAYER_ETHERNET).expect_err("there is none");
    assert!(error.kind() == io::ErrorKind::NotFound && error.to_string().contains("types/9"), "{error}");
    std::fs::remove_dir_all(&device).expect("it can be removed");
}
