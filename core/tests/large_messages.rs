//! Messages whose sizes and offsets do not fit 31 bits. In a file of its own because it takes some
//! seconds and 2 GiB of memory.

use lycaon::bench_support::messages::Endpoint;

#[test]
fn a_message_of_more_than_two_gib_arrives() {
    const LEN: usize = (1 << 31) + 4_321_007;
    let marks = [0, 1, (1 << 20) - 1, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 31) + 9, LEN - 1];
    let [mut near, mut far] = Endpoint::memory_pair();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // why: pages nobody writes to take no memory.
            let mut bytes = vec![0_u8; LEN];
            for (k, at) in (1..).zip(marks) {
                bytes[at] = k;
            }
            near.send(&bytes);
            near.send(b"after");
            near.close();
        });
        let mut place = vec![0_u8; LEN];
        far.recv(&mut place);
        let found: Vec<_> =
            (0..LEN).step_by(1 << 12).flat_map(|page| nonzero(&place, page)).collect();
        let expected: Vec<_> = marks.into_iter().zip(1..).collect();
        assert_eq!(found, expected);
        let mut after = [0; 5];
        far.recv(&mut after);
        assert_eq!(&after, b"after");
        far.close();
    });
}

/// Places and values of the bytes of a page that are not zero.
fn nonzero(bytes: &[u8], page: usize) -> Vec<(usize, u8)> {
    let page_bytes = &bytes[page..bytes.len().min(page + (1 << 12))];
    if page_bytes.iter().fold(0, |all, byte| all | byte) == 0 {
        return Vec::new();
    }
    let bytes = page_bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
    bytes.map(|(at, byte)| (page + at, *byte)).collect()
}
