use proptest::prelude::*;

use super::cost::cost;
use super::explain::{explain, thresholds};
use super::profile::LinkProfile;
use super::*;
use crate::collective::Algorithm::{Arena, Direct, Logarithmic, Ring, TwoStep};

fn facts(operation: Operation, size: usize, bytes: u64, kind: LinkKind) -> Facts {
    Facts {
        operation,
        size,
        bytes,
        shape: Shape::Uniform,
        links: Links::all(kind),
        arena: false,
        rank_order: false,
        by_hand: None,
        crowding: 1000,
    }
}

/// Prices that make the sums easy: α 1000, o 10, β 1 per byte, γ 2 per byte.
fn simple() -> Profile {
    let link =
        LinkProfile { latency_ps: 1000, message_ps: 10, kib_ps: 1024, processor_permille: 1000 };
    Profile { memory: link, shm: link, rdma: link, tcp: link, arena: link, reduce_kib_ps: 2048 }
}

fn time(operation: Operation, algorithm: Algorithm, size: usize, bytes: u64) -> u128 {
    cost(&facts(operation, size, bytes, LinkKind::Tcp), algorithm, &simple()).picoseconds
}

#[test]
fn the_formulas_are_those_of_the_textbook() {
    use Operation::*;
    // 4 ranks, 400 bytes: α + 6o + 3nβ + 4nγ and so on, worked out by hand.
    assert_eq!(time(AllReduce, Direct, 4, 400), 1000 + 60 + 1200 + 2 * 1600);
    assert_eq!(time(AllReduce, TwoStep, 4, 400), 2000 + 120 + 600 + 2 * 400);
    assert_eq!(time(AllReduce, Ring, 4, 400), 6000 + 120 + 600 + 2 * 600);
    assert_eq!(time(AllReduce, Logarithmic, 4, 400), 2000 + 40 + 800 + 2 * 1600);
    // 5 ranks: 4 that double, one that folds.
    assert_eq!(time(AllReduce, Logarithmic, 5, 400), 4000 + 60 + 1200 + 2 * 2400);
    assert_eq!(time(ReduceScatter, Direct, 4, 400), 1000 + 60 + 300 + 2 * 400);
    assert_eq!(time(ReduceScatter, Ring, 4, 400), 3000 + 60 + 300 + 2 * 600);
    assert_eq!(time(ReduceScatter, Logarithmic, 4, 400), 2000 + 40 + 300 + 2 * 600);
    assert_eq!(time(AllGather, Direct, 4, 400), 1000 + 60 + 300);
    assert_eq!(time(AllGather, Ring, 4, 400), 3000 + 60 + 300);
    assert_eq!(time(AllGather, Logarithmic, 4, 400), 2000 + 40 + 300);
    assert_eq!(time(Broadcast, Direct, 4, 400), 1000 + 30 + 1200);
    assert_eq!(time(Broadcast, TwoStep, 4, 400), 2000 + 60 + 400);
    assert_eq!(time(Broadcast, Ring, 4, 400), 3000 + 20 + 1200);
    assert_eq!(time(Broadcast, Logarithmic, 4, 400), 2000 + 20 + 800);
    assert_eq!(time(Reduce, Logarithmic, 8, 400), 3000 + 30 + 1200 + 2 * 1600);
    assert_eq!(time(Scan, Logarithmic, 5, 400), 3000 + 60 + 1200 + 2 * 2400);
    assert_eq!(time(Barrier, Logarithmic, 9, 0), 4000 + 80);
    assert_eq!(time(AllReduce, Arena, 4, 400), 2000 + 60 + 800 + 2 * 400);
}

#[test]
fn crowded_cores_slow_down_what_a_processor_does() {
    let mut profile = simple();
    let mut crowded = facts(Operation::AllReduce, 4, 400, LinkKind::Tcp);
    crowded.crowding = crowding(6, 2);
    assert_eq!(crowded.crowding, 3000);
    let time = |profile: &Profile| cost(&crowded, TwoStep, profile).picoseconds;
    assert_eq!(time(&profile), 3 * (2000 + 120 + 600 + 2 * 400));
    profile.tcp.processor_permille = 500;
    assert_eq!(time(&profile), 2 * (2000 + 120 + 600) + 3 * (2 * 400));
    assert_eq!((crowding(1, 8), crowding(3, 2), crowding(5, 0)), (1000, 1500, 5000));
}

#[test]
fn short_messages_go_straight_and_long_ones_in_two_steps() {
    let profile = Profile::BUILT_IN;
    for kind in [LinkKind::Memory, LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp] {
        for size in [2, 3, 4, 8] {
            let at = |bytes| choose(&facts(Operation::AllReduce, size, bytes, kind), &profile);
            assert!(matches!(at(8), Direct | Logarithmic), "{kind}, {size}: {}", at(8));
            assert_eq!(at(64 << 20), TwoStep, "{kind}, {size}");
        }
    }
    let tcp = |size| facts(Operation::AllReduce, size, 0, LinkKind::Tcp);
    // Two ranks: α + 2o are worth n·γ bytes of reduction saved, 24 µs at 0.1 ns.
    assert_eq!(thresholds(&tcp(2), &profile), [(1, Direct), (256 << 10, TwoStep)]);
    let many: Vec<Algorithm> = thresholds(&tcp(32), &profile).into_iter().map(|t| t.1).collect();
    assert_eq!(many, [Logarithmic, TwoStep]);
}

#[test]
fn the_crossover_is_where_the_costs_are_equal() {
    let profile = simple();
    // 4 ranks: 1060 + 3n + 8n against 2120 + 1.5n + 2n, equal at n = 141.3.
    let at = |bytes| choose(&facts(Operation::AllReduce, 4, bytes, LinkKind::Tcp), &profile);
    assert_eq!((at(1), at(140), at(142), at(1 << 30)), (Direct, Direct, TwoStep, TwoStep));
    // Broadcast to 4: 1030 + 3n, 2020 + 2n, 2060 + n, 3020 + 3n: the tree is never best.
    let at = |bytes| choose(&facts(Operation::Broadcast, 4, bytes, LinkKind::Tcp), &profile);
    assert_eq!((at(514), at(516)), (Direct, TwoStep));
    // Barrier: 1000 + 20·others against 1020·rounds.
    let at = |size| choose(&facts(Operation::Barrier, size, 0, LinkKind::Tcp), &profile);
    assert_eq!((at(2), at(16), at(1000)), (Direct, Direct, Logarithmic));
}

#[test]
fn a_ring_is_chosen_where_only_neighbours_have_fast_links() {
    let mut links = facts(Operation::AllReduce, 6, 64 << 20, LinkKind::Tcp);
    links.links = Links { any: LinkKind::Tcp, ring: LinkKind::Shm, width: Width::ONE };
    assert_eq!(choose(&links, &Profile::BUILT_IN), Ring);
    let neighbours = |a: usize, b: usize| match a.abs_diff(b) {
        1 | 5 => LinkKind::Shm,
        _ => LinkKind::Tcp,
    };
    assert_eq!(Links::of(6, neighbours), links.links);
    assert_eq!(Links::of(1, |_, _| panic!("no pairs")), Links::all(LinkKind::Memory));
    assert_eq!(
        Links::of(2, |a, b| if a == b { LinkKind::Tcp } else { LinkKind::Shm }).ring,
        LinkKind::Shm
    );
}

#[test]
fn cables_of_their_own_make_a_mesh_wider_and_more_of_them_a_ring() {
    // A device for each peer, so many cables to each: the devices of a rank are numbered.
    let mesh = |size: usize, cables: u32| -> Vec<Vec<Vec<u32>>> {
        let cell = |rank: usize, peer: usize| match rank == peer {
            true => Vec::new(),
            false => (0..cables).map(|cable| peer as u32 * cables + cable).collect(),
        };
        (0..size).map(|rank| (0..size).map(|peer| cell(rank, peer)).collect()).collect()
    };
    let width = |size: usize, table: &[Vec<Vec<u32>>]| {
        Links::all(LinkKind::Rdma).with_cables(size, |rank, peer| &table[rank][peer]).width
    };
    assert_eq!(width(2, &mesh(2, 1)), Width::ONE);
    assert_eq!(width(2, &mesh(2, 3)), Width { all: 3000, one: 3000, ring: 3000 });
    assert_eq!(width(4, &mesh(4, 1)), Width { all: 3000, one: 1000, ring: 2000 });
    assert_eq!(width(3, &mesh(3, 2)), Width { all: 4000, one: 2000, ring: 4000 });
    // One device for everybody is no wider than one, and the narrowest pair counts.
    let shared = vec![vec![vec![0_u32]; 4]; 4];
    assert_eq!(width(4, &shared), Width::ONE);
    let mut uneven = mesh(3, 2);
    (uneven[0][1], uneven[1][0]) = (vec![2], vec![0]);
    assert_eq!(width(3, &uneven), Width { all: 2000, one: 1000, ring: 2000 });
    // Links of another kind are not counted.
    let tcp = Links::all(LinkKind::Tcp).with_cables(4, |rank, peer| &shared[rank][peer]);
    assert_eq!(tcp, Links::all(LinkKind::Tcp));

    // What it is for: with a cable per pair, four ranks are better off with all of them at once.
    let mut f = facts(Operation::AllReduce, 4, 1 << 20, LinkKind::Rdma);
    let narrow = cost(&f, TwoStep, &simple()).picoseconds;
    let table = mesh(4, 1);
    f.links = f.links.with_cables(4, |rank, peer| &table[rank][peer]);
    let wide = cost(&f, TwoStep, &simple());
    assert_eq!(wide.width, 3000);
    let bytes = 2 * (3 << 20) / 4;
    assert_eq!(narrow - wide.picoseconds, bytes - bytes / 3);
    // A ring with two cables between neighbours and one between the others goes round.
    f = facts(Operation::AllReduce, 4, 256 << 20, LinkKind::Rdma);
    f.links.width = Width { all: 1000, one: 1000, ring: 4000 };
    assert_eq!(choose(&f, &Profile::BUILT_IN), Ring);
    assert_eq!(choose(&Facts { bytes: 8, ..f }, &Profile::BUILT_IN), Direct);
}

#[test]
fn wishes_are_kept_where_they_can_be() {
    let profile = Profile::BUILT_IN;
    let mut f = facts(Operation::AllReduce, 4, 8, LinkKind::Shm);
    f.by_hand = Some(Ring);
    assert_eq!(choose(&f, &profile), Ring);
    f.rank_order = true;
    assert!(sums_in_rank_order(f.operation, choose(&f, &profile)));
    f.by_hand = Some(TwoStep);
    assert_eq!(choose(&f, &profile), TwoStep);
    f.by_hand = Some(Arena);
    assert_ne!(choose(&f, &profile), Arena, "there is none");
    f.arena = true;
    assert_eq!(choose(&f, &profile), Arena);
    // What nobody knows the counts of goes straight, whatever is asked for.
    f = facts(Operation::Gather, 4, 0, LinkKind::Tcp);
    (f.shape, f.by_hand) = (Shape::Unknown, Some(Logarithmic));
    assert_eq!(choose(&f, &profile), Direct);
}

#[test]
fn the_table_marks_what_is_chosen() {
    let mut f = facts(Operation::AllReduce, 4, 1 << 20, LinkKind::Tcp);
    let text = explain(&f, &Profile::BUILT_IN);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "all_reduce, 4 ranks, 1048576 bytes");
    assert_eq!(lines.len(), 6, "{text}");
    let marked: Vec<&&str> = lines.iter().filter(|line| line.starts_with('*')).collect();
    assert_eq!(marked.len(), 1);
    assert!(marked[0].contains("two-step") && marked[0].contains("tcp"), "{text}");
    (f.arena, f.by_hand) = (true, Some(Direct));
    let text = explain(&f, &Profile::BUILT_IN);
    assert!(text.contains("direct by hand") && text.contains("\n* direct"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  arena       arena")), "{text}");
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let operations = Operation::ALL
        .into_iter()
        .filter(|operation| !operation.is_point_to_point() && *operation != Operation::Split);
    let kinds = vec![LinkKind::Memory, LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp];
    (
        proptest::sample::select(operations.collect::<Vec<_>>()),
        1..5000_usize,
        any::<u64>(),
        proptest::sample::select(vec![Shape::Uniform, Shape::ByRank, Shape::Unknown]),
        (proptest::sample::select(kinds.clone()), proptest::sample::select(kinds)),
        (any::<bool>(), any::<bool>()),
        proptest::option::of(proptest::sample::select(Algorithm::ALL.to_vec())),
        (any::<u32>(), any::<(u32, u32, u32)>()),
    )
        .prop_map(
            |(operation, size, bytes, shape, (any, ring), flags, by_hand, (crowding, width))| {
                Facts {
                    operation,
                    size,
                    bytes,
                    shape,
                    links: Links {
                        any,
                        ring,
                        width: Width { all: width.0, one: width.1, ring: width.2 },
                    },
                    arena: flags.0,
                    rank_order: flags.1,
                    by_hand,
                    crowding,
                }
            },
        )
}

proptest! {
    #[test]
    fn every_choice_is_allowed_and_the_cheapest(facts in any_facts(), scale in 0..u64::MAX) {
        let mut profile = Profile::BUILT_IN;
        profile.tcp.latency_ps = scale;
        let chosen = choose(&facts, &profile);
        prop_assert!(allowed(&facts, chosen));
        if facts.by_hand != Some(chosen) {
            let best = cost(&facts, chosen, &profile).picoseconds;
            for other in Algorithm::ALL.into_iter().filter(|other| allowed(&facts, *other)) {
                prop_assert!(best <= cost(&facts, other, &profile).picoseconds);
            }
        }
        prop_assert!(explain(&facts, &profile).contains("\n* "));
    }
}
