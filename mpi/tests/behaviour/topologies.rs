//! Topologies of real ranks.

use netmod_mpi::Class;
use netmod_mpi::consts::{CART, DIST_GRAPH, GRAPH, PROC_NULL, UNDEFINED};
use netmod_mpi::handle::Info;

use crate::collectives::ints_of;
use crate::job::{WORLD, ints, run};

#[test]
fn a_grid_has_coordinates_slices_and_neighbours() {
    run(5, |mpi, me| {
        assert_eq!(mpi.topo_test(WORLD).expect("topo_test"), UNDEFINED);
        assert_eq!(mpi.cart_coords(WORLD, 0).expect_err("no grid").class, Class::TOPOLOGY);
        let mut dims = [0, 0];
        mpi.dims_create(4, &mut dims).expect("dims_create");
        let mut grid = mpi.cart_create(WORLD, &dims, &[true, false], true).expect("cart_create");
        if me == 4 {
            assert!(grid.is_null(), "a process too many");
            return;
        }
        assert_eq!(mpi.topo_test(grid).expect("topo_test"), CART);
        let (dims, periods, coords) = mpi.cart_get(grid).expect("cart_get");
        assert_eq!((dims, periods, coords.clone()), (vec![2, 2], vec![true, false], vec![me / 2, me % 2]));
        assert_eq!(mpi.cart_rank(grid, &coords).expect("cart_rank"), me);
        let (before, behind) = mpi.cart_shift(grid, 1, 1).expect("cart_shift");
        assert_eq!((before, behind), if me % 2 == 0 { (PROC_NULL, me + 1) } else { (me - 1, PROC_NULL) });
        let mut copy = mpi.comm_dup(grid).expect("dup");
        assert_eq!(mpi.cartdim_get(copy).expect("cartdim_get"), 2, "a copy has the topology, too");
        let mut rows = mpi.cart_sub(grid, &[false, true]).expect("cart_sub");
        assert_eq!(mpi.comm_size(rows).expect("size"), 2);
        assert_eq!(mpi.comm_rank(rows).expect("rank"), me % 2);
        let (mut mine, mut all) = ([10 * me, 10 * me + 1, 10 * me + 2, 10 * me + 3], [-1; 4]);
        mpi.neighbor_alltoall(
            crate::collectives::ints_of(&mut mine, 1),
            crate::collectives::ints_of(&mut all, 1),
            grid,
        )
        .expect("neighbor_alltoall");
        let other = (me + 2) % 4;
        let (left, right) = (
            if me % 2 == 1 { 10 * (me - 1) + 3 } else { -1 },
            if me % 2 == 0 { 10 * (me + 1) + 2 } else { -1 },
        );
        assert_eq!(all, [10 * other + 1, 10 * other, left, right]);
        let mut point = mpi.cart_sub(grid, &[false, false]).expect("cart_sub");
        assert_eq!(point.is_null(), me != 0, "a grid without dimensions has one cell");
        if me == 0 {
            assert_eq!((mpi.cartdim_get(point), mpi.comm_size(point)), (Ok(0), Ok(1)));
            mpi.comm_free(&mut point).expect("free");
        }
        for comm in [&mut rows, &mut copy, &mut grid] {
            mpi.comm_free(comm).expect("free");
        }
    });
}

#[test]
fn nobody_is_in_a_grid_without_cells() {
    run(2, |mpi, _| {
        let grid = mpi.cart_create(WORLD, &[2, 0], &[false, true], false).expect("cart_create");
        assert!(grid.is_null());
        assert_eq!(mpi.cart_map(WORLD, &[2, 0], &[false, true]), Ok(UNDEFINED));
        assert_eq!(mpi.cart_map(WORLD, &[2, -1], &[false, true]).expect_err("bad").class, Class::DIMS);
    });
}

#[test]
fn graphs_have_neighbours() {
    run(3, |mpi, me| {
        let mut ring = mpi.graph_create(WORLD, &[2, 4, 6], &[1, 2, 0, 2, 0, 1], false).expect("graph_create");
        assert_eq!(mpi.topo_test(ring).expect("topo_test"), GRAPH);
        assert_eq!(mpi.graphdims_get(ring).expect("graphdims_get"), (3, 6));
        assert_eq!(mpi.graph_neighbors(ring, 2).expect("graph_neighbors"), [0, 1]);
        let (mut mine, mut all) = ([me], [0; 2]);
        mpi.neighbor_allgather(ints(&mut mine), crate::collectives::ints_of(&mut all, 1), ring)
            .expect("allgather");
        assert_eq!(all.to_vec(), mpi.graph_neighbors(ring, me).expect("graph_neighbors"));
        mpi.comm_free(&mut ring).expect("free");
    });
}

#[test]
fn a_distributed_graph_is_put_together() {
    run(3, |mpi, me| {
        // Process 0 gives all edges: a ring with the weights 10, 11, 12.
        let (sources, degrees, ends, weights) = if me == 0 {
            (vec![0, 1, 2], vec![1, 1, 1], vec![1, 2, 0], vec![10, 11, 12])
        } else {
            (vec![], vec![], vec![], vec![])
        };
        let edges = (&sources[..], &degrees[..], &ends[..]);
        let mut ring =
            mpi.dist_graph_create(WORLD, edges, Some(&weights[..]), Info::NULL, false).expect("create");
        assert_eq!(mpi.topo_test(ring).expect("topo_test"), DIST_GRAPH);
        let graph = mpi.dist_graph_neighbors(ring).expect("neighbors");
        let (before, behind) = ((me + 2) % 3, (me + 1) % 3);
        assert_eq!((graph.sources, graph.destinations), (vec![before], vec![behind]));
        assert_eq!(graph.weights, Some((vec![10 + before], vec![10 + me])));
        let (mut mine, mut got) = ([me], [-1]);
        mpi.neighbor_alltoall(ints(&mut mine), ints(&mut got), ring).expect("neighbor_alltoall");
        assert_eq!(got, [before]);
        mpi.comm_free(&mut ring).expect("free");
        let adjacent = mpi.dist_graph_create_adjacent(WORLD, &[before], &[behind], None, Info::NULL, false);
        let mut adjacent = adjacent.expect("adjacent");
        assert_eq!(mpi.dist_graph_neighbors(adjacent).expect("neighbors").weights, None);
        mpi.comm_free(&mut adjacent).expect("free");
    });
}

#[test]
fn neighbours_are_not_the_group_of_the_same_call() {
    run(3, |mpi, me| {
        let mut ring = mpi.cart_create(WORLD, &[3], &[true], false).expect("create");
        let (mut mine, mut all) = ([me], [-1; 3]);
        // A call is kept for the next one like it, whose processes are others here.
        for _ in 0..2 {
            mpi.allgather(ints(&mut mine), ints_of(&mut all, 1), ring).expect("allgather");
            assert_eq!(all, [0, 1, 2]);
            mpi.neighbor_allgather(ints(&mut mine), ints_of(&mut all, 1), ring).expect("neighbours");
            assert_eq!(all[..2], [(me + 2) % 3, (me + 1) % 3]);
        }
        mpi.comm_free(&mut ring).expect("free");
    });
}
