use super::*;

const PLAIN: Looks = Looks { tags: true, colour: [false; 2], terminal: [false; 2], shared: false };

fn text(merger: &mut Merger, sink: Sink) -> String {
    let chunks = merger.take();
    let bytes: Vec<u8> =
        chunks.into_iter().filter(|(to, _)| *to == sink).flat_map(|(_, bytes)| bytes).collect();
    String::from_utf8(bytes).unwrap()
}

fn out(rank: usize) -> usize {
    Merger::stream(rank, Sink::Out)
}

#[test]
fn lines_in_pieces_are_put_together() {
    let now = Instant::now();
    let mut merger = Merger::new(2, PLAIN, now);
    merger.feed(out(0), b"al", now);
    merger.feed(out(1), b"one\ntw", now);
    merger.feed(out(0), b"pha\nbe", now);
    merger.feed(out(1), b"o\n", now);
    assert_eq!(text(&mut merger, Sink::Out), "[1] one\n[0] alpha\n[1] two\n");
    merger.end(out(0), now);
    merger.end(out(0), now);
    merger.end(out(1), now);
    assert_eq!(text(&mut merger, Sink::Out), "[0] be\n", "a last line gets its end, once");
    assert_eq!(merger.next_tick(), None);
}

#[test]
fn sinks_stay_apart_and_tags_line_up() {
    let now = Instant::now();
    let mut merger = Merger::new(11, PLAIN, now);
    merger.feed(Merger::stream(3, Sink::Err), b"oh\n", now);
    merger.feed(out(10), b"fine\n", now);
    let chunks = merger.take();
    assert_eq!(chunks[0], (Sink::Err, b"[ 3] oh\n".to_vec()));
    assert_eq!(chunks[1], (Sink::Out, b"[10] fine\n".to_vec()));
}

#[test]
fn a_single_untagged_rank_is_passed_on_as_it_comes() {
    let now = Instant::now();
    let mut merger = Merger::new(1, Looks { tags: false, ..PLAIN }, now);
    merger.feed(out(0), b"no end", now);
    assert_eq!(text(&mut merger, Sink::Out), "no end");
    merger.end(out(0), now);
    assert_eq!(text(&mut merger, Sink::Out), "", "and nothing is added");
}

#[test]
fn a_long_line_passes_through_bounded_memory_uncut() {
    let now = Instant::now();
    let mut merger = Merger::new(2, PLAIN, now);
    let piece = "x".repeat(10_000);
    let mut shown = String::new();
    for _ in 0..100 {
        assert!(merger.accepts(out(0)));
        merger.feed(out(0), piece.as_bytes(), now);
        merger.feed(out(1), b"waits\n", now);
        shown += &text(&mut merger, Sink::Out);
        assert!(merger.streams[out(0)].held.len() < LONGEST_HELD);
    }
    merger.feed(out(0), b"end\nnext\n", now);
    shown += &text(&mut merger, Sink::Out);
    let long = format!("[0] {}end\n", "x".repeat(1_000_000));
    assert!(shown.contains(&long), "one line, one tag");
    assert_eq!(shown.matches("[1] waits\n").count(), 100);
    assert!(shown.contains("[0] next\n"));
    assert_eq!(shown.len(), long.len() + 9 + 100 * 10);
}

#[test]
fn those_who_wait_are_bounded_too() {
    let now = Instant::now();
    let mut merger = Merger::new(2, PLAIN, now);
    merger.feed(out(0), &[b'x'; LONGEST_HELD], now);
    let mut fed = 0;
    while merger.accepts(out(1)) {
        merger.feed(out(1), b"0123456789\n", now);
        fed += 1;
    }
    assert!(fed * 11 <= LONGEST_HELD + 11);
    merger.take();
    merger.feed(out(0), b"\n", now);
    assert_eq!(text(&mut merger, Sink::Out).matches("[1] 0123456789\n").count(), fed);
    assert!(merger.accepts(out(1)));
}

#[test]
fn silence_in_the_middle_of_a_long_line_does_not_block_others() {
    let now = Instant::now();
    let mut merger = Merger::new(2, PLAIN, now);
    merger.feed(out(0), &[b'x'; LONGEST_HELD], now);
    assert_eq!(merger.next_tick(), None, "nobody waits");
    merger.feed(out(1), b"hello\n", now);
    merger.take();
    let at = merger.next_tick().unwrap();
    merger.tick(at - Duration::from_millis(1));
    assert_eq!(text(&mut merger, Sink::Out), "");
    merger.tick(at);
    assert_eq!(text(&mut merger, Sink::Out), "\n[1] hello\n");
    merger.feed(out(0), b"tail\nnew\n", at);
    assert_eq!(text(&mut merger, Sink::Out), "[0]+ tail\n[0] new\n");
}

#[test]
fn an_endless_line_gives_way_in_the_end() {
    let start = Instant::now();
    let mut merger = Merger::new(2, PLAIN, start);
    merger.feed(out(0), &[b'x'; LONGEST_HELD], start);
    merger.feed(out(1), b"hello\n", start);
    let mut now = start;
    let mut shown = false;
    while now < start + 2 * LONGEST_FLOOR && !shown {
        now += Duration::from_millis(50);
        merger.feed(out(0), b"xxxx", now);
        merger.tick(now);
        shown = text(&mut merger, Sink::Out).contains("[1] hello\n");
    }
    assert!(shown && now >= start + LONGEST_FLOOR);
}

#[test]
fn silence_counts_only_while_somebody_listens() {
    let start = Instant::now();
    let mut merger = Merger::new(2, PLAIN, start);
    merger.feed(out(0), &[b'x'; LONGEST_HELD], start);
    merger.feed(out(1), b"hello\n", start);
    merger.take();
    let mut now = start;
    for _ in 0..20 {
        now += PATIENCE;
        merger.excuse(now);
        merger.tick(now);
    }
    assert_eq!(text(&mut merger, Sink::Out), "");
    merger.feed(out(0), b"\n", now);
    assert_eq!(text(&mut merger, Sink::Out), "\n[1] hello\n");
}

#[test]
fn a_prompt_is_shown_on_a_terminal_only() {
    let now = Instant::now();
    let mut hidden = Merger::new(2, PLAIN, now);
    hidden.feed(out(0), b"name? ", now);
    assert_eq!(hidden.next_tick(), None);
    let mut merger = Merger::new(2, Looks { terminal: [true; 2], ..PLAIN }, now);
    merger.feed(out(0), b"name? ", now);
    let at = merger.next_tick().unwrap();
    merger.tick(at);
    assert_eq!(text(&mut merger, Sink::Out), "[0] name? ");
    merger.feed(out(0), b"yes\n", at);
    assert_eq!(text(&mut merger, Sink::Out), "yes\n");
}

#[test]
fn the_launchers_words_begin_on_a_line_of_their_own() {
    let now = Instant::now();
    let mut merger = Merger::new(2, Looks { shared: true, ..PLAIN }, now);
    merger.feed(out(0), &[b'x'; LONGEST_HELD], now);
    merger.take();
    merger.notice("lycaon: hear");
    let chunks = merger.take();
    assert_eq!(chunks, [(Sink::Out, b"\n".to_vec()), (Sink::Err, b"lycaon: hear\n".to_vec())]);
    merger.end(out(0), now);
    assert_eq!(text(&mut merger, Sink::Out), "", "a broken line has its end already");
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let now = Instant::now();
    let mut merger = Merger::new(2, Looks { tags: false, ..PLAIN }, now);
    let all: Vec<u8> = (0..=255).collect();
    for half in all.chunks(128) {
        merger.feed(out(1), half, now);
    }
    merger.end(out(1), now);
    let bytes: Vec<u8> = merger.take().into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes, [&all[..], b"\n"].concat());
}

#[test]
fn colours_wrap_the_tag_alone() {
    let now = Instant::now();
    let mut merger = Merger::new(2, Looks { colour: [true, false], ..PLAIN }, now);
    merger.feed(out(1), b"x\n", now);
    merger.feed(Merger::stream(1, Sink::Err), b"y\n", now);
    assert_eq!(text(&mut merger, Sink::Out), "\x1b[32m[1]\x1b[0m x\n");
}
