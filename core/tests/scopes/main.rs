//! What fails in one group and what goes on in the others: five ranks, two sub-groups, and the
//! whole job.

#![cfg(unix)]

mod rank;
mod threads;

use std::time::{Duration, Instant};

use rank::{LONG, Rank};

const SECOND: Duration = Duration::from_secs(1);
const COLORS: [u32; 5] = [0, 0, 1, 1, 1];
/// Ranks of the first sub-group.
const SMALL: [usize; 2] = [0, 1];

/// In an ordinary run of the tests it does nothing.
#[test]
fn child() {
    rank::main();
}

fn left(since: Instant) -> Duration {
    SECOND.saturating_sub(since.elapsed())
}

/// A failure that names a rank.
fn names(rank: usize, line: &str) {
    assert!(line.starts_with("failed ") && !line.ends_with(" late"), "{line}");
    let known =
        [format!("rank {rank} died"), format!("ranks {rank} and"), format!("and {rank} broke")];
    assert!(known.iter().any(|text| line.contains(text)), "rank {rank} in: {line}");
}

fn each(ranks: &mut [Rank], of: &[usize], line: &str, answer: &str) {
    of.iter().for_each(|rank| ranks[*rank].say(line));
    of.iter().for_each(|rank| ranks[*rank].expect(answer));
}

fn close(mut ranks: Vec<Rank>, of: &[usize]) {
    of.iter().for_each(|rank| ranks[*rank].say("close"));
    of.iter().for_each(|rank| ranks[*rank].expect("closed"));
}

fn deaths_concern_the_groups_of_the_dead(links: &str) {
    let mut ranks = Rank::job(&COLORS, links);
    ranks.iter_mut().for_each(|rank| rank.say("loop"));
    std::thread::sleep(Duration::from_millis(300));
    let killed = ranks[3].kill();
    for rank in [2, 4] {
        names(3, &ranks[rank].hear(left(killed)));
    }
    // The others have gone on all the time, and go on.
    ranks[0].say("stop");
    SMALL.iter().for_each(|rank| ranks[*rank].expect("stopped"));
    each(&mut ranks, &SMALL, "run 1000", "ran 1000");
    for rank in [0, 1, 2, 4] {
        ranks[rank].say("world");
        let line = ranks[rank].hear(LONG);
        assert!(line.contains("can no longer be used"), "{line}");
        names(3, &line);
    }
    // The second death is told as well, and changes nothing where the first one counts.
    SMALL.iter().for_each(|rank| ranks[*rank].say("loop"));
    std::thread::sleep(Duration::from_millis(100));
    let killed = ranks[1].kill();
    names(1, &ranks[0].hear(left(killed)));
    for rank in [0, 2, 4] {
        ranks[rank].say("world");
        names(3, &ranks[rank].hear(LONG));
    }
    close(ranks, &[0, 2, 4]);
}

#[test]
fn deaths_concern_the_groups_of_the_dead_shm() {
    deaths_concern_the_groups_of_the_dead("shm");
}

#[test]
fn deaths_concern_the_groups_of_the_dead_tcp() {
    deaths_concern_the_groups_of_the_dead("tcp");
}

fn groups_without_rank_0_outlive_it(links: &str) {
    let mut ranks = Rank::job(&COLORS, links);
    ranks.iter_mut().for_each(|rank| rank.say("loop"));
    std::thread::sleep(Duration::from_millis(300));
    let killed = ranks[0].kill();
    names(0, &ranks[1].hear(left(killed)));
    ranks[2].say("stop");
    [2, 3, 4].iter().for_each(|rank| ranks[*rank].expect("stopped"));
    each(&mut ranks, &[2, 3, 4], "run 1000", "ran 1000");
    for rank in [1, 2, 3, 4] {
        ranks[rank].say("world");
        names(0, &ranks[rank].hear(LONG));
    }
    // Without rank 0 a death is seen on the links; a forked child does not hide it.
    ranks[4].say("idle-child");
    let idle: i32 = ranks[4].hear(LONG).parse().expect("the number of a process");
    [2, 3, 4].iter().for_each(|rank| ranks[*rank].say("loop"));
    std::thread::sleep(Duration::from_millis(300));
    let killed = ranks[4].kill();
    for rank in [2, 3] {
        names(4, &ranks[rank].hear(left(killed)));
    }
    // SAFETY: the number of a child of the rank that was just killed; it sleeps for a minute.
    assert_eq!(unsafe { libc::kill(idle, libc::SIGKILL) }, 0, "the child has outlived its parent");
    close(ranks, &[1, 2, 3]);
}

#[test]
fn groups_without_rank_0_outlive_it_shm() {
    groups_without_rank_0_outlive_it("shm");
}

#[test]
fn groups_without_rank_0_outlive_it_tcp() {
    groups_without_rank_0_outlive_it("tcp");
}

fn a_mismatch_concerns_one_group(links: &str) {
    let mut ranks = Rank::job(&COLORS, links);
    SMALL.iter().for_each(|rank| ranks[*rank].say("loop"));
    [2, 3, 4].iter().for_each(|rank| ranks[*rank].say("mismatch"));
    let lines: Vec<String> = [2, 3, 4].iter().map(|rank| ranks[*rank].hear(LONG)).collect();
    let cause = |line: &str| line[line.find("ranks called").expect(line)..].to_owned();
    for line in &lines {
        assert!(line.contains("30000") && line.contains("30001"), "{line}");
        assert_eq!(cause(line), cause(&lines[0]), "one cause for all");
    }
    ranks[1].say("stop");
    SMALL.iter().for_each(|rank| ranks[*rank].expect("stopped"));
    each(&mut ranks, &SMALL, "run 200", "ran 200");
    each(&mut ranks, &[0, 1, 2, 3, 4], "world", "ran 3");
    for rank in [2, 3, 4] {
        ranks[rank].say("run 1");
        let line = ranks[rank].hear(LONG);
        assert_eq!(cause(&line), cause(&lines[0]), "the group stays as it is");
    }
    close(ranks, &[0, 1, 2, 3, 4]);
}

#[test]
fn a_mismatch_concerns_one_group_shm() {
    a_mismatch_concerns_one_group("shm");
}

#[test]
fn a_mismatch_concerns_one_group_tcp() {
    a_mismatch_concerns_one_group("tcp");
}

fn a_forked_child_leaves_the_parent_s_groups_alone(links: &str) {
    let mut ranks = Rank::job(&COLORS, links);
    each(&mut ranks, &[0, 1, 2, 3, 4], "run 20", "ran 20");
    // Ranks 0, 2 and 3 receive what the last rank of their group sends later.
    let asking = [0, 2, 3];
    each(&mut ranks, &asking, "pend", "pends");
    // The others have no thread of their own in the child, so that the links are dropped there.
    each(&mut ranks, &[0, 1, 2, 3, 4], "forked", "child ended with 0");
    each(&mut ranks, &[0, 1, 2, 3, 4], "run 50", "ran 50");
    each(&mut ranks, &[1, 4], "feed", "fed");
    each(&mut ranks, &asking, "collect", "collected");
    each(&mut ranks, &[0, 1, 2, 3, 4], "world", "ran 3");
    close(ranks, &[0, 1, 2, 3, 4]);
}

#[test]
fn a_forked_child_leaves_the_parent_s_groups_alone_shm() {
    a_forked_child_leaves_the_parent_s_groups_alone("shm");
}

#[test]
fn a_forked_child_leaves_the_parent_s_groups_alone_tcp() {
    a_forked_child_leaves_the_parent_s_groups_alone("tcp");
}
